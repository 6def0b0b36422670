"""What the versions of an endpoint could do better in batches, out of what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from console.errors import CovenantError
from deployments.models import Endpoint
from deployments.rules.diagnosis.batching import Advice, BatchingFacts, advise
from deployments.rules.statistics.histograms import quantile
from deployments.rules.statistics.rollups import GATEWAY_ITSELF, Counted
from deployments.selectors.statistics.rollups import counted_of, rows_between
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.adapters import triton_config
from models_registry.models import ModelVersion
from models_registry.rules.contract_document import LatencyObjective
from models_registry.services import artifacts

SPANS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
}


@dataclass(frozen=True, slots=True)
class VersionAdvice:
    """One version's settings, what it did, and what to change."""

    version: int
    facts: BatchingFacts
    advice: list[Advice]


def batching_advice(endpoint: Endpoint, *, start: datetime, end: datetime) -> list[VersionAdvice]:
    """Every version that was asked in this span, the busiest first.

    Three queries, and one file read for each version. Rates are those of the minutes in which
    there was traffic: a night without any says nothing of the day.
    """
    counted: dict[int, Counted] = {}
    minutes: dict[int, int] = {}
    for row in rows_between(endpoint, start, end):
        if row.version != GATEWAY_ITSELF and row.requests:
            counted[row.version] = counted.get(row.version, Counted()) + counted_of(row)
            minutes[row.version] = minutes.get(row.version, 0) + 1
    versions = ModelVersion.objects.filter(
        model_id=endpoint.model_id, number__in=counted
    ).select_related("config")
    limit = _latency_limit(endpoint)
    found = []
    for version in versions:
        facts = _facts(version, counted[version.number], 60.0 * minutes[version.number], limit)
        if facts is not None:
            found.append(VersionAdvice(version.number, facts, advise(facts)))
    return sorted(found, key=lambda one: (-one.facts.requests, one.version))


def _facts(
    version: ModelVersion, counted: Counted, seconds: float, limit: float | None
) -> BatchingFacts | None:
    """None where the configuration cannot be read."""
    if version.config is None:
        return None
    try:
        config = triton_config.parse(artifacts.read_bytes(version.config).decode())
    except CovenantError:
        return None
    traffic, work = counted.traffic, counted.work
    requests = max(traffic.requests, 1)
    batching = config.dynamic_batching
    p95 = quantile(traffic.latency, 0.95) if traffic.latency is not None else None
    return BatchingFacts(
        max_batch_size=config.max_batch_size,
        queue_delay_us=int(batching.max_queue_delay_microseconds),
        preferred=tuple(batching.preferred_batch_size),
        instances=max(1, sum(group.count or 1 for group in config.instance_group)),
        seconds=seconds,
        requests=traffic.requests,
        inferences=work.inferences,
        executions=work.executions,
        queue_ms=work.queue_ns / requests / 1e6,
        compute_ms=work.compute_ns / requests / 1e6,
        batch_axis=version.facts.get("batch_axis") == 0,
        p95_ms=p95,
        latency_limit_ms=limit,
    )


def _latency_limit(endpoint: Endpoint) -> float | None:
    contract = contracts_that_hold([endpoint.model_id]).get(endpoint.model_id)
    if contract is None:
        return None
    limits = [o.threshold_ms for o in contract.objectives if isinstance(o, LatencyObjective)]
    return min(limits, default=None)
