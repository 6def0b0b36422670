"""A rollout's plan as people read it: one stage for each weight, with the times of each.

A stage is a weight and everything that is waited for before the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from deployments.rules.rollouts.progress import Progress
from deployments.rules.rollouts.types import Analyse, Metric, Pause, Plan, SetWeight, Step
from deployments.rules.states import RolloutState


class StageState(StrEnum):
    """How a stage stands; `stopped` is where a rollout ended that was not promoted."""

    DONE = "done"
    CURRENT = "current"
    TODO = "todo"
    STOPPED = "stopped"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps `first` to `last` of the plan, under one weight (in basis points).

    `planned_at` is when it was to begin as the rollout started, `expected_at` when it begins as
    things stand now; None where that hangs on a person. `began_at` and `ended_at` are what was.
    """

    number: int
    first: int
    last: int
    points: int
    wait_s: float
    needs_approval: bool
    metrics: tuple[Metric, ...]
    planned_at: datetime | None = None
    state: StageState = StageState.TODO
    expected_at: datetime | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def percent(self) -> float:
        return self.points / 100


def planned_stages(plan: Plan, start: datetime) -> tuple[Stage, ...]:
    """The stages with the times at which they would begin, were the rollout to start then."""
    stages: list[Stage] = []
    at: datetime | None = start
    for index, step in enumerate(plan.steps):
        if isinstance(step, SetWeight):
            at = None if at is None else plan.opening(at)
            stages.append(
                Stage(len(stages) + 1, index, index, step.points, 0.0, False, (), planned_at=at)
            )
        elif stages:
            stages[-1] = _with_step(stages[-1], index, step)
        at = _after(step, at)
    return tuple(stages)


def followed_stages(
    plan: Plan,
    progress: Progress,
    *,
    started_at: datetime,
    ended_at: datetime | None,
    began: Mapping[int, datetime],
    now: datetime,
) -> tuple[Stage, ...]:
    """The stages as they stand; `began` says when a step's weight was set, by the step's index."""
    stages = planned_stages(plan, started_at)
    expected = _expected(plan, progress, now) if progress.is_active else {}
    found: list[Stage] = []
    for stage in stages:
        state = _state(stage, progress, is_last=stage.number == len(stages))
        reached = state not in (StageState.TODO, StageState.SKIPPED)
        found.append(
            replace(
                stage,
                state=state,
                expected_at=expected.get(stage.first),
                began_at=began.get(stage.first) if reached else None,
            )
        )
    return tuple(
        replace(stage, ended_at=_end_of(stage, found[index + 1 :], ended_at))
        for index, stage in enumerate(found)
    )


def step_ends_at(plan: Plan, progress: Progress) -> datetime | None:
    """When the step under way ends by itself; None where it does not, or nobody knows."""
    if not progress.is_active or progress.step >= len(plan.steps):
        return None
    return _after(plan.steps[progress.step], progress.moved_at)


def takes_s(metrics: Iterable[Metric]) -> float:
    """How long an analysis takes that goes well."""
    return max(
        (one.initial_delay_s + (one.interval_s or 0.0) * ((one.count or 1) - 1) for one in metrics),
        default=0.0,
    )


def whole_s(plan: Plan, start: datetime) -> float | None:
    """Seconds from the start to the last weight; None where that hangs on a person."""
    last = planned_stages(plan, start)[-1].planned_at
    return None if last is None else (last - start).total_seconds()


def _with_step(stage: Stage, index: int, step: Step) -> Stage:
    stage = replace(stage, last=index)
    if isinstance(step, Analyse):
        return replace(stage, metrics=(*stage.metrics, *step.metrics))
    if isinstance(step, Pause) and step.seconds is not None:
        return replace(stage, wait_s=stage.wait_s + step.seconds)
    return replace(stage, needs_approval=True)


def _after(step: Step, at: datetime | None) -> datetime | None:
    if at is None or isinstance(step, SetWeight):
        return at
    if isinstance(step, Analyse):
        return at + timedelta(seconds=takes_s(step.metrics))
    return None if step.seconds is None else at + timedelta(seconds=step.seconds)


def _expected(plan: Plan, progress: Progress, now: datetime) -> dict[int, datetime]:
    """When each step that is still to come begins, by its index, as far as that is known."""
    if progress.state is RolloutState.PAUSED:
        return {}
    at: datetime | None = now
    found: dict[int, datetime] = {}
    for index in range(progress.step, len(plan.steps)):
        if index > progress.step:
            at = None if at is None else plan.opening(at)
            if at is None:
                break
            found[index] = at
        began = progress.moved_at if index == progress.step else at
        ends = _after(plan.steps[index], began)
        at = None if ends is None else max(ends, now)
    return found


def _state(stage: Stage, progress: Progress, *, is_last: bool) -> StageState:
    if progress.step > stage.last:
        return StageState.DONE
    if progress.state is RolloutState.PROMOTED:
        here = stage.first <= progress.step or is_last
        return StageState.DONE if here else StageState.SKIPPED
    if stage.first <= progress.step:
        return StageState.CURRENT if progress.is_active else StageState.STOPPED
    return StageState.TODO if progress.is_active else StageState.SKIPPED


def _end_of(stage: Stage, later: list[Stage], ended_at: datetime | None) -> datetime | None:
    if stage.began_at is None:
        return None
    return next((one.began_at for one in later if one.began_at is not None), ended_at)
