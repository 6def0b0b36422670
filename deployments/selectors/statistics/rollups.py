"""Reading roll-ups: what was counted at endpoints in a stretch of time."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from deployments.models import DayRollup, Endpoint, HourRollup, MinuteRollup, MirrorMinute
from deployments.models.statistics import Rollup
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Counted, Traffic, Work, merge_any
from deployments.selectors.statistics.rollup_parts import Coarsest, Reading, reading

_COUNTS = """
    select endpoint_id, sum(requests), sum(caller_faults), sum(provider_faults)
    from counted group by endpoint_id
"""
_POINTS = """
    select at, version, requests, caller_faults, provider_faults, statuses, bounds_ms, buckets,
           inference_count, execution_count, queue_ns, compute_ns, triton_failures
    from counted order by at, version
"""
_BUCKETS = """
    select endpoint_id, bounds_ms::text, index, sum(bucket::text::bigint)
    from counted, jsonb_array_elements(buckets) with ordinality as parts(bucket, index)
    group by endpoint_id, bounds_ms::text, index
    order by endpoint_id, bounds_ms::text, index
"""


def traffic_between(
    endpoint_ids: Collection[int],
    start: datetime,
    end: datetime,
    *,
    excluded: Mapping[int, Sequence[tuple[datetime, datetime]]] | None = None,
) -> dict[int, Traffic]:
    """Everything counted at each endpoint in a stretch of time, without what is `excluded`.

    Whole days and hours are read as such, minutes at the edges; buckets are added up in the
    database. Two queries, and one more where the stretch is an hour or longer, whatever its length
    and however many endpoints.
    """
    where = reading(endpoint_ids, start, end, excluded=excluded)
    latencies = _latencies(where)
    return {
        pk: Traffic(int(requests), int(caller), int(provider), {}, latencies.get(pk))
        for pk, requests, caller, provider in where.rows(_COUNTS)
    }


def traffic_of_rows(rows: Iterable[MinuteRollup]) -> Traffic:
    """Rows added up."""
    return sum((counted_of(row) for row in rows), Counted()).traffic


def counted_of(row: Rollup) -> Counted:
    """What a row says was counted."""
    work = Work(
        row.inference_count,
        row.execution_count,
        row.queue_ns,
        row.compute_ns,
        row.triton_failures,
    )
    return Counted(traffic_of_row(row), work)


def traffic_of_row(row: Rollup | MirrorMinute) -> Traffic:
    """What a row says of requests."""
    return Traffic(
        row.requests, row.caller_faults, row.provider_faults, row.statuses, latency_of(row)
    )


def latency_of(row: Rollup | MirrorMinute) -> Histogram | None:
    """A row's histogram; None when nothing was measured."""
    return Histogram(tuple(row.bounds_ms), tuple(row.buckets)) if row.buckets else None


def rows_between(endpoint: Endpoint, start: datetime, end: datetime) -> QuerySet[MinuteRollup]:
    """An endpoint's minutes in a stretch of time, oldest first."""
    return MinuteRollup.objects.filter(
        endpoint=endpoint, minute__gte=start, minute__lt=end
    ).order_by("minute", "version")


def counted_points(
    endpoint: Endpoint, start: datetime, end: datetime, *, coarsest: Coarsest
) -> list[tuple[datetime, int, Counted]]:
    """What was counted, as (begin, version, counts), in rows no longer than that; two queries."""
    where = reading([endpoint.pk], start, end, coarsest=coarsest)
    return [
        (
            at,
            version,
            Counted(
                Traffic(requests, caller, provider, _json(statuses), _histogram(bounds, buckets)),
                Work(*work),
            ),
        )
        for at, version, requests, caller, provider, statuses, bounds, buckets, *work in where.rows(
            _POINTS
        )
    ]


def _histogram(bounds: Any, buckets: Any) -> Histogram | None:
    counts = _json(buckets)
    return Histogram(tuple(_json(bounds)), tuple(counts)) if counts else None


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def hours_between(endpoint: Endpoint, start: datetime, end: datetime) -> QuerySet[HourRollup]:
    """An endpoint's hours, as far as they are rolled, oldest first."""
    return HourRollup.objects.filter(endpoint=endpoint, hour__gte=start, hour__lt=end).order_by(
        "hour", "version"
    )


def days_between(endpoint: Endpoint, start: datetime, end: datetime) -> QuerySet[DayRollup]:
    """An endpoint's days, as far as they are rolled, oldest first."""
    return DayRollup.objects.filter(endpoint=endpoint, day__gte=start, day__lt=end).order_by(
        "day", "version"
    )


def _latencies(where: Reading) -> dict[int, Histogram]:
    """Histograms summed bucket by bucket in Postgres, for each set of bounds that occurs."""
    counts: dict[tuple[int, str], list[int]] = {}
    for endpoint_id, bounds, _, count in where.rows(_BUCKETS):
        counts.setdefault((endpoint_id, bounds), []).append(int(count))
    merged: dict[int, Histogram] = {}
    for (endpoint_id, bounds), buckets in counts.items():
        together = merge_any(merged.get(endpoint_id), histogram_of(bounds, buckets))
        if together is not None:
            merged[endpoint_id] = together
    return merged


def histogram_of(bounds: str, buckets: Sequence[Any]) -> Histogram:
    """A histogram from bounds as the database writes them, and sums of buckets."""
    edges = tuple(float(bound) for bound in bounds.strip("[]").split(",") if bound.strip())
    return Histogram(edges, tuple(int(count) for count in buckets))
