"""Keeping what was measured beside the requests: series, and their minutes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q

from deployments.models import MeasuredSeries
from deployments.rules.statistics.measurements import (
    Point,
    Quantity,
    Subject,
    Summary,
    by_minute,
)
from deployments.services.statistics.rolled import touch_series

_ADD = """
insert into deployments_seriesminute as known
    (series_id, minute, count, total, minimum, maximum, newest, newest_at)
values (%s, %s, %s, %s, %s, %s, %s, %s)
on conflict (series_id, minute) do update set
    count = known.count + excluded.count,
    total = known.total + excluded.total,
    minimum = least(known.minimum, excluded.minimum),
    maximum = greatest(known.maximum, excluded.maximum),
    newest = case when excluded.newest_at >= known.newest_at
             then excluded.newest else known.newest end,
    newest_at = greatest(known.newest_at, excluded.newest_at)
"""


def record(points: Iterable[Point]) -> int:
    """Add points to their series' minutes, making series that are new; gives how many minutes.

    Late points go to their own minute. A point that comes twice counts twice: who sends again
    after an answer was lost adds to the count, and changes no extreme.
    """
    return record_minutes(by_minute(points))


def record_minutes(minutes: dict[tuple[Quantity, datetime], Summary]) -> int:
    """Add summaries of minutes to those that are there."""
    if not minutes:
        return 0
    with transaction.atomic():
        touch_series({at for _, at in minutes})
        keys = series_keys({quantity for quantity, _ in minutes})
        # In one order, so that two writers wait for each other and never both.
        rows = sorted((keys[quantity], at, one) for (quantity, at), one in minutes.items())
        with connection.cursor() as cursor:
            cursor.executemany(
                _ADD,
                [
                    (
                        key,
                        at,
                        one.count,
                        one.total,
                        one.minimum,
                        one.maximum,
                        one.newest,
                        one.newest_at,
                    )
                    for key, at, one in rows
                ],
            )
    return len(rows)


def series_keys(quantities: Iterable[Quantity]) -> dict[Quantity, int]:
    """Each series' key; those that are new are made."""
    wanted = set(quantities)
    found = _known(wanted)
    missing = sorted(wanted - set(found), key=repr)
    if missing:
        MeasuredSeries.objects.bulk_create(
            [
                MeasuredSeries(
                    node_id=one.subject.node,
                    device=one.subject.device,
                    endpoint_id=one.subject.endpoint,
                    version=one.subject.version,
                    name=one.name,
                    label=one.label,
                    unit=one.unit,
                )
                for one in missing
            ],
            ignore_conflicts=True,
        )
        found |= _known(set(missing))
    return found


def _known(wanted: set[Quantity]) -> dict[Quantity, int]:
    """A series is known by what it is of and its name; the unit it was first told with stays."""
    by_key = {(one.subject, one.name, one.label): one for one in wanted}
    rows = MeasuredSeries.objects.filter(
        _among("node_id", {one.subject.node for one in wanted}),
        _among("endpoint_id", {one.subject.endpoint for one in wanted}),
        name__in={one.name for one in wanted},
    ).order_by()
    found = {}
    for row in rows:
        subject = Subject(row.node_id, row.device, row.endpoint_id, row.version)
        if (one := by_key.get((subject, row.name, row.label))) is not None:
            found[one] = row.pk
    return found


def _among(field: str, keys: set[int | None]) -> Q:
    """One of these keys, or none where none is among them."""
    of_some = Q(**{f"{field}__in": keys - {None}})
    return of_some | Q(**{f"{field}__isnull": True}) if None in keys else of_some
