"""Rollouts that are decided by what is measured of a model, or sent for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.errors import FieldError
from deployments.models import Endpoint, Measurement, Rollout
from deployments.rules.rollouts.metrics import metric_json, read_metrics
from deployments.rules.rollouts.reading import Fields
from deployments.rules.rollouts.types import Aggregate, Metric, MetricKind, SeriesQuery
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.services.rollouts.acts import start_rollout
from deployments.services.rollouts.engine import reconcile
from deployments.services.rollouts.measurements import Queries
from deployments.services.statistics.measurements import record
from deployments.services.traffic.splits import set_split
from deployments.views.rollout_words import metric_name, value_text, verdict_sentence
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

METRIC = {
    "telemetry": {"name": "feature_drift_score", "aggregate": "max"},
    "failure_condition": "result > 0.3",
}


def read(document: dict[str, Any]) -> tuple[Metric | None, list[FieldError]]:
    faults: list[FieldError] = []
    shared = Fields({}, (), faults, ())
    found = read_metrics([(("analysis", 0), document)], faults, inline=True, shared=shared)
    return (found[0] if not faults else None), faults


def test_a_series_is_a_metric() -> None:
    metric, faults = read(METRIC)
    assert not faults
    assert metric is not None
    assert (metric.kind, metric.name) == (MetricKind.TELEMETRY, "feature_drift_score")
    assert metric.series == SeriesQuery("feature_drift_score", "", Aggregate.MAX)
    again, _ = read(metric_json(metric))
    assert again == metric
    assert metric_name(metric) == "feature_drift_score"
    assert value_text(metric, 0.25) == "0.25"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"telemetry": {}}, "name a series"),
        ({"telemetry": {"name": "x", "aggregate": "median"}}, "is none of mean"),
        ({"metric": "error_rate"}, "is given beside"),
        ({"telemetry": {"name": "x", "version": 1}}, "version"),
        ({"telemetry": 5}, ""),
    ],
)
def test_what_is_no_series_is_refused(changes: dict[str, Any], words: str) -> None:
    _, faults = read({**METRIC, **changes})
    assert faults
    assert any(words in f"{one.pointer} {one.detail}" for one in faults)


@pytest.fixture
def queries() -> Iterator[Queries]:
    found = Queries()
    yield found
    found.close()


def start(fleet: Fleet, metric: dict[str, Any]) -> Rollout:
    model = factories.make_model("measured")
    for _ in range(2):
        ready_version(fleet, factories.make_version(model))
    applied(
        set_split(
            environment="production",
            model=model.name,
            weights={1: 100},
            expected_revision=None,
            reason="a start",
            actor=fleet.sam,
        )
    )
    plan = {"steps": [{"set_weight": 10}, {"analyse": [metric]}], "analysis": False}
    rollout = start_rollout(
        environment="production",
        model=model.name,
        version=2,
        plan=plan,
        reason="x",
        actor=fleet.sam,
    )
    current = Endpoint.objects.get(model=model).current
    assert current is not None
    applied(current)
    return rollout


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("values", "phase", "state"),
    [([0.1, 0.5], "failed", "rolled_back"), ([0.1, 0.2], "successful", "running")],
)
def test_drift_of_the_new_version_decides(
    fleet_rows: Fleet, queries: Queries, values: list[float], phase: str, state: str
) -> None:
    rollout = start(fleet_rows, METRIC)
    now = datetime.now(UTC)
    subject = Subject(endpoint=rollout.endpoint_id, version=2)
    record(Point(Quantity(subject, "feature_drift_score"), value, now) for value in values)
    other = Subject(endpoint=rollout.endpoint_id, version=1)
    record([Point(Quantity(other, "feature_drift_score"), 0.9, now)])
    for number in range(3):
        reconcile(rollout.pk, now + timedelta(seconds=number), asked=queries)
    found = Measurement.objects.filter(analysis__rollout=rollout).order_by("pk")[0]
    assert (found.value, found.phase, found.requests) == (max(values), phase, 2)
    rollout.refresh_from_db()
    assert (rollout.state == "rolled_back") == (state == "rolled_back")
    metric, _ = read(METRIC)
    assert metric is not None
    assert "feature_drift_score was" in verdict_sentence(metric, found)


@pytest.mark.django_db
def test_what_nobody_measured_decides_nothing(fleet_rows: Fleet, queries: Queries) -> None:
    rollout = start(fleet_rows, METRIC)
    now = datetime.now(UTC)
    for number in range(3):
        reconcile(rollout.pk, now + timedelta(seconds=number), asked=queries)
    found = Measurement.objects.filter(analysis__rollout=rollout).order_by("pk")[0]
    assert (found.value, found.phase) == (None, "inconclusive")
    assert "0 values of the new version" in found.message
