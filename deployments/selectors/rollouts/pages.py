"""Rollouts: at a glance, and one in full with its stages, measurements and events."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from console.errors import NotFound
from console.models import User
from deployments.models import (
    ACTIVE_ROLLOUTS,
    Endpoint,
    Incident,
    Measurement,
    Rollout,
    RolloutEvent,
    RolloutState,
)
from deployments.rules.rollouts.analysis import MetricState, Run
from deployments.rules.rollouts.plan import parse_plan
from deployments.rules.rollouts.progress import Progress, read_progress
from deployments.rules.rollouts.stages import Stage, followed_stages, step_ends_at
from deployments.rules.rollouts.types import Analyse, Metric, Plan

MOST_EVENTS = 200
MOST_MEASUREMENTS = 600
SHOWN_MEASUREMENTS = 50
UNDER_WAY = 20

STATES: Mapping[str, tuple[str, ...]] = {
    "active": tuple(ACTIVE_ROLLOUTS),
    "ended": (RolloutState.PROMOTED, RolloutState.ABORTED, RolloutState.ROLLED_BACK),
    **{str(state): (state,) for state in RolloutState},
}
"""What can be asked for as the state of a list."""


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rollout in a list; `step` counts from 1, `weight` is the candidate's share in percent."""

    rollout: Rollout
    environment: str
    model: str
    step: int
    steps: int
    weight: float


@dataclass(frozen=True, slots=True)
class MetricView:
    """One metric with its measurements, oldest first.

    `step` is the index of the step that it belongs to; None where it is measured beside all steps.
    """

    metric: Metric
    step: int | None
    state: MetricState | None
    measurements: tuple[Measurement, ...]

    @property
    def latest(self) -> Measurement | None:
        return self.measurements[-1] if self.measurements else None

    @property
    def values(self) -> list[float | None]:
        """For a small line: a measurement that could not be taken is a gap."""
        return [one.value for one in self.measurements]


@dataclass(frozen=True, slots=True)
class RolloutPage:
    """Everything that the page of one rollout shows but its charts.

    `ends_at` is when the step under way ends by itself, `opens_at` when a step may begin next.
    """

    rollout: Rollout
    environment: str
    model: str
    plan: Plan
    progress: Progress
    stages: tuple[Stage, ...]
    ends_at: datetime | None
    opens_at: datetime | None
    metrics: list[MetricView]
    events: list[RolloutEvent]
    incident: Incident | None

    @property
    def step(self) -> int:
        return min(self.progress.step + 1, len(self.plan.steps))

    @property
    def stage(self) -> Stage | None:
        """The stage under way, or the one in which it ended."""
        reached = [one for one in self.stages if one.first <= self.progress.step]
        return reached[-1] if reached else None


def rollout_list(
    *, user: User, state: str = "", environment: str = "", query: str = "", model: str = ""
) -> QuerySet[Rollout]:
    """Rollouts, newest first, with all that a row shows; `query` is found in the model's name."""
    rows = _rollouts(user)
    if state in STATES:
        rows = rows.filter(state__in=STATES[state])
    if environment:
        rows = rows.filter(endpoint__environment__name=environment)
    if model:
        rows = rows.filter(endpoint__model__name=model)
    if query:
        rows = rows.filter(endpoint__model__name__icontains=query)
    return rows.order_by("-created_at", "-pk")


def rollout_row(rollout: Rollout) -> RolloutRow:
    """A row of a list; no query where the rollout comes from `rollout_list`."""
    steps = len(rollout.plan.get("steps", ()))
    return RolloutRow(
        rollout=rollout,
        environment=rollout.endpoint.environment.name,
        model=rollout.endpoint.model.name,
        step=min(int(rollout.progress.get("step", 0)) + 1, steps),
        steps=steps,
        weight=float(rollout.progress.get("weight", 0)) / 100,
    )


