"""What a Triton told of one version, and the values of our series that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deployments.rules.fleet.machine_series import MachineSeries
from models_registry.rules.contract_terms import gettext_noop as _

QUANTILES: Final = {0.5: "p50", 0.95: "p95", 0.99: "p99", 0.999: "p999"}


SERIES: Final = (
    MachineSeries("requests_per_second", "1/s", _("Requests")),
    MachineSeries("failures_per_second", "1/s", _("Failures")),
    MachineSeries("pending_requests", "", _("Waiting requests")),
    MachineSeries("batch_efficiency", "", _("Batch efficiency")),
    MachineSeries("queue_mean_ms", "ms", _("Queue, mean")),
    MachineSeries("queue_p50_ms", "ms", _("Queue P50")),
    MachineSeries("queue_p95_ms", "ms", _("Queue P95")),
    MachineSeries("queue_p99_ms", "ms", _("Queue P99")),
    MachineSeries("queue_p999_ms", "ms", _("Queue P99.9")),
    MachineSeries("compute_mean_ms", "ms", _("Execution, mean")),
    MachineSeries("compute_p50_ms", "ms", _("Execution P50")),
    MachineSeries("compute_p95_ms", "ms", _("Execution P95")),
    MachineSeries("compute_p99_ms", "ms", _("Execution P99")),
    MachineSeries("compute_p999_ms", "ms", _("Execution P99.9")),
    MachineSeries("cache_hit_percent", "%", _("Cache hits")),
)

MIN_FOR_QUANTILES: Final = 20
"""Requests that a version must have answered since it was loaded before its quantiles count."""

Slot = tuple[str, int]
"""A model's name in Triton, and the version's number."""


@dataclass(frozen=True, slots=True)
class TritonVersion:
    """Triton's totals of a version since it was loaded (times in µs), and its sliding quantiles.

    Quantiles are of the last minute or so, in µs by quantile; they are missing where Triton was
    not started with `--metrics-config=summary_latencies=true`, and not a number without requests.
    """

    requests: float = 0.0
    failures: float = 0.0
    inferences: float = 0.0
    executions: float = 0.0
    queue_us: float = 0.0
    compute_us: float = 0.0
    pending: float | None = None
    cache_hits: float | None = None
    cache_misses: float | None = None
    queue: Mapping[float, float] = field(default_factory=dict)
    compute: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TritonNumbers:
    """Everything that was read of one Triton; pinned memory in bytes."""

    versions: Mapping[Slot, TritonVersion] = field(default_factory=dict)
    pinned_used: float | None = None
    pinned_total: float | None = None


def values_of(now: TritonVersion, before: TritonVersion | None, seconds: float) -> dict[str, float]:
    """The values of our series between two readings that lie `seconds` apart.

    Quantiles, means and the batch efficiency are there only where the version worked in between:
    Triton tells the quantiles of past requests on, and an old number must not look like a new one.
    After a reset (totals that fell) the new totals are what was done since. Just loaded, a version
    has no quantiles: its warm-up, which nobody waited for, would be the slowest percent.
    """
    values: dict[str, float] = {}
    if now.pending is not None:
        values["pending_requests"] = now.pending
    if before is None or seconds <= 0:
        return values
    requests = _grown(now.requests, before.requests)
    failures = _grown(now.failures, before.failures)
    values["requests_per_second"] = (requests + failures) / seconds
    values["failures_per_second"] = failures / seconds
    if now.cache_hits is not None and now.cache_misses is not None:
        hits = _grown(now.cache_hits, before.cache_hits or 0.0)
        asked = hits + _grown(now.cache_misses, before.cache_misses or 0.0)
        if asked:
            values["cache_hit_percent"] = hits / asked * 100
    executions = _grown(now.executions, before.executions)
    if executions:
        values["batch_efficiency"] = _grown(now.inferences, before.inferences) / executions
    if requests:
        values["queue_mean_ms"] = _grown(now.queue_us, before.queue_us) / requests / 1000
        values["compute_mean_ms"] = _grown(now.compute_us, before.compute_us) / requests / 1000
        if now.requests >= MIN_FOR_QUANTILES:
            values |= _quantiles("queue", now.queue) | _quantiles("compute", now.compute)
    return values


def _quantiles(stage: str, found: Mapping[float, float]) -> dict[str, float]:
    return {
        f"{stage}_{word}_ms": found[quantile] / 1000
        for quantile, word in QUANTILES.items()
        # Not a number: Triton has seen no request within the window.
        if found.get(quantile, float("nan")) >= 0
    }


def _grown(now: float, before: float) -> float:
    return now - before if now >= before else now
