"""Experiments as pages, the API and rollouts' analyses read them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext

from console.errors import NotFound
from console.models import User
from deployments.models import Experiment, ExperimentCount, ExperimentState
from deployments.rules.experiments.design import Evidence, ExperimentSettings, MinuteCount, evidence
from deployments.rules.experiments.sequential_tests import Estimate


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """An experiment with what its counts say; once ended, as they stood then."""

    experiment: Experiment
    settings: ExperimentSettings
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class ConversionDifference:
    """Candidate's conversion less the baseline's, in percentage points, with its interval.

    `difference`, `low` and `high` are None while there are too few answers to say anything.
    """

    baseline_answered: int
    candidate_answered: int
    difference: float | None
    low: float | None
    high: float | None


def experiment_list(environment: str, model: str, *, user: User) -> QuerySet[Experiment]:
    """An endpoint's experiments, newest first; one query."""
    return (
        Experiment.objects.visible_to(user)
        .filter(endpoint__environment__name=environment, endpoint__model__name=model)
        .select_related("endpoint__model", "endpoint__environment", "started_by")
        .order_by("-started_at", "-pk")
    )


def find_experiment(
    environment: str, model: str, experiment_id: uuid.UUID, *, user: User
) -> Experiment:
    """One experiment; one query. Raises NotFound, also for what the user may not see."""
    found = experiment_list(environment, model, user=user).filter(pk=experiment_id).first()
    if found is None:
        raise NotFound(
            f"There is no experiment {experiment_id} at {environment}/{model}.",
            hint="See the endpoint's list of experiments.",
        )
    return found


def view_of(experiment: Experiment, *, now: datetime) -> ExperimentView:
    """What an experiment's counts say now, or said when it ended; one query."""
    settings = ExperimentSettings.from_json(experiment.settings)
    counts = ExperimentCount.objects.filter(experiment=experiment).values_list(
        "version", "minute", "answered", "converted"
    )
    found = evidence(
        (MinuteCount(*row) for row in counts),
        settings,
        baseline=experiment.baseline,
        candidate=experiment.candidate,
        now=experiment.ended_at or now,
    )
    return ExperimentView(experiment, settings, found)


def conversion_difference(
    environment: str, model: str, *, baseline: int, candidate: int, now: datetime
) -> ConversionDifference | None:
    """What the endpoint's running experiment on these two says; None when there is none.

    Two queries. The numbers are of the whole experiment: its interval holds at every look.
    """
    experiment = Experiment.objects.filter(
        endpoint__environment__name=environment,
        endpoint__model__name=model,
        baseline=baseline,
        candidate=candidate,
        state=ExperimentState.RUNNING,
    ).first()
    if experiment is None:
        return None
    found = view_of(experiment, now=now).evidence
    return ConversionDifference(
        found.baseline.answered, found.candidate.answered, *_points(found.difference)
    )


def _points(found: Estimate | None) -> tuple[float | None, float | None, float | None]:
    if found is None:
        return None, None, None
    return 100 * found.value, 100 * found.low, 100 * found.high


def _telling(points: Sequence[tuple[datetime, Estimate]]) -> Sequence[tuple[datetime, Estimate]]:
    """Without the first ones, whose intervals are so wide that nothing else could be seen."""
    if not points:
        return points
    widest = 8 * (points[-1][1].high - points[-1][1].low)
    return [point for point in points if point[1].high - point[1].low <= widest]


def experiment_chart(view: ExperimentView) -> dict[str, Any]:
    """The difference over time in percentage points, with the ends of its interval."""
    points = _telling(view.evidence.points)
    times = [minute.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for minute, _ in points]

    def line(name: str, field: str, **style: Any) -> dict[str, Any]:
        values = [round(100 * getattr(found, field), 4) for _, found in points]
        return {"name": name, "x": times, "y": values, **style}

    candidate = view.experiment.candidate
    return {
        "series": [
            line(gettext("difference"), "value", version=candidate),
            line(gettext("upper end"), "high", version=candidate, dash="dot"),
            line(gettext("lower end"), "low", version=candidate, dash="dot"),
        ],
        "limit": {"value": -100 * view.settings.margin, "label": gettext("margin")},
        "markers": [],
        "signed": True,
    }
