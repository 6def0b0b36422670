"""Metrics that a Prometheus answers: asked beside the tick, and never waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from deployments.models import Endpoint, Measurement, Rollout
from deployments.services.rollouts.acts import start_rollout
from deployments.services.rollouts.engine import reconcile
from deployments.services.rollouts.measurements import Queries
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.adapters.prometheus_running import running_prometheus
from tests.adapters.test_prometheus_adapter import serving
from tests.deployments.conftest import Fleet, applied, ready_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def queries(settings: Any) -> Iterator[Queries]:
    settings.CONFIG = replace(settings.CONFIG, private_addresses=(ip_network("127.0.0.0/8"),))
    found = Queries()
    yield found
    found.close()


def start(fleet: Fleet, address: str, query: str, condition: str) -> Rollout:
    model = factories.make_model("queried")
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
    metric = {
        "name": "asked",
        "prometheus": {"address": address, "query": query},
        "success_condition": condition,
    }
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


def look(rollout: Rollout, queries: Queries, *, times: int = 8) -> Rollout:
    """So many ticks, each with every answer there that was asked for before."""
    now = datetime.now(UTC)
    for number in range(times):
        reconcile(rollout.pk, now + timedelta(seconds=number), asked=queries)
        queries.wait()
    rollout.refresh_from_db()
    return rollout


def test_a_query_decides_and_names_both_versions(
    fleet_rows: Fleet, queries: Queries, tmp_path: Path
) -> None:
    with running_prometheus(tmp_path, []) as address:
        # 20 for the new version, 10 for the old one.
        rollout = start(fleet_rows, address, "vector({{version}} * 10)", "<= baseline * 1.5")
        look(rollout, queries)
    found = Measurement.objects.get(analysis__rollout=rollout)
    assert (found.value, found.baseline_value, found.phase) == (20.0, 10.0, "failed")
    assert (rollout.state, rollout.cause) == ("rolled_back", "analysis_failed")


def test_a_good_answer_lets_it_go_on(fleet_rows: Fleet, queries: Queries, tmp_path: Path) -> None:
    with running_prometheus(tmp_path, []) as address:
        rollout = start(fleet_rows, address, "vector(1)", ">= 1")
        look(rollout, queries)
    assert Measurement.objects.get(analysis__rollout=rollout).phase == "successful"
    assert rollout.progress["step"] == 2
    assert rollout.progress["weight"] == 10_000


def test_who_cannot_be_asked_is_an_error_and_nobody_waits(
    fleet_rows: Fleet, queries: Queries
) -> None:
    with serving(b"{}", delay=2.0) as silent:
        rollout = start(fleet_rows, silent, "up", ">= 1")
        now, began = datetime.now(UTC), time.monotonic()
        for number in range(4):
            reconcile(rollout.pk, now + timedelta(seconds=number), asked=queries)
        assert time.monotonic() - began < 1.5, "the answer takes longer than all four ticks"
    assert not Measurement.objects.exists()


def test_five_errors_in_a_row_end_it(fleet_rows: Fleet, queries: Queries) -> None:
    rollout = start(fleet_rows, "http://127.0.0.1:9", "up", ">= 1")
    look(rollout, queries, times=60)
    assert (rollout.state, rollout.cause) == ("aborted", "analysis_error")
    taken = Measurement.objects.filter(analysis__rollout=rollout)
    assert set(taken.values_list("phase", flat=True)) == {"error"}
    assert taken.count() == 5
