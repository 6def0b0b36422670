"""What one measurement means, and what an analysis of many comes to.

The phases and limits are those of an AnalysisRun of Argo Rollouts: a measurement that could not be
taken is an error, one that says neither yes nor no is inconclusive, and neither is a failed one.
https://argoproj.github.io/argo-rollouts/features/analysis/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from deployments.rules.rollouts.types import Metric, MetricKind

ERROR_RETRY_S = 10.0
"""After a measurement that could not be taken the next one comes so soon, as with Argo."""


class Phase(StrEnum):
    RUNNING = "running"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    ERROR = "error"
    INCONCLUSIVE = "inconclusive"


WORST_FIRST = (Phase.FAILED, Phase.ERROR, Phase.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Found:
    """What measuring gave: values, of how many requests, or why there is none (`error`)."""

    value: float | None = None
    baseline: float | None = None
    requests: int | None = None
    baseline_requests: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """One measurement: what was found, what it was held against, and what it means."""

    metric: str
    phase: Phase
    found: Found
    limit: str
    message: str
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class MetricState:
    """Counts of one metric's measurements so far, and when the next is due (None: no more)."""

    next_at: datetime | None
    successful: int = 0
    failed: int = 0
    error: int = 0
    inconclusive: int = 0
    consecutive_error: int = 0
    phase: Phase = Phase.RUNNING
    successful_at: datetime | None = None
    judged_at: datetime | None = None

    @property
    def measured(self) -> int:
        """Measurements that count towards `count`: those that could be taken."""
        return self.successful + self.failed + self.inconclusive


@dataclass(frozen=True, slots=True)
class Run:
    """An analysis under way: of one step, or beside all of them."""

    started_at: datetime
    metrics: Mapping[str, MetricState] = field(default_factory=dict)
    phase: Phase = Phase.RUNNING
    message: str = ""


def begin_run(metrics: Iterable[Metric], now: datetime, *, spread: float = 0.0) -> Run:
    """An analysis that starts now.

    `spread` (0 to 1) shifts the first measurement within its interval, so that many rollouts that
    began together do not measure together for ever.
    """
    return Run(
        now,
        {
            one.name: MetricState(
                now + timedelta(seconds=one.initial_delay_s + spread * (one.interval_s or 0.0))
            )
            for one in metrics
        },
    )


def judge(metric: Metric, found: Found) -> Judged:
    """What one measurement means."""
    limit = " / ".join(
        text
        for text in (
            f"success {metric.success}" if metric.success else "",
            f"failure {metric.failure}" if metric.failure else "",
        )
        if text
    )

    def judged(phase: Phase, message: str) -> Judged:
        return Judged(metric.name, phase, found, limit, message, metric.dry_run)

    if found.error:
        return judged(Phase.ERROR, f"{metric.name} could not be measured: {found.error}")
    if few := too_few(metric, found):
        return judged(Phase.INCONCLUSIVE, few)
    value = found.value
    if value is None:
        return judged(Phase.INCONCLUSIVE, f"{metric.name} has no value.")
    failing = metric.failure.holds(value, found.baseline) if metric.failure else None
    fine = metric.success.holds(value, found.baseline) if metric.success else None
    shown = f"{metric.name} is {_text(metric, value)}{_beside(metric, found)}"
    if failing:
        return judged(Phase.FAILED, f"{shown}, and {metric.failure} is failure.")
    if metric.success is None:
        if failing is None:
            return judged(Phase.INCONCLUSIVE, f"{shown}; the baseline has no value to compare.")
        return judged(Phase.SUCCESSFUL, f"{shown}.")
    if fine is None:
        return judged(Phase.INCONCLUSIVE, f"{shown}; the baseline has no value to compare.")
    if fine:
        return judged(Phase.SUCCESSFUL, f"{shown}.")
    if metric.failure is None:
        return judged(Phase.FAILED, f"{shown}, and success is {metric.success}.")
    return judged(Phase.INCONCLUSIVE, f"{shown}: neither success nor failure.")


