"""Taking a rollout's measurements: from the live numbers at once, from queries beside the tick."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings

from console.errors import CovenantError
from deployments.adapters import prometheus
from deployments.rules.rollouts.analysis import Found
from deployments.rules.rollouts.looks import Ask
from deployments.rules.rollouts.types import (
    BY_COMPARISON,
    BY_GATEWAYS,
    Aggregate,
    MetricKind,
    Query,
    SeriesQuery,
)
from deployments.rules.statistics.measurements import Summary
from deployments.rules.statistics.traffic_windows import WindowNumbers
from deployments.selectors.experiments.pages import conversion_difference
from deployments.selectors.rollouts.looks import Moment, Seen
from deployments.selectors.telemetry.windows import window_of

STALE_S = 10.0
"""Live numbers are written each second; older ones say nothing of now."""
AT_ONCE = 16
"""Queries to others at one time, each in a thread: a slow one holds up no rollout."""

Slot = tuple[uuid.UUID, str, str]


def measure(at: Moment, seen: Seen, queries: Queries) -> dict[tuple[str, str], Found]:
    """What is due and can be told now; a query that is not answered yet is missing."""
    found: dict[tuple[str, str], Found] = {}
    for ask in seen.asks:
        kind = ask.metric.kind
        one: Found | None
        if kind in BY_GATEWAYS:
            one = _by_gateways(at, seen, ask)
        elif kind in BY_COMPARISON:
            one = _by_comparison(at, seen, ask)
        elif kind is MetricKind.CONVERSION_DIFFERENCE:
            one = _by_outcomes(at, seen)
        elif kind is MetricKind.TELEMETRY:
            one = _by_series(at, seen, ask)
        else:
            one = queries.answer(seen, ask)
        if one is not None:
            found[ask.scope, ask.metric.name] = one
    return found


def _by_gateways(at: Moment, seen: Seen, ask: Ask) -> Found:
    windows = at.window(seen, ask.seconds)
    if not windows:
        return Found(error="there are no live numbers of the endpoint.")
    age = min(one.age_s for one in windows.values())
    if age > STALE_S:
        return Found(error=f"the live numbers are {age:.0f} s old.")
    candidate = windows.get(seen.rollout.version, WindowNumbers())
    baseline = windows.get(seen.rollout.baseline, WindowNumbers())
    value = VALUES[ask.metric.kind]
    return Found(value(candidate), value(baseline), candidate.requests, baseline.requests)


def _by_comparison(at: Moment, seen: Seen, ask: Ask) -> Found:
    window = at.comparison(seen, ask.seconds)
    if ask.metric.kind is MetricKind.OUTPUT_DIFFERENCE:
        share = window.differing_share
        return Found(None if share is None else 100 * share, None, window.compared, window.compared)

    def percent(faults: int) -> float | None:
        return 100 * faults / window.sampled if window.sampled else None

    return Found(
        percent(window.candidate_faults),
        percent(window.baseline_faults),
        window.sampled,
        window.sampled,
    )


def _by_outcomes(at: Moment, seen: Seen) -> Found:
    endpoint = seen.rollout.endpoint
    found = conversion_difference(
        endpoint.environment.name,
        endpoint.model.name,
        baseline=seen.rollout.baseline,
        candidate=seen.rollout.version,
        now=at.now,
    )
    if found is None:
        return Found(error="no experiment on the two versions is running.")
    return Found(found.difference, None, found.candidate_answered, found.baseline_answered)


def _by_series(at: Moment, seen: Seen, ask: Ask) -> Found:
    series = ask.metric.series or SeriesQuery("")
    rollout = seen.rollout
    values = window_of(
        rollout.endpoint_id,
        series.name,
        label=series.label,
        versions=(rollout.version, rollout.baseline),
        start=at.now - timedelta(seconds=ask.seconds),
    )
    candidate, baseline = values.get(rollout.version), values.get(rollout.baseline)
    value = AGGREGATES[series.aggregate]
    return Found(
        value(candidate) if candidate else None,
        value(baseline) if baseline else None,
        candidate.count if candidate else 0,
        baseline.count if baseline else 0,
    )


AGGREGATES: Mapping[Aggregate, Callable[[Summary], float]] = {
    Aggregate.MEAN: lambda one: one.mean,
    Aggregate.MAX: lambda one: one.maximum,
    Aggregate.MIN: lambda one: one.minimum,
    Aggregate.NEWEST: lambda one: one.newest,
    Aggregate.SUM: lambda one: one.total,
}


def _errors(numbers: WindowNumbers) -> float | None:
    return None if numbers.error_share is None else 100 * numbers.error_share


def _successes(numbers: WindowNumbers) -> float | None:
    return None if numbers.error_share is None else 100 * (1 - numbers.error_share)


VALUES: Mapping[MetricKind, Callable[[WindowNumbers], float | None]] = {
    MetricKind.ERROR_RATE: _errors,
    MetricKind.SUCCESS_RATE: _successes,
    MetricKind.P50: lambda numbers: numbers.p50_ms,
    MetricKind.P95: lambda numbers: numbers.p95_ms,
    MetricKind.P99: lambda numbers: numbers.p99_ms,
}


@dataclass(slots=True)
class Queries:
    """Queries under way: asked at one look, their answers taken at a later one.

    They are in no row: after a restart what is due is asked again.
    """

    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(AT_ONCE, thread_name_prefix="query")
    )
    _under_way: dict[Slot, Future[Found]] = field(default_factory=dict)

    def answer(self, seen: Seen, ask: Ask) -> Found | None:
        """The answer when it is there; None while it is waited for. Takes it away."""
        slot = (seen.rollout.pk, ask.scope, ask.metric.name)
        future = self._under_way.get(slot)
        if future is None:
            self._under_way[slot] = self._threads.submit(_ask, *_texts(seen, ask))
            return None
        if not future.done():
            return None
        del self._under_way[slot]
        return future.result()

    def forget_ended(self, active: set[uuid.UUID]) -> None:
        """Drop what was asked for rollouts that are no more."""
        for slot in [one for one in self._under_way if one[0] not in active]:
            self._under_way.pop(slot).cancel()

    def wait(self) -> None:
        """Until every query under way has its answer."""
        for future in list(self._under_way.values()):
            future.exception()

    def close(self) -> None:
        """Take no more, and wait for nothing."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _texts(seen: Seen, ask: Ask) -> tuple[str, str, str | None]:
    """The address, and the query for the candidate and, where it is needed, for the baseline."""
    query = ask.metric.query or Query("", "")
    candidate = _filled(query.text, seen, ask, seen.rollout.version)
    relative = _filled(query.text, seen, ask, seen.rollout.baseline)
    return query.address, candidate, relative if ask.metric.is_relative else None


def _filled(text: str, seen: Seen, ask: Ask, version: int) -> str:
    endpoint = seen.rollout.endpoint
    values = {
        "model": endpoint.model.name,
        "environment": endpoint.environment.name,
        "version": str(version),
        "candidate": str(seen.rollout.version),
        "baseline": str(seen.rollout.baseline),
        "window": f"{max(int(ask.seconds), 1)}s",
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _ask(address: str, text: str, relative: str | None) -> Found:
    allowed = settings.CONFIG.private_addresses
    try:
        value = prometheus.query(address, text, allowed=allowed)
        baseline = None
        if relative is not None:
            baseline = prometheus.query(address, relative, allowed=allowed)
    except CovenantError as error:
        return Found(error=error.message)
    return Found(value, baseline)