def rollouts_under_way(user: User) -> list[RolloutRow]:
    """Those that have not ended, paused ones first; one query."""
    rows = _rollouts(user).filter(state__in=ACTIVE_ROLLOUTS)
    return [rollout_row(one) for one in rows.order_by("state", "-created_at")[:UNDER_WAY]]


def active_rollout(endpoint: Endpoint) -> Rollout | None:
    """The endpoint's rollout under way; one query."""
    found = Rollout.objects.filter(endpoint=endpoint, state__in=ACTIVE_ROLLOUTS).first()
    if found is not None:
        found.endpoint = endpoint
    return found


def find_rollout(rollout_id: uuid.UUID, *, user: User) -> Rollout:
    """The rollout with its endpoint. Raises NotFound, also for a model that is hidden."""
    found = _rollouts(user).filter(pk=rollout_id).first()
    if found is None:
        raise NotFound("There is no such rollout.", hint="See the list of rollouts.")
    return found


def plan_and_progress(rollout: Rollout) -> tuple[Plan, Progress]:
    """What the row keeps, typed."""
    plan = parse_plan(rollout.plan)
    if not rollout.progress:
        return plan, Progress(0, rollout.created_at)
    progress = read_progress(
        rollout.progress, state=rollout.state, cause=rollout.cause, message=rollout.message
    )
    return plan, progress


def rollout_page(rollout_id: uuid.UUID, *, user: User, now: datetime) -> RolloutPage:
    """One rollout in full, in four queries. Raises NotFound."""
    rollout = find_rollout(rollout_id, user=user)
    plan, progress = plan_and_progress(rollout)
    events = list(
        rollout.events.select_related("actor", "split").order_by("-at", "-pk")[:MOST_EVENTS]
    )
    return RolloutPage(
        rollout=rollout,
        environment=rollout.endpoint.environment.name,
        model=rollout.endpoint.model.name,
        plan=plan,
        progress=progress,
        stages=followed_stages(
            plan,
            progress,
            started_at=rollout.created_at,
            ended_at=rollout.ended_at,
            began=_began(events),
            now=now,
        ),
        ends_at=step_ends_at(plan, progress),
        opens_at=plan.opening(now),
        metrics=_metrics(rollout, plan, progress),
        events=events,
        incident=Incident.objects.filter(rollout=rollout).order_by("started_at").first(),
    )


def _rollouts(user: User) -> QuerySet[Rollout]:
    return Rollout.objects.visible_to(user).select_related(
        "endpoint__model", "endpoint__environment", "endpoint__current", "started_by"
    )


def _began(events: Iterable[RolloutEvent]) -> dict[int, datetime]:
    """When each step's weight was set first; `events` are newest first."""
    return {one.step: one.at for one in events if one.step is not None and one.split_id is not None}


def _metrics(rollout: Rollout, plan: Plan, progress: Progress) -> list[MetricView]:
    """Those beside the steps, then those of each step that was reached; one query."""
    found = Measurement.objects.filter(analysis__rollout=rollout).select_related("analysis")
    by_metric: dict[tuple[int | None, str], list[Measurement]] = defaultdict(list)
    for one in found.order_by("-at", "-pk")[:MOST_MEASUREMENTS]:
        by_metric[(one.analysis.step, one.metric)].append(one)
    views = [_view(metric, None, progress.background, by_metric) for metric in plan.background]
    for index, step in enumerate(plan.steps[: progress.step + 1]):
        if isinstance(step, Analyse):
            run = progress.inline if index == progress.step else None
            views += [_view(metric, index, run, by_metric) for metric in step.metrics]
    return views


def _view(
    metric: Metric,
    step: int | None,
    run: Run | None,
    by_metric: Mapping[tuple[int | None, str], list[Measurement]],
) -> MetricView:
    newest = by_metric.get((step, metric.name), [])[:SHOWN_MEASUREMENTS]
    state = run.metrics.get(metric.name) if run else None
    return MetricView(metric, step, state, tuple(reversed(newest)))
