"""The spells of an incident: from when to when callers were not well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

ENDED, BEGAN_AGAIN = "ended", "joined"
MARKS = (ENDED, BEGAN_AGAIN)
"""The kinds of lines of a timeline that end a spell, or begin one where none goes on."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of time; it goes on while `ended_at` is None."""

    started_at: datetime
    ended_at: datetime | None


def spells(
    started_at: datetime, ended_at: datetime | None, marks: Iterable[tuple[str, datetime]]
) -> list[Spell]:
    """An incident's spells, oldest first, never none; `marks` are its lines' kinds in order."""
    found: list[Spell] = []
    began: datetime | None = started_at
    for kind, at in marks:
        if kind == ENDED and began is not None:
            found.append(Spell(began, max(began, at)))
            began = None
        elif kind == BEGAN_AGAIN and began is None:
            began = at
    if began is not None:
        found.append(Spell(began, ended_at))
    return found


def seconds_of(found: Sequence[Spell]) -> float | None:
    """How long callers were not well, all spells together; None while one goes on."""
    total = timedelta(0)
    for one in found:
        if one.ended_at is None:
            return None
        total += max(one.ended_at - one.started_at, timedelta(0))
    return total.total_seconds()