def too_few(metric: Metric, found: Found) -> str:
    """Why there is too little to judge by, in words; empty when there is enough."""
    if metric.kind is MetricKind.PROMETHEUS or found.error:
        return ""
    if metric.kind is MetricKind.TELEMETRY and (found.requests or 0) < metric.min_requests:
        return (
            f"{metric.name}: {found.requests or 0} values of the new version were measured, "
            f"and {metric.min_requests} are needed to judge it."
        )
    if (found.requests or 0) < metric.min_requests:
        return (
            f"{metric.name}: the new version got {found.requests or 0} requests, "
            f"and {metric.min_requests} are needed to judge it."
        )
    if metric.is_relative and (found.baseline_requests or 0) < metric.min_requests:
        return (
            f"{metric.name}: the old version got {found.baseline_requests or 0} requests, "
            f"and {metric.min_requests} are needed to compare with it."
        )
    return ""


def count(metric: Metric, state: MetricState, judged: Judged, now: datetime) -> MetricState:
    """The counts with one measurement more, and what they come to."""
    wait = metric.interval_s or ERROR_RETRY_S
    state = replace(state, judged_at=now)
    if judged.phase is Phase.ERROR:
        wait = min(wait, ERROR_RETRY_S)
        state = replace(state, error=state.error + 1, consecutive_error=state.consecutive_error + 1)
    else:
        changed = {judged.phase.value: getattr(state, judged.phase.value) + 1}
        if judged.phase is Phase.SUCCESSFUL:
            state = replace(state, successful_at=now)
        state = replace(state, consecutive_error=0, **changed)
    phase = _phase(metric, state)
    next_at = following(state, wait, now) if phase is Phase.RUNNING else None
    return replace(state, phase=phase, next_at=next_at)


def following(state: MetricState, wait: float, now: datetime) -> datetime:
    """When the next measurement is due: on the metric's own beat, also after a time of silence.

    So rollouts that were all overdue, after a stop of the process, do not measure together for
    ever after. One that was taken before its time begins a new beat.
    """
    due = state.next_at
    if due is None or due > now:
        return now + timedelta(seconds=wait)
    missed = int((now - due).total_seconds() // wait)
    return due + timedelta(seconds=wait * (missed + 1))


def conclude(metrics: Iterable[Metric], states: Mapping[str, MetricState]) -> Phase:
    """What an analysis has come to: the worst of what decides; dry-run metrics never do."""
    phases = [states[one.name].phase for one in metrics if not one.dry_run and one.name in states]
    for phase in WORST_FIRST:
        if phase in phases:
            return phase
    return Phase.RUNNING if Phase.RUNNING in phases else Phase.SUCCESSFUL


def _phase(metric: Metric, state: MetricState) -> Phase:
    if state.failed > metric.failure_limit:
        return Phase.FAILED
    if state.inconclusive > metric.inconclusive_limit:
        return Phase.INCONCLUSIVE
    if state.consecutive_error > metric.consecutive_error_limit:
        return Phase.ERROR
    if metric.count is not None and state.measured >= metric.count:
        return Phase.SUCCESSFUL
    return Phase.RUNNING


def _text(metric: Metric, value: float) -> str:
    kind = metric.kind
    if kind in (MetricKind.P50, MetricKind.P95, MetricKind.P99):
        return f"{value:.4g} ms"
    if kind in (MetricKind.PROMETHEUS, MetricKind.TELEMETRY):
        return f"{value:g}"
    if kind is MetricKind.CONVERSION_DIFFERENCE:
        return f"{value:+.3g} points"
    return f"{value:.4g} %"


def _beside(metric: Metric, found: Found) -> str:
    parts = []
    if metric.is_relative and found.baseline is not None:
        parts.append(f"baseline {_text(metric, found.baseline)}")
    if found.requests is not None:
        what = "values" if metric.kind is MetricKind.TELEMETRY else "requests"
        parts.append(f"{found.requests} {what}")
    return f" ({', '.join(parts)})" if parts else ""
