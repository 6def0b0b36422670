"""Reading roll-ups: what was counted at endpoints in a stretch of time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Sum

from deployments.models import Endpoint, MinuteRollup, MirrorMinute
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Counted, Traffic, Work, merge_any


def traffic_between(
    endpoint_ids: Collection[int], start: datetime, end: datetime
) -> dict[int, Traffic]:
    """Everything counted at each endpoint in a stretch of time; two queries, whatever its length.

    The buckets are added up in the database: a month has 43,200 minutes.
    """
    rows = MinuteRollup.objects.filter(
        endpoint_id__in=endpoint_ids, minute__gte=start, minute__lt=end
    )
    counts = (
        rows.order_by()
        .values("endpoint_id")
        .annotate(n=Sum("requests"), caller=Sum("caller_faults"), provider=Sum("provider_faults"))
    )
    latencies = _latencies(endpoint_ids, start, end)
    return {
        row["endpoint_id"]: Traffic(
            row["n"], row["caller"], row["provider"], {}, latencies.get(row["endpoint_id"])
        )
        for row in counts
    }


def traffic_of_rows(rows: Iterable[MinuteRollup]) -> Traffic:
    """Rows added up."""
    return sum((counted_of(row) for row in rows), Counted()).traffic


def counted_of(row: MinuteRollup) -> Counted:
    """What a row says was counted."""
    work = Work(
        row.inference_count,
        row.execution_count,
        row.queue_ns,
        row.compute_ns,
        row.triton_failures,
    )
    return Counted(traffic_of_row(row), work)


def traffic_of_row(row: MinuteRollup | MirrorMinute) -> Traffic:
    """What a row says of requests."""
    return Traffic(
        row.requests, row.caller_faults, row.provider_faults, row.statuses, latency_of(row)
    )


def latency_of(row: MinuteRollup | MirrorMinute) -> Histogram | None:
    """A row's histogram; None when nothing was measured."""
    return Histogram(tuple(row.bounds_ms), tuple(row.buckets)) if row.buckets else None


def rows_between(endpoint: Endpoint, start: datetime, end: datetime) -> QuerySet[MinuteRollup]:
    """An endpoint's minutes in a stretch of time, oldest first."""
    return MinuteRollup.objects.filter(
        endpoint=endpoint, minute__gte=start, minute__lt=end
    ).order_by("minute", "version")


def _latencies(
    endpoint_ids: Collection[int], start: datetime, end: datetime
) -> dict[int, Histogram]:
    """Histograms summed bucket by bucket in Postgres, for each set of bounds that occurs."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            select endpoint_id, bounds_ms::text, index, sum(bucket::text::bigint)
            from deployments_minuterollup,
                 jsonb_array_elements(buckets) with ordinality as parts(bucket, index)
            where endpoint_id = any(%s) and minute >= %s and minute < %s
            group by endpoint_id, bounds_ms::text, index
            order by endpoint_id, bounds_ms::text, index
            """,
            [list(endpoint_ids), start, end],
        )
        rows: list[tuple[int, str, int, Any]] = cursor.fetchall()
    counts: dict[tuple[int, str], list[int]] = {}
    for endpoint_id, bounds, _, count in rows:
        counts.setdefault((endpoint_id, bounds), []).append(int(count))
    merged: dict[int, Histogram] = {}
    for (endpoint_id, bounds), buckets in counts.items():
        edges = tuple(float(bound) for bound in bounds.strip("[]").split(",") if bound.strip())
        together = merge_any(merged.get(endpoint_id), Histogram(edges, tuple(buckets)))
        if together is not None:
            merged[endpoint_id] = together
    return merged
