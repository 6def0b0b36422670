"""What a rollout becomes by a person's hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from deployments.rules.rollouts.analysis import Run
from deployments.rules.rollouts.measuring import runs_of, step_of
from deployments.rules.rollouts.progress import Cause, Progress
from deployments.rules.rollouts.types import Metric, Pause, Plan, SetWeight
from deployments.rules.states import RolloutState
from deployments.rules.traffic.splits import WHOLE


def begin(now: datetime, *, spread: float = 0.0) -> Progress:
    """A rollout that starts now: before its first step, with nothing on the candidate.

    Its first move may be made at this very instant.
    """
    return Progress(step=0, moved_at=now - timedelta(microseconds=1), spread=spread)


def paused(progress: Progress, message: str) -> Progress:
    """Standing still until a person lets it go on. What has traffic keeps it, and is watched."""
    return replace(progress, state=RolloutState.PAUSED, cause=Cause.BY_HAND.value, message=message)


def resumed(plan: Plan, progress: Progress, now: datetime, *, weight: int) -> Progress:
    """Let go on: approved, or to be tried once more. `weight` is what the candidate has now.

    A pause for approval is over, what was inconclusive is measured anew, and where the traffic
    was moved the weight of the present step is set again.
    """
    fresh = replace(progress, state=RolloutState.RUNNING, cause="", message="")
    match progress.cause:
        case Cause.APPROVAL:
            return replace(fresh, step=progress.step + 1, moved_at=now, inline=None)
        case Cause.INCONCLUSIVE | Cause.NOT_READY:
            return replace(fresh, moved_at=now, background=None, inline=None)
        case Cause.TRAFFIC_MOVED | Cause.REFUSED_BY_GATEWAY:
            return replace(
                fresh,
                step=_weight_step(plan, progress.step),
                moved_at=now,
                weight=weight,
                weight_since=None,
                background=None,
                inline=None,
            )
    return fresh


def skipped(plan: Plan, progress: Progress, now: datetime) -> Progress:
    """The step under way is over, whatever it waited for: the next one begins.

    A weight that is not set yet is no waiting: it stays to be set, or a rollout could end as
    promoted without its traffic.
    """
    step = plan.steps[progress.step] if progress.step < len(plan.steps) else None
    unset = isinstance(step, SetWeight) and progress.weight != step.points
    return replace(
        progress,
        step=progress.step if step is None or unset else progress.step + 1,
        moved_at=now,
        state=RolloutState.RUNNING,
        cause="",
        message="",
        inline=None,
    )


def after_a_stop(plan: Plan, progress: Progress, now: datetime) -> Progress:
    """Looked at again after a time in which nobody did, because everything was restarted, say.

    It goes on from its step. What was counted meanwhile is not held against the candidate: as with
    a weight that was set just now, everything is measured from here on, and a timed pause begins
    anew.
    """
    step = step_of(plan, progress)
    timed = isinstance(step, Pause) and step.seconds is not None
    background, inline = (
        run and _measured_later(run, metrics, now) for _, metrics, run in runs_of(plan, progress)
    )
    return replace(
        progress,
        weight_since=None,
        exposed_since=None,
        moved_at=now if timed else progress.moved_at,
        background=background,
        inline=inline,
    )


def _measured_later(run: Run, metrics: tuple[Metric, ...], now: datetime) -> Run:
    """The run with no measurement before a whole interval from now."""
    by_name = {one.name: one for one in metrics}
    later = {}
    for name, state in run.metrics.items():
        seconds = by_name[name].interval_s or by_name[name].window_s
        at = state.next_at and max(state.next_at, now + timedelta(seconds=seconds))
        later[name] = replace(state, next_at=at)
    return replace(run, metrics=later)


def promoted(progress: Progress, now: datetime) -> Progress:
    """All of the traffic at once, and the end."""
    return _ended(progress, now, RolloutState.PROMOTED, Cause.PROMOTED, WHOLE)


def aborted(progress: Progress, now: datetime, message: str) -> Progress:
    """Nothing on the candidate any more, and the end."""
    ended = _ended(progress, now, RolloutState.ABORTED, Cause.BY_HAND, 0)
    return replace(ended, message=message)


def _ended(
    progress: Progress, now: datetime, state: RolloutState, cause: Cause, weight: int
) -> Progress:
    return replace(
        progress,
        weight=weight,
        weight_since=None,
        moved_at=now,
        state=state,
        cause=cause.value,
        message="",
    )


def _weight_step(plan: Plan, step: int) -> int:
    """The step that set the weight which holds at this one."""
    weights = [i for i, one in enumerate(plan.steps[: step + 1]) if isinstance(one, SetWeight)]
    return max(weights, default=step)
