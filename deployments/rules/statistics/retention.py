"""How long each kind of count is kept, and what such a policy may not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.errors import FieldError, Invalid

LONGEST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Kept:
    """One kind of count: its field, the fewest days, and the finer kind that it may not outlast."""

    field: str
    least: int
    finer: str = ""


KINDS: tuple[Kept, ...] = (
    # A month and a rolling window of 28 days are looked at minute by minute.
    Kept("minutes_days", 35),
    Kept("hours_days", 92, "minutes_days"),
    Kept("days_days", 366, "hours_days"),
    Kept("series_minutes_days", 2),
    Kept("series_hours_days", 7, "series_minutes_days"),
    Kept("mirrors_days", 2),
    # Two versions are compared over a week at most.
    Kept("comparisons_days", 7),
    Kept("outcomes_days", 7),
    Kept("gaps_days", 366),
)
FIELDS: tuple[str, ...] = tuple(kind.field for kind in KINDS)


def check(days: Mapping[str, int]) -> None:
    """Raise Invalid `invalid_retention` unless every kind is kept long enough; 0 is for ever."""
    faults = [fault for kind in KINDS for fault in _faults(kind, days)]
    if faults:
        raise Invalid(
            "Counts cannot be kept like that.",
            code="invalid_retention",
            hint="Give whole days, 0 for ever; the coarser stays as long as the finer, or longer.",
            errors=tuple(faults),
        )


def _faults(kind: Kept, days: Mapping[str, int]) -> list[FieldError]:
    wanted = days[kind.field]
    if not wanted:
        return []
    if not kind.least <= wanted <= LONGEST_DAYS:
        detail = f"Between {kind.least} and {LONGEST_DAYS} days, or 0 for ever."
        return [FieldError(f"/{kind.field}", detail)]
    finer = days[kind.finer] if kind.finer else 1
    if not finer or finer > wanted:
        return [FieldError(f"/{kind.field}", "Shorter than what it is made from is kept.")]
    return []
