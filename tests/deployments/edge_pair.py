"""Two versions behind a real Envoy and an edge, for tests of what the edge sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from django.utils import timezone

from console import live
from console.stack import envoy as envoy_stack
from deployments.models import Gateway, PlacementState
from deployments.rules.experiments.comparison_windows import ComparisonWindow
from deployments.selectors.experiments.comparisons import comparison_window
from deployments.services.fleet import nodes as fleet
from deployments.services.traffic.splits import set_split, wait_acknowledged
from tests import factories, stack
from tests.adapters.gateways import Upstream
from tests.deployments.calling import BODY
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
        url = f"{self.fleet.url()}/v2/models/{MODEL}/infer"
        with httpx.Client(timeout=5) as client:
            for _ in range(times):
                assert client.post(url, json=BODY).status_code == 200

    def call_until(self, found: Callable[[ComparisonWindow], bool]) -> ComparisonWindow:
        def look() -> ComparisonWindow | None:
            # One in twenty is sampled.
            self.call(40)
            window = self.window()
            return window if found(window) else None

        window = eventually(look, 20)
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
