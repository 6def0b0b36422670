"""How much of a stretch of time was observed at all: "no data" is not "no errors"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Min, Q

from deployments.models import (
    CountGap,
    DayRollup,
    Endpoint,
    GapReason,
    GatewayListener,
    HourRollup,
    MinuteRollup,
)
from deployments.rules.objectives.spans import MINUTE, Span, floor_minute, left_over, union
from deployments.rules.statistics.parts import DAY, HOUR
from deployments.selectors.statistics.rollup_parts import Coarsest, reading

UNDER_WAY = timedelta(minutes=2)
"""A minute that ended so lately may still be booked."""
MOST_GAPS = 200

_SEEN = "select at, span, minutes from counted where version = 0 order by at"
FINER: Final[tuple[Coarsest, ...]] = ("hour", "minute")


@dataclass(frozen=True, slots=True)
class GapView:
    """A stretch in which a gateway was not read; `lost`: what it counted then is not known."""

    source: str
    start: datetime
    end: datetime | None
    why: GapReason
    lost: bool
    detail: str

    @property
    def gateway(self) -> str:
        return self.source.removeprefix("gateway:")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was observed of an endpoint from `start` up to `end` (whole minutes, UTC).

    `missing` are the minutes of which nothing is known; where only hours are kept, the hour that
    some are missing from stands for them. Time before the endpoint was first read is not expected,
    nor is that before it was made.
    """

    start: datetime
    end: datetime
    expected_minutes: int
    observed_minutes: int
    missing: Sequence[Span]
    gaps: Sequence[GapView]

    @property
    def missing_minutes(self) -> int:
        return max(self.expected_minutes - self.observed_minutes, 0)

    @property
    def share(self) -> float | None:
        """Observed ÷ expected, 0 to 1; None where nothing was expected."""
        if not self.expected_minutes:
            return None
        return min(self.observed_minutes / self.expected_minutes, 1.0)

    @property
    def is_whole(self) -> bool:
        """Whether every minute was observed and no count was lost."""
        return not self.missing_minutes and not any(gap.lost for gap in self.gaps)


def coverage(
    endpoint: Endpoint, start: datetime, end: datetime, *, now: datetime | None = None
) -> Coverage:
    """How much of the stretch was observed, what is missing, and why; eight queries, and
    four more where some is missing."""
    moment = now or datetime.now(UTC)
    first = _first_minute(endpoint)
    begin = max(floor_minute(start), first) if first else floor_minute(end)
    stop = max(min(floor_minute(end), floor_minute(moment - UNDER_WAY)), begin)
    # Of the day that it began in only its hour, or only the day itself, may be left.
    since = min(max(floor_minute(start), _midnight(begin)), begin)
    rows = _parts(endpoint, Span(since, stop), begin)
    return Coverage(
        start=begin,
        end=stop,
        expected_minutes=Span(begin, stop).minutes,
        observed_minutes=sum(observed for _, observed in rows),
        missing=_missing(endpoint, Span(since, stop), begin, _whole(rows)),
        gaps=gaps_of(endpoint, begin, max(stop, floor_minute(end))),
    )


def gaps_of(endpoint: Endpoint, start: datetime, end: datetime) -> list[GapView]:
    """When the gateways of an endpoint's environment were not read, newest first; two queries."""
    names = GatewayListener.objects.filter(environment_id=endpoint.environment_id).values_list(
        "gateway__name", flat=True
    )
    return _gaps([f"gateway:{name}" for name in names], start, end)


def gaps_between(start: datetime, end: datetime) -> list[GapView]:
    """When any gateway was not read, newest first; one query."""
    return _gaps(None, start, end)


def _gaps(sources: list[str] | None, start: datetime, end: datetime) -> list[GapView]:
    rows = CountGap.objects.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=start), started_at__lt=end
    )
    if sources is not None:
        rows = rows.filter(source__in=sources)
    return [
        GapView(row.source, row.started_at, row.ended_at, GapReason(row.why), row.lost, row.detail)
        for row in rows[:MOST_GAPS]
    ]


def _missing(endpoint: Endpoint, read: Span, begin: datetime, known: list[Span]) -> list[Span]:
    """Stretches from `begin` on without a row. Of a day that is not whole its hours say which are
    missing, of an hour its minutes, where they are kept."""
    within = Span(begin, read.end)
    for coarsest in FINER:
        if not left_over(within, known):
            return []
        rows = _parts(endpoint, read, begin, known=known, coarsest=coarsest)
        known = union([*known, *_whole(rows)])
    return left_over(within, known)


def _parts(
    endpoint: Endpoint,
    read: Span,
    begin: datetime,
    *,
    known: list[Span] | None = None,
    coarsest: Coarsest = "day",
) -> list[tuple[Span, int]]:
    """What to expect of each row, from `begin` on, and how many minutes of it were seen."""
    found = reading(
        [endpoint.pk],
        read.start,
        read.end,
        excluded={endpoint.pk: known} if known else None,
        coarsest=coarsest,
    )
    parts = []
    for at, length, minutes in found.rows(_SEEN):
        expected = Span(max(at, begin), at + MINUTE * length)
        parts.append((expected, min(int(minutes), expected.minutes)))
    return parts


def _whole(parts: Sequence[tuple[Span, int]]) -> list[Span]:
    return union(expected for expected, observed in parts if observed >= expected.minutes)


def _first_minute(endpoint: Endpoint) -> datetime | None:
    """When anything was first read of the endpoint: before that nothing was to be expected.

    Where the first minutes are gone, the hour or the day that they lay in began before the
    endpoint did: then it is when the endpoint was made.
    """
    minute = (
        MinuteRollup.objects.filter(endpoint=endpoint)
        .order_by("minute")
        .values_list("minute", flat=True)
        .first()
    )
    hour = HourRollup.objects.filter(endpoint=endpoint).aggregate(first=Min("hour"))["first"]
    day = DayRollup.objects.filter(endpoint=endpoint).aggregate(first=Min("day"))["first"]
    # From the finest row to the coarsest: one that begins before them all, but holds them, says
    # no more than they do.
    found: Span | None = None
    for at, length in ((minute, MINUTE), (hour, HOUR), (day, DAY)):
        if at is not None and (found is None or at + length <= found.start):
            found = Span(at, at + length)
    if found is None:
        return None
    made = floor_minute(endpoint.created_at)
    return made if found.start <= made < found.end else found.start


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
