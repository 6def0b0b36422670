"""Experiments under way, as the edge has to know them."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.models import Experiment, ExperimentState
from deployments.rules.experiments.design import ExperimentSettings


@dataclass(frozen=True, slots=True)
class RunningExperiment:
    id: str
    endpoint: str
    baseline: int
    candidate: int
    settings: ExperimentSettings


def running_experiments() -> list[RunningExperiment]:
    """Every running experiment; one query."""
    rows = Experiment.objects.filter(state=ExperimentState.RUNNING).select_related(
        "endpoint__model", "endpoint__environment"
    )
    return [
        RunningExperiment(
            str(row.pk),
            str(row.endpoint),
            row.baseline,
            row.candidate,
            ExperimentSettings.from_json(row.settings),
        )
        for row in rows
    ]
