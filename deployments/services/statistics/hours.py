"""Adding minutes up to hours, hours to days, and seeing to it that they stay equal.

A booking into an hour and the making of that hour exclude each other (see `rolled`); a booking into
an hour that was made already takes the hour's mark away, and it is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import connection, transaction

from deployments.models import (
    DayRollup,
    HourRollup,
    MinuteRollup,
    RolledKind,
    RolledSpan,
    SeriesHour,
    SeriesMinute,
)
from deployments.models.statistics import Rollup
from deployments.rules.statistics.measurements import Summary
from deployments.rules.statistics.parts import DAY, HOUR, day_of, hour_of
from deployments.rules.statistics.rollups import Counted
from deployments.selectors.statistics.measurements import summary_of
from deployments.selectors.statistics.rollups import counted_of
from deployments.services.statistics.rolled import COUNTS, SERIES, lock, mark
from deployments.services.statistics.rollups import add_traffic, add_work

SETTLED_AFTER = timedelta(minutes=2)
"""An hour that ended so long ago is whole, but for what is booked late."""
MOST_HOURS = 72
"""Hours that are made in one go; what is left is due at the next."""

_COMPARED: Mapping[str, Any] = {
    "requests": 0,
    "caller_faults": 0,
    "provider_faults": 0,
    "statuses": {},
    "bounds_ms": [],
    "buckets": [],
    "inference_count": 0,
    "execution_count": 0,
    "queue_ns": 0,
    "compute_ns": 0,
    "triton_failures": 0,
    "minutes": 0,
}
"""What a roll-up says of each endpoint and version, and what no row says."""

Made = TypeVar("Made", bound=Rollup)


@dataclass(frozen=True, slots=True)
class Difference:
    """A count of an hour or a day that is not the sum of its minutes; `field` says which."""

    kind: str
    start: datetime
    endpoint_id: int
    version: int
    field: str
    had: Any
    has: Any


def roll_due(now: datetime) -> dict[str, int]:
    """Make what is due: hours, then days, then hours of measured series; gives how many of each."""
    end = hour_of(now - SETTLED_AFTER)
    hours = _unmarked(RolledKind.HOUR, _first(_FIRST_MINUTE), end, HOUR)[:MOST_HOURS]
    for hour in hours:
        roll_hour(hour)
    days = _unmarked(RolledKind.DAY, _first(_FIRST_HOUR), day_of(end), DAY)
    made = sum(roll_day(day) for day in days[:MOST_HOURS])
    series = _unmarked(RolledKind.SERIES_HOUR, _first(_FIRST_SERIES), end, HOUR)[:MOST_HOURS]
    for hour in series:
        roll_series_hour(hour)
    return {"hours": len(hours), "days": made, "series_hours": len(series)}


@transaction.atomic
def roll_hour(hour: datetime) -> list[Difference]:
    """Make one hour from its minutes; gives where an hour that was marked as whole was not.

    An hour whose minutes are gone already, all or some, stays as it is.
    """
    lock(COUNTS, [hour], shared=False)
    marked = RolledSpan.objects.filter(kind=RolledKind.HOUR, start=hour).exists()
    minutes = MinuteRollup.objects.filter(minute__gte=hour, minute__lt=hour + HOUR)
    sums: dict[tuple[int, int], Counted] = {}
    observed: dict[tuple[int, int], int] = {}
    for row in minutes.order_by().iterator(chunk_size=5000):
        slot = (row.endpoint_id, row.version)
        sums[slot] = sums[slot] + counted_of(row) if slot in sums else counted_of(row)
        observed[slot] = observed.get(slot, 0) + 1
    before = {(r.endpoint_id, r.version): r for r in HourRollup.objects.filter(hour=hour)}
    kept = sum(before[slot].minutes for slot in before)
    if kept > sum(observed.values()):
        # Its minutes went away by the policy of retention: they cannot say better.
        mark(RolledKind.HOUR, hour)
        return []
    made = {
        slot: _filled(
            HourRollup(endpoint_id=slot[0], version=slot[1], hour=hour, minutes=observed[slot]),
            sums[slot],
        )
        for slot in sorted(sums)
    }
    differences = list(_differences("hour", hour, before, made)) if marked else []
    HourRollup.objects.filter(hour=hour).delete()
    HourRollup.objects.bulk_create(made.values(), batch_size=1000)
    mark(RolledKind.HOUR, hour)
    RolledSpan.objects.filter(kind=RolledKind.DAY, start=day_of(hour)).delete()
    return differences


@transaction.atomic
def roll_day(day: datetime) -> bool:
    """Make one day from its hours, when all 24 are whole; gives whether they were."""
    hours = [day + HOUR * n for n in range(24)]
    lock(COUNTS, hours, shared=False)
    whole = RolledSpan.objects.filter(kind=RolledKind.HOUR, start__in=hours).count()
    if whole < len(hours):
        return False
    sums: dict[tuple[int, int], Counted] = {}
    observed: dict[tuple[int, int], int] = {}
    for row in HourRollup.objects.filter(hour__gte=day, hour__lt=day + DAY).order_by():
        slot = (row.endpoint_id, row.version)
        sums[slot] = sums[slot] + counted_of(row) if slot in sums else counted_of(row)
        observed[slot] = observed.get(slot, 0) + row.minutes
    DayRollup.objects.filter(day=day).delete()
    DayRollup.objects.bulk_create(
        [
            _filled(
                DayRollup(endpoint_id=slot[0], version=slot[1], day=day, minutes=observed[slot]),
                sums[slot],
            )
            for slot in sorted(sums)
        ],
        batch_size=1000,
    )
    mark(RolledKind.DAY, day)
    return True


@transaction.atomic
def roll_series_hour(hour: datetime) -> None:
    """Make one hour of every measured series from its minutes."""
    lock(SERIES, [hour], shared=False)
    mark(RolledKind.SERIES_HOUR, hour)
    sums: dict[int, Summary] = {}
    rows = SeriesMinute.objects.filter(minute__gte=hour, minute__lt=hour + HOUR).order_by()
    for row in rows.iterator(chunk_size=5000):
        one = summary_of(row)
        sums[row.series_id] = sums[row.series_id] + one if row.series_id in sums else one
    if not sums:
        return
    SeriesHour.objects.filter(hour=hour).delete()
    SeriesHour.objects.bulk_create(
        [
            SeriesHour(
                series_id=key,
                hour=hour,
                count=one.count,
                total=one.total,
                minimum=one.minimum,
                maximum=one.maximum,
                newest=one.newest,
                newest_at=one.newest_at,
            )
            for key, one in sums.items()
        ],
        batch_size=1000,
    )


def rebuild(
    start: datetime, end: datetime, say: Callable[[datetime], None] | None = None
) -> list[Difference]:
    """Make every hour and day from `start` up to `end` anew; gives where they had been wrong."""
    found: list[Difference] = []
    hour = hour_of(start)
    # Making an hour takes the mark of its day away: those that stood are looked at first.
    whole = RolledSpan.objects.filter(
        kind=RolledKind.DAY, start__gte=day_of(start), start__lt=end
    ).values_list("start", flat=True)
    stood = {day: _day_rows(day) for day in whole}
    while hour < end:
        found += roll_hour(hour)
        roll_series_hour(hour)
        if say is not None:
            say(hour)
        hour += HOUR
    day = day_of(start)
    while day < end:
        if roll_day(day) and day in stood:
            found += _differences("day", day, stood[day], _day_rows(day))
        day += DAY
    return found


def first_missing(kind: RolledKind, *, before: datetime) -> datetime | None:
    """The beginning of the first hour or day before then that is not whole; None when all are."""
    query, step = {
        RolledKind.HOUR: (_FIRST_MINUTE, HOUR),
        RolledKind.DAY: (_FIRST_HOUR, DAY),
        RolledKind.SERIES_HOUR: (_FIRST_SERIES, HOUR),
    }[kind]
    missing = _unmarked(kind, _first(query), before, step)
    return missing[0] if missing else None


def _day_rows(day: datetime) -> dict[tuple[int, int], DayRollup]:
    return {(row.endpoint_id, row.version): row for row in DayRollup.objects.filter(day=day)}


def _differences(
    kind: str,
    start: datetime,
    before: Mapping[tuple[int, int], Made],
    after: Mapping[tuple[int, int], Made],
) -> Iterator[Difference]:
    """The first count of each row that is not what it should be; no row counts as an empty one."""
    for slot in sorted({*before, *after}):
        for name, empty in _COMPARED.items():
            had = getattr(before[slot], name) if slot in before else empty
            has = getattr(after[slot], name) if slot in after else empty
            if had != has:
                yield Difference(kind, start, *slot, name, had, has)
                break


def _filled(row: Made, one: Counted) -> Made:
    add_traffic(row, one.traffic)
    add_work(row, one.work)
    return row


_FIRST_MINUTE = """
    select min(first.at) from deployments_endpoint as e, lateral (
        select minute as at from deployments_minuterollup
        where endpoint_id = e.id order by minute limit 1
    ) as first
"""
_FIRST_HOUR = "select min(hour) from deployments_hourrollup"
_FIRST_SERIES = """
    select min(first.at) from deployments_measuredseries as s, lateral (
        select minute as at from deployments_seriesminute
        where series_id = s.id order by minute limit 1
    ) as first
"""


def _first(query: str) -> datetime | None:
    with connection.cursor() as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    found: datetime | None = row[0] if row else None
    return found


def _unmarked(
    kind: RolledKind, first: datetime | None, end: datetime, step: timedelta
) -> list[datetime]:
    """Beginnings of what is not marked as whole, oldest first."""
    if first is None:
        return []
    start = day_of(first) if step == DAY else hour_of(first)
    marked = set(
        RolledSpan.objects.filter(kind=kind, start__gte=start, start__lt=end).values_list(
            "start", flat=True
        )
    )
    count = max(-int((start - end) // step), 0)
    times = (start + step * n for n in range(count))
    return [at for at in times if at not in marked]
