"""What was counted at endpoints hour by hour, day by day or month by month."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from django.db import connection

from deployments.rules.objectives.spans import Span
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Traffic, merge_any

Step = Literal["hour", "day", "month"]
Steps = dict[datetime, Traffic]

# Sums in the database: a month of one endpoint has 43,200 minutes for each version.
_COUNTS = """
    select endpoint_id, date_trunc(%s, minute, 'UTC') as step,
           sum(requests), sum(caller_faults), sum(provider_faults)
    from deployments_minuterollup as counted
    where endpoint_id = any(%s) and minute >= %s and minute < %s and {kept}
    group by endpoint_id, step
"""
_STATUSES = """
    select endpoint_id, date_trunc(%s, minute, 'UTC') as step, part.key, sum(part.value::bigint)
    from deployments_minuterollup as counted, jsonb_each_text(statuses) as part
    where endpoint_id = any(%s) and minute >= %s and minute < %s and {kept}
    group by endpoint_id, step, part.key
"""
_BUCKETS = """
    select endpoint_id, date_trunc(%s, minute, 'UTC') as step, bounds_ms::text, index,
           sum(bucket::text::bigint)
    from deployments_minuterollup as counted,
         jsonb_array_elements(buckets) with ordinality as parts(bucket, index)
    where endpoint_id = any(%s) and minute >= %s and minute < %s and {kept}
    group by endpoint_id, step, bounds_ms::text, index
    order by endpoint_id, step, bounds_ms::text, index
"""
_KEPT = """not exists (
    select 1 from unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[]) as left_out(id, s, e)
    where left_out.id = counted.endpoint_id and counted.minute >= s and counted.minute < e
)"""


def traffic_by(
    endpoint_ids: Collection[int],
    start: datetime,
    end: datetime,
    step: Step,
    *,
    excluded: Mapping[int, Sequence[Span]] | None = None,
    statuses: bool = False,
) -> dict[int, Steps]:
    """Endpoint → begin of each step (UTC) that has counts → traffic; three queries at most.

    `excluded` are stretches that promises leave out; `statuses` asks for them as well.
    """
    if not endpoint_ids:
        return {}
    spans = [
        (endpoint_id, span.start, span.end)
        for endpoint_id, parts in (excluded or {}).items()
        for span in parts
    ]
    kept = _KEPT if spans else "true"
    columns = [list(column) for column in zip(*spans, strict=True)] if spans else []
    given = [step, list(endpoint_ids), start, end, *columns]
    latencies = _latencies(_rows(_BUCKETS.format(kept=kept), given))
    said = _by_status(_rows(_STATUSES.format(kept=kept), given)) if statuses else {}
    found: dict[int, Steps] = {}
    for endpoint_id, at, requests, caller, provider in _rows(_COUNTS.format(kept=kept), given):
        slot = (endpoint_id, at)
        found.setdefault(endpoint_id, {})[at] = Traffic(
            int(requests), int(caller), int(provider), said.get(slot, {}), latencies.get(slot)
        )
    return found


def _rows(query: str, given: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, given)
        return cursor.fetchall()


def _by_status(rows: list[tuple[Any, ...]]) -> dict[tuple[int, datetime], dict[str, int]]:
    found: dict[tuple[int, datetime], dict[str, int]] = {}
    for endpoint_id, at, status, number in rows:
        found.setdefault((endpoint_id, at), {})[status] = int(number)
    return found


def _latencies(rows: list[tuple[Any, ...]]) -> dict[tuple[int, datetime], Histogram]:
    counts: dict[tuple[int, datetime, str], list[int]] = {}
    for endpoint_id, at, bounds, _index, count in rows:
        counts.setdefault((endpoint_id, at, bounds), []).append(int(count))
    merged: dict[tuple[int, datetime], Histogram] = {}
    for (endpoint_id, at, bounds), buckets in counts.items():
        edges = tuple(float(bound) for bound in bounds.strip("[]").split(",") if bound.strip())
        together = merge_any(merged.get((endpoint_id, at)), Histogram(edges, tuple(buckets)))
        if together is not None:
            merged[endpoint_id, at] = together
    return merged
