"""A real gateway in front of a real Triton, for the tests of what callers meet there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from console.adapters.triton import TritonClient
from console.stack import envoy as envoy_stack
from deployments.adapters import repository
from deployments.rules.fallback.fallbacks import Fallback, Output
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from tests import stack
from tests.adapters.gateways import Caller, ControlPlane, Reply, read_statistics
from tests.adapters.onnx_models import COLUMNS, serve
from tests.stack import RunningEnvoy, RunningTriton

MODEL = "edge_model"
NEXT = "edge_model_g2"
SLOW = "edge_model_slow"
FALLBACK = Fallback(
    {"score": 0.25, "label": "unknown", "reason": "model_down"},
    (Output("score", "FP32", ("batch", COLUMNS)), Output("label", "BYTES", ("batch", 1))),
)


@dataclass
class Edge:
    """A gateway with its control plane, in front of versions 1 and 2 (generation 2) of a model."""

    control: ControlPlane
    envoy: RunningEnvoy
    port: int
    log: Path
    targets: dict[int, Target]

    def apply(self, **changes: Any) -> None:
        state = EndpointState(
            "production", MODEL, 1, weights={1: 10000}, targets=self.targets, fallback=FALLBACK,
            timeout_ms=5000,
        )  # fmt: skip
        endpoint = replace(state, **{"revision": len(self.control.events) + 2, **changes})
        self.control.apply(
            GatewayState({"production": self.port}, (endpoint,), access_log=str(self.log))
        )

    def caller(self) -> Caller:
        return Caller(self.port)


@pytest.fixture(scope="module")
def targets(triton: RunningTriton) -> Iterator[dict[int, Target]]:
    """Version 1 as `edge_model`/1 and version 2 as `edge_model_g2`/2, loaded once."""
    host, port = triton.http.split(":")
    node = NodeAddress("local", host, int(port))
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        serve(client, triton.repository, MODEL, 1)
        serve(client, triton.repository, MODEL, 2, triton_model=NEXT)
        yield {1: Target(MODEL, 1, (node,)), 2: Target(NEXT, 2, (node,))}
        for name, version in ((MODEL, 1), (NEXT, 2)):
            client.unload(name)
            repository.remove_version(triton.repository, name, version)
            repository.remove_model(triton.repository, name)


@pytest.fixture
def edge(
    targets: dict[int, Target],
    envoy_factory: Callable[..., RunningEnvoy],
    free_port: Callable[[], int],
    tmp_path: Path,
) -> Iterator[Edge]:
    control = ControlPlane(free_port())
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=control.port)
    envoy = envoy_factory(document, wait=False)
    edge = Edge(control, envoy, free_port(), tmp_path / "access.jsonl", targets)
    edge.apply()
    yield edge
    control.stop()


def factor(reply: Reply) -> float:
    """Which version's graph computed the answer to a row of ones."""
    assert reply.status == 200, reply.body
    return float(reply.json["outputs"][0]["data"][0])


def problem(reply: Reply) -> tuple[int, str]:
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == reply.status
    assert reply.json["title"]
    assert reply.json["hint"]
    return reply.status, reply.json["code"]


def statistics_after_flush(edge: Edge, wanted: int, cluster: str) -> Any:
    """Statistics once the histogram of a cluster holds so many values (Envoy merges each 1 s)."""
    found: list[Any] = [None]

    def flushed() -> bool:
        sample = read_statistics(edge.envoy.admin)
        found[0] = sample.clusters.get(cluster)
        return found[0] is not None and found[0].latency.total >= wanted

    stack.wait_until("flush", flushed, edge.envoy.process, edge.envoy.log)
    return found[0]
