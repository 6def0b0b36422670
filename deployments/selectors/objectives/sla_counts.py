"""What was counted at endpoints hour by hour, day by day or month by month."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from deployments.rules.objectives.spans import Span
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Traffic, merge_any
from deployments.selectors.statistics.rollup_parts import reading

Step = Literal["hour", "day", "month"]
Steps = dict[datetime, Traffic]

_COUNTS = """
    select endpoint_id, date_trunc(%s, at, 'UTC') as step,
           sum(requests), sum(caller_faults), sum(provider_faults)
    from counted group by endpoint_id, step
"""
_STATUSES = """
    select endpoint_id, date_trunc(%s, at, 'UTC') as step, part.key, sum(part.value::bigint)
    from counted, jsonb_each_text(statuses) as part group by endpoint_id, step, part.key
"""
_BUCKETS = """
    select endpoint_id, date_trunc(%s, at, 'UTC') as step, bounds_ms::text, index,
           sum(bucket::text::bigint)
    from counted, jsonb_array_elements(buckets) with ordinality as parts(bucket, index)
    group by endpoint_id, step, bounds_ms::text, index
    order by endpoint_id, step, bounds_ms::text, index
"""


def traffic_by(
    endpoint_ids: Collection[int],
    start: datetime,
    end: datetime,
    step: Step,
    *,
    excluded: Mapping[int, Sequence[Span]] | None = None,
    statuses: bool = False,
) -> dict[int, Steps]:
    """Endpoint → begin of each step (UTC) that has counts → traffic; four queries at most.

    `excluded` are stretches that promises leave out; `statuses` asks for them as well.
    """
    if not endpoint_ids:
        return {}
    coarsest: Literal["day", "hour"] = "hour" if step == "hour" else "day"
    where = reading(endpoint_ids, start, end, excluded=excluded, coarsest=coarsest)
    latencies = _latencies(where.rows(_BUCKETS, [step]))
    said = _by_status(where.rows(_STATUSES, [step])) if statuses else {}
    found: dict[int, Steps] = {}
    for endpoint_id, at, requests, caller, provider in where.rows(_COUNTS, [step]):
        slot = (endpoint_id, at)
        found.setdefault(endpoint_id, {})[at] = Traffic(
            int(requests), int(caller), int(provider), said.get(slot, {}), latencies.get(slot)
        )
    return found


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
