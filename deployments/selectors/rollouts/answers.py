"""One rollout in full, as the API gives it."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from console.models import User
from deployments.models import AnalysisRun, Measurement, Rollout
from deployments.rules.rollouts.types import Analyse, Pause, Plan, SetWeight
from deployments.selectors.rollouts.pages import find_rollout, plan_and_progress

MOST_EVENTS = 200
MOST_RUNS = 50
MOST_OF_A_RUN = 200


def rollout_in_full(
    rollout_id: uuid.UUID, *, user: User, environment: str, model: str
) -> Rollout | None:
    """The rollout with its steps, newest events, analyses and measurements on it; four queries.

    None when it is another endpoint's. Raises NotFound.
    """
    rollout: Any = find_rollout(rollout_id, user=user)
    if (rollout.endpoint.environment.name, rollout.endpoint.model.name) != (environment, model):
        return None
    plan, progress = plan_and_progress(rollout)
    events = list(rollout.events.select_related("actor", "split").order_by("-at", "-pk"))
    rollout.shown_events = list(reversed(events[:MOST_EVENTS]))
    began = {
        one.step: one.at for one in rollout.shown_events if one.split_id and one.kind == "weight"
    }
    rollout.plan_steps = _steps(plan, progress.step, began)
    rollout.shown_analyses = _analyses(rollout)
    found: Rollout = rollout
    return found


def _analyses(rollout: Rollout) -> list[AnalysisRun]:
    runs: list[Any] = list(rollout.analyses.order_by("-started_at", "-pk")[:MOST_RUNS])
    rank = Window(
        RowNumber(), partition_by=F("analysis_id"), order_by=[F("at").desc(), F("pk").desc()]
    )
    rows = (
        Measurement.objects.filter(analysis__in=[run.pk for run in runs])
        .annotate(rank=rank)
        .filter(rank__lte=MOST_OF_A_RUN)
        .order_by("at", "pk")
    )
    by_run: dict[int, list[Measurement]] = {}
    for row in rows:
        by_run.setdefault(row.analysis_id, []).append(row)
    for run in runs:
        run.newest = by_run.get(run.pk, [])
    return list(reversed(runs))


def _steps(plan: Plan, at: int, began: dict[int | None, Any]) -> list[dict[str, Any]]:
    kinds = {SetWeight: "set_weight", Pause: "pause", Analyse: "analyse"}
    return [
        {
            "number": index + 1,
            "kind": kinds[type(step)],
            "state": "done" if index < at else "current" if index == at else "todo",
            "percent": step.points / 100 if isinstance(step, SetWeight) else None,
            "seconds": step.seconds if isinstance(step, Pause) else None,
            "metrics": [one.name for one in step.metrics] if isinstance(step, Analyse) else [],
            "began_at": began.get(index),
        }
        for index, step in enumerate(plan.steps)
    ]
