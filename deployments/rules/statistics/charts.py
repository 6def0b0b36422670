"""Points of a chart on a fixed grid of time; what was not observed is a gap, never a zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from console.errors import FieldError, Invalid

MAX_POINTS = 1500

_STEPS = (1, 5, 10, 15, 30, 60, 300, 900, 1800, 3600, 7200, 14400, 86400)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grid:
    """Steps of `step` seconds from `start` up to and without `end`, aligned to the step."""

    start: datetime
    end: datetime
    step: int

    @property
    def times(self) -> list[datetime]:
        count = int((self.end - self.start).total_seconds()) // self.step
        return [self.start + timedelta(seconds=self.step * index) for index in range(count)]

    def slot(self, moment: datetime) -> datetime | None:
        """The step that a moment falls into; None outside the grid."""
        if not self.start <= moment < self.end:
            return None
        index = int((moment - self.start).total_seconds()) // self.step
        return self.start + timedelta(seconds=self.step * index)


def grid(start: datetime, end: datetime, *, step: int = 0, finest: int = 60) -> Grid:
    """A grid over the time span; `step` 0 picks one with at most about 240 points.

    Raises Invalid when the span is empty or a wanted step is finer than `finest` seconds or gives
    more than 1500 points.
    """
    span = (end - start).total_seconds()
    if span <= 0:
        raise Invalid(
            "The time span is empty.",
            code="invalid_span",
            hint="Give a `from` before `to`.",
            errors=(FieldError("/from", "Not before `to`."),),
        )
    if not step:
        step = next((s for s in _STEPS if s >= finest and span / s <= 240), _STEPS[-1])
    if step < finest or step % finest or span / step > MAX_POINTS:
        raise Invalid(
            f"A step of {step} s does not suit this span.",
            code="invalid_step",
            hint=f"Use a multiple of {finest} s that gives at most {MAX_POINTS} points.",
            errors=(FieldError("/step", "Too fine for this span."),),
        )
    first = datetime.fromtimestamp(int(start.timestamp()) // step * step, UTC)
    last = datetime.fromtimestamp(-(-int(end.timestamp()) // step) * step, UTC)
    return Grid(first, last, step)


def parse_span(text: str) -> timedelta:
    """`15m`, `1h`, `7d` as a time span. Raises Invalid."""
    amount, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not amount.isascii() or not amount.isdecimal() or not int(amount):
        raise Invalid(
            f"{text!r} is no time span.",
            code="invalid_span",
            hint="Write it as 15m, 1h or 7d.",
            errors=(FieldError("/window", "Use a number and s, m, h or d."),),
        )
    return timedelta(seconds=int(amount) * _UNITS[unit])


def bucket(grid: Grid, points: Iterable[tuple[datetime, T]]) -> dict[datetime, list[T]]:
    """The points of each step that has any."""
    slots: dict[datetime, list[T]] = {}
    for moment, value in points:
        if (slot := grid.slot(moment)) is not None:
            slots.setdefault(slot, []).append(value)
    return slots


def series(
    name: str,
    grid: Grid,
    slots: Mapping[datetime, T],
    measure: Callable[[T], float | None],
    *,
    version: int | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """One line of a chart: a value for each step, None where nothing was observed."""
    times = grid.times
    values = [measure(slots[time]) if time in slots else None for time in times]
    line: dict[str, Any] = {
        "name": name,
        "x": [_text(time) for time in times],
        "y": [None if value is None else round(value, 4) for value in values],
    }
    if version:
        line["version"] = version
    if unit:
        line["unit"] = unit
    return line


def chart(
    lines: Sequence[dict[str, Any]],
    *,
    limit: tuple[float, str] | None = None,
    markers: Iterable[tuple[datetime, str]] = (),
) -> dict[str, Any]:
    """The document that the chart module draws."""
    document: dict[str, Any] = {"series": list(lines)}
    if limit is not None:
        document["limit"] = {"value": limit[0], "label": limit[1]}
    document["markers"] = [{"t": _text(moment), "label": label} for moment, label in markers]
    return document


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
