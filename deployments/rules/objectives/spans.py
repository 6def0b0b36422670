"""Stretches of whole minutes, and how those that are left out add up. Times are UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

MINUTE = timedelta(minutes=1)


class Span(NamedTuple):
    """From `start` up to, without, `end`."""

    start: datetime
    end: datetime

    @property
    def minutes(self) -> int:
        """Whole minutes of it; 0 where it is empty."""
        return max(int((self.end - self.start) // MINUTE), 0)

    def meets(self, other: Span) -> bool:
        """Whether both have a moment in common; touching is none."""
        return self.start < other.end and other.start < self.end


def floor_minute(moment: datetime) -> datetime:
    """The minute that a moment lies in, UTC: counts are kept by whole minutes."""
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def ceil_minute(moment: datetime) -> datetime:
    """The first whole minute at or after a moment, UTC."""
    floor = floor_minute(moment)
    return floor if floor == moment else floor + MINUTE


def clip(span: Span, within: Span) -> Span | None:
    """The part of a span that lies within another; None for none."""
    start, end = max(span.start, within.start), min(span.end, within.end)
    return Span(start, end) if start < end else None


def union(spans: Iterable[Span]) -> list[Span]:
    """The same moments as spans that neither overlap nor touch, in order."""
    found: list[Span] = []
    for span in sorted(span for span in spans if span.start < span.end):
        if found and span.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def left_over(within: Span, without: Iterable[Span]) -> list[Span]:
    """What is left of a span when others are taken out of it, in order."""
    found, start = [], within.start
    for span in union(without):
        if start < span.start:
            found.append(Span(start, min(span.start, within.end)))
        start = max(start, span.end)
        if start >= within.end:
            return [part for part in found if part.start < part.end]
    return [*found, Span(start, within.end)]


def minutes_of(spans: Iterable[Span]) -> int:
    """Minutes that the spans cover, each once."""
    return sum(span.minutes for span in union(spans))
