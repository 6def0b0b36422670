"""Copies of requests through a real Envoy to the edge, which has both versions answer them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from django.utils import timezone

from console import live
from console.stack import envoy as envoy_stack
from deployments.models import ComparisonMinute, Gateway, PlacementState
from deployments.rules.comparison_windows import ComparisonWindow
from deployments.selectors.comparisons import comparison_window
from deployments.services import fleet
from deployments.services.traffic import set_split, wait_acknowledged
from tests import factories, stack
from tests.adapters.gateways import Upstream
from tests.deployments.calling import infer
from tests.deployments.conftest import Fleet, ready_version, running_control
from tests.deployments.edge_running import running_edge
from tests.deployments.waiting import eventually

MODEL = "fraud_detector"


def answer(*scores: object) -> bytes:
    """A v2 answer with these risk scores."""
    tensor = {"name": "risk_score", "datatype": "FP32", "shape": [len(scores), 1]}
    return json.dumps({"outputs": [{**tensor, "data": list(scores)}]}).encode()


@dataclass
class Pair:
    """Two versions at servers of their own, the second one mirrored and so compared."""

    fleet: Fleet
    first: Upstream
    second: Upstream
    edge_port: int

    def window(self, seconds: float = 60) -> ComparisonWindow:
        return comparison_window(
            "production", MODEL, baseline=1, candidate=2, seconds=seconds, now=timezone.now()
        )

    def call(self, times: int) -> None:
        for _ in range(times):
            assert infer(self.fleet.url(), MODEL).status_code == 200

    def call_until(self, found: Callable[[ComparisonWindow], bool]) -> ComparisonWindow:
        def look() -> ComparisonWindow | None:
            self.call(5)
            window = self.window()
            return window if found(window) else None

        window = eventually(look, 15)
        assert window is not None
        return window


@pytest.fixture
def pair(
    transactional_db: None,
    fleet_rows: Fleet,
    settings: Any,
    free_port: Callable[[], int],
    envoy_factory: Callable[..., stack.RunningEnvoy],
) -> Iterator[Pair]:
    live.connection().flushall()
    edge_port = free_port()
    settings.CONFIG = replace(settings.CONFIG, edge=("127.0.0.1", edge_port))
    upstreams = [Upstream(name) for name in ("first", "second")]
    model = factories.make_model(MODEL)
    factories.make_contract(model)
    for number, upstream in enumerate(upstreams, 1):
        upstream.content = answer(0.5)
        node = fleet.register_node(
            name=f"node{number}",
            http_address=f"127.0.0.1:{upstream.port}",
            grpc_address="127.0.0.1:9",
            repository="/nowhere",
            environments=["production"],
            actor=fleet_rows.system,
        )
        placement = ready_version(fleet_rows, factories.make_version(model))
        placement.node, placement.state = node, PlacementState.READY
        placement.save()
    with running_control() as port, running_edge(edge_port):
        admin = int(fleet_rows.gateway.admin_url.rsplit(":", 1)[1])
        document = envoy_stack.bootstrap(admin_port=admin, ads_port=port, node_id="embedded")
        envoy_factory(document)
        eventually(lambda: Gateway.objects.get(name="embedded").acknowledged_at is not None)
        split = set_split(
            environment="production",
            model=MODEL,
            weights={1: 100},
            mirror={"version": 2, "percent": 100},
            expected_revision=None,
            reason="Compare.",
            actor=fleet_rows.sam,
        )
        wait_acknowledged(split)
        yield Pair(fleet_rows, *upstreams, edge_port)
    for upstream in upstreams:
        upstream.stop()


def test_answers_are_compared_and_faults_are_seen_within_seconds(pair: Pair) -> None:
    alike = pair.call_until(lambda window: window.compared >= 3)
    assert (alike.differing, alike.baseline_faults, alike.candidate_faults) == (0, 0, 0)

    began = time.monotonic()
    pair.second.content = answer(None)
    found = pair.call_until(lambda window: window.candidate_faults >= 1)
    assert time.monotonic() - began < 6
    assert found.kinds == {"nan": found.candidate_faults}
    assert found.baseline_faults == 0

    pair.second.content = answer(0.75)
    apart = pair.call_until(lambda window: (window.max_difference or 0) > 0.2)
    assert apart.max_difference == pytest.approx(0.25)

    pair.second.status = 500
    pair.call_until(lambda window: window.kinds.get("error", 0) >= 1)

    def booked() -> int:
        rows = ComparisonMinute.objects.filter(endpoint__model__name=MODEL)
        assert {(row.baseline, row.candidate) for row in rows} <= {(1, 2)}
        return sum(row.sampled for row in rows)

    eventually(lambda: booked() == pair.window().sampled, 15)
    live.connection().flushall()
    assert pair.window().sampled == 0
    pair.call_until(lambda window: window.sampled >= 1)


def test_what_there_is_no_room_for_is_dropped(pair: Pair) -> None:
    headers = {"x-covenant-sample": f"production/{MODEL}"}
    body = {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}
    url = f"http://127.0.0.1:{pair.edge_port}/v2/models/{MODEL}/infer"
    with httpx.Client(timeout=5) as client:
        known = eventually(
            lambda: client.post(url, json=body, headers=headers).status_code == 202, 10
        )
        assert known
        answers = [client.post(url, json=body, headers=headers).status_code for _ in range(60)]
        assert 429 in answers
        assert client.post(url, json=body).status_code == 404
        too_large = client.post(url, content=b" " * (1024 * 1024 + 1), headers=headers)
        assert too_large.status_code == 413
