"""Which measurements of a rollout are due, and what those that were taken come to."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from deployments.rules.rollouts import analysis
from deployments.rules.rollouts.analysis import Judged, Phase, Run
from deployments.rules.rollouts.looks import BACKGROUND, INLINE, Act, Action, Ask, Look
from deployments.rules.rollouts.progress import Cause, Progress
from deployments.rules.rollouts.types import Analyse, Metric, Pause, Plan, Step
from deployments.rules.states import RolloutState

SOON_S = 1.0
"""What waits for something that may come at any moment is looked at so often."""


def step_of(plan: Plan, progress: Progress) -> Step | None:
    """The step under way; None when all are done."""
    return plan.steps[progress.step] if progress.step < len(plan.steps) else None


def runs_of(plan: Plan, progress: Progress) -> list[tuple[str, tuple[Metric, ...], Run | None]]:
    """Both analyses that may be under way: their scope, metrics and run."""
    step = step_of(plan, progress)
    inline = step.metrics if isinstance(step, Analyse) else ()
    return [
        (BACKGROUND, plan.background, progress.background),
        (INLINE, inline, progress.inline),
    ]


def asks(plan: Plan, progress: Progress, now: datetime, *, frozen: bool = False) -> list[Ask]:
    """The measurements that are due. Nothing is measured before the candidate has traffic."""
    if not progress.is_active or progress.weight_since is None or not progress.weight:
        return []
    progress = with_runs(plan, progress, now)
    since = max((now - (progress.weight_since or now)).total_seconds(), 1.0)
    gated = gate_since(plan, progress, now, frozen=frozen)
    due: list[Ask] = []
    for scope, metrics, run in runs_of(plan, progress):
        if run is None or run.phase is not Phase.RUNNING:
            continue
        for metric in metrics:
            state = run.metrics[metric.name]
            if state.next_at is None:
                continue
            at_gate = scope == BACKGROUND and gated is not None
            if state.next_at <= now or (at_gate and _is_needed(metric, run, progress, gated, now)):
                due.append(Ask(scope, metric, min(metric.window_s, since)))
    return due


def with_runs(plan: Plan, progress: Progress, now: datetime) -> Progress:
    """The analyses that should be under way, begun: not before the candidate has traffic."""
    if progress.weight_since is None or not progress.weight:
        return progress
    if plan.background and progress.background is None and progress.step >= plan.background_from:
        run = analysis.begin_run(plan.background, now, spread=progress.spread)
        progress = replace(progress, background=run)
    step = step_of(plan, progress)
    if isinstance(step, Analyse) and progress.inline is None:
        progress = replace(progress, inline=analysis.begin_run(step.metrics, now))
    return progress


def measure(
    plan: Plan, progress: Progress, look: Look, now: datetime
) -> tuple[Progress, tuple[tuple[str, Judged], ...]]:
    """The progress with what was found counted, and each measurement judged."""
    frozen = bool(look.frozen)
    judged: list[tuple[str, Judged]] = []
    gate = gate_since(plan, progress, now, frozen=frozen) is not None
    for ask in asks(plan, progress, now, frozen=frozen):
        found = look.found.get((ask.scope, ask.metric.name))
        run = progress.background if ask.scope == BACKGROUND else progress.inline
        if found is None or run is None:
            continue
        state = run.metrics[ask.metric.name]
        if ask.scope == BACKGROUND and not gate and analysis.too_few(ask.metric, found):
            # Too few requests matter only where the rollout would go on because of them.
            wait = ask.metric.interval_s or SOON_S
            after = replace(state, next_at=analysis.following(state, wait, now))
        else:
            one = analysis.judge(ask.metric, found)
            judged.append((ask.scope, one))
            after = analysis.count(ask.metric, state, one, now)
        run = replace(run, metrics={**run.metrics, ask.metric.name: after})
        progress = _with_run(progress, ask.scope, run)
    return _concluded(plan, progress, judged), tuple(judged)


def verdict(plan: Plan, progress: Progress) -> Action | None:
    """What the analyses have come to, where that ends or pauses the rollout."""
    by_phase = {run.phase: run for _, _, run in runs_of(plan, progress) if run is not None}
    if failed := by_phase.get(Phase.FAILED):
        return Action(Act.ROLL_BACK, 0, Cause.ANALYSIS_FAILED, failed.message)
    if error := by_phase.get(Phase.ERROR):
        return Action(Act.ABORT, 0, Cause.ANALYSIS_ERROR, error.message)
    unclear = by_phase.get(Phase.INCONCLUSIVE)
    if unclear is not None and progress.state is RolloutState.RUNNING:
        return Action(Act.PAUSE, None, Cause.INCONCLUSIVE, unclear.message)
    return None


def unproved(plan: Plan, progress: Progress) -> list[str]:
    """Metrics beside the steps that were not yet successful at the present weight."""
    run = progress.background
    if run is None:
        return []
    return [one.name for one in plan.background if not _is_proved(one, run, progress)]


def gate_since(plan: Plan, progress: Progress, now: datetime, *, frozen: bool) -> datetime | None:
    """Since when only measurements stand between the rollout and its next step; None: they don't.

    That is at the end of a timed pause, when a step may begin.
    """
    step = step_of(plan, progress)
    if progress.state is not RolloutState.RUNNING or frozen:
        return None
    if not isinstance(step, Pause) or step.seconds is None:
        return None
    over = progress.moved_at + timedelta(seconds=step.seconds)
    opening = plan.opening(now) if over <= now else None
    return over if opening is not None and opening <= now else None


def _is_needed(
    metric: Metric, run: Run, progress: Progress, gated: datetime | None, now: datetime
) -> bool:
    """Whether the gate waits for this metric and it was not judged there yet."""
    state = run.metrics[metric.name]
    if _is_proved(metric, run, progress):
        return False
    if now < run.started_at + timedelta(seconds=metric.initial_delay_s):
        return False
    return gated is not None and (state.judged_at is None or state.judged_at < gated)


def _is_proved(metric: Metric, run: Run, progress: Progress) -> bool:
    """Whether a metric was successful at the present weight, decides nothing or is at its end."""
    state = run.metrics[metric.name]
    if metric.dry_run or state.next_at is None:
        return True
    since = progress.weight_since
    return state.successful_at is not None and since is not None and state.successful_at >= since


def _concluded(plan: Plan, progress: Progress, judged: list[tuple[str, Judged]]) -> Progress:
    for scope, metrics, run in runs_of(plan, progress):
        if run is None or run.phase is not Phase.RUNNING:
            continue
        phase = analysis.conclude(metrics, run.metrics)
        if scope == BACKGROUND and phase is Phase.SUCCESSFUL:
            # It goes on beside the steps, though each of its metrics may be at its end.
            phase = Phase.RUNNING
        words = [
            one.message
            for at, one in judged
            if at == scope and not one.dry_run and one.phase is phase
        ]
        done = replace(run, phase=phase, message=words[-1] if words else run.message)
        progress = _with_run(progress, scope, done)
    return progress


def _with_run(progress: Progress, scope: str, run: Run) -> Progress:
    if scope == BACKGROUND:
        return replace(progress, background=run)
    return replace(progress, inline=run)
