"""Which part of a stretch of time is read from days, which from hours, which from minutes.

A day or an hour is read as a whole only where its roll-up is whole ("rolled"); what lies at the
edges, or was booked into since, comes from minutes. So the sum is the same wherever it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from deployments.rules.objectives.spans import Span

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(slots=True)
class Parts:
    """Spans that neither overlap nor leave anything out, in order, by where they are read."""

    days: list[Span] = field(default_factory=list)
    hours: list[Span] = field(default_factory=list)
    minutes: list[Span] = field(default_factory=list)


def hour_of(moment: datetime) -> datetime:
    """The hour, UTC, that a moment lies in."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def day_of(moment: datetime) -> datetime:
    """The day, UTC, that a moment lies in."""
    return hour_of(moment).replace(hour=0)


def split(
    spans: Iterable[Span], *, days: Collection[datetime], hours: Collection[datetime]
) -> Parts:
    """Divide spans; `days` and `hours` are the beginnings of those that are rolled."""
    parts = Parts()
    for span in spans:
        at = span.start
        while at < span.end:
            if at in days and at + DAY <= span.end and at == day_of(at):
                at = _extend(parts.days, at, at + DAY)
            elif at in hours and at + HOUR <= span.end and at == hour_of(at):
                at = _extend(parts.hours, at, at + HOUR)
            else:
                at = _extend(parts.minutes, at, min(hour_of(at) + HOUR, span.end))
    return parts


def _extend(spans: list[Span], start: datetime, end: datetime) -> datetime:
    if spans and spans[-1].end == start:
        spans[-1] = Span(spans[-1].start, end)
    else:
        spans.append(Span(start, end))
    return end
