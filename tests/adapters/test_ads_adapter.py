"""The control plane against a real Envoy: order, refusal, loss, return."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import grpc
import pytest
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from console.stack import envoy as envoy_stack
from console.stack import process
from deployments.adapters.envoy.ads import Acked, Connected, Disconnected, Nacked
from deployments.rules.gateways.snapshots import Snapshot, render
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from tests.adapters.gateways import Caller, ControlPlane, Upstream
from tests.adapters.onnx_models import request
from tests.stack import RunningEnvoy

MODEL = "fraud_detector"


@dataclass
class Setting:
    """A control plane, an Envoy, and two upstreams that stand for two versions."""

    control: ControlPlane
    envoy: RunningEnvoy
    start_envoy: Callable[[], RunningEnvoy]
    port: int
    first: Upstream
    second: Upstream

    def state(self, *upstreams: Upstream, revision: int = 1, port: int = 0) -> GatewayState:
        """Version n is the n-th upstream; the last one gets everything."""
        targets = {
            int(one.name): Target(MODEL, int(one.name), (NodeAddress("n", "127.0.0.1", one.port),))
            for one in upstreams
        }
        endpoint = EndpointState(
            "production", MODEL, revision, weights={int(upstreams[-1].name): 10000}, targets=targets
        )
        return GatewayState({"production": port or self.port}, (endpoint,), access_log="/dev/null")


@pytest.fixture
def setting(
    envoy_factory: Callable[..., RunningEnvoy], free_port: Callable[[], int]
) -> Iterator[Setting]:
    control = ControlPlane(free_port())
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=control.port)

    def start_envoy() -> RunningEnvoy:
        return envoy_factory(document, wait=False)

    first, second = Upstream("1"), Upstream("2")
    setting = Setting(control, start_envoy(), start_envoy, free_port(), first, second)
    yield setting
    setting.control.stop()
    first.stop()
    second.stop()


def broken(snapshot: Snapshot) -> Snapshot:
    """The same with a split that Envoy refuses: every weight is zero."""
    table = snapshot.route_tables[0]
    routes = table.endpoints[0]
    routes = replace(routes, split=tuple((name, 0) for name, _ in routes.split))
    return replace(
        snapshot,
        version="broken",
        route_tables=(replace(table, endpoints=(routes,)), *snapshot.route_tables[1:]),
    )


def test_a_gateway_gets_its_snapshot_and_says_so(setting: Setting) -> None:
    connected = setting.control.wait(Connected)
    assert connected.node_id == "embedded"
    assert connected.build.startswith("1.")
    acked = setting.control.apply(setting.state(setting.first))
    assert acked.took_ms > 0
    assert acked.snapshot.revisions == {("production", MODEL): 1}
    assert Caller(setting.port).infer(MODEL, request(1.0)).json["name"] == "1"
    assert setting.control.connected() == {"embedded"}


def test_the_same_content_under_a_new_revision_is_acknowledged(setting: Setting) -> None:
    setting.control.apply(setting.state(setting.first))
    acked = setting.control.apply(setting.state(setting.first, revision=2))
    assert acked.snapshot.revisions == {("production", MODEL): 2}


def test_a_refused_state_is_told_and_the_last_good_one_serves(setting: Setting) -> None:
    good = render(setting.state(setting.first))
    setting.control.apply(good)
    setting.control.set(broken(good))
    refused = setting.control.wait(Nacked)
    assert refused.resource_type == "routes"
    assert "weight" in refused.reason
    assert refused.snapshot.version == "broken"
    caller = Caller(setting.port)
    assert [caller.infer(MODEL, request(1.0)).status for _ in range(20)] == [200] * 20
    again = broken(render(setting.state(setting.first, revision=2)))
    setting.control.set(replace(again, version="broken again"))
    setting.control.wait(Nacked, lambda e: e.snapshot.version == "broken again")
    acked = setting.control.apply(setting.state(setting.first, setting.second, revision=3))
    assert acked.snapshot.revisions == {("production", MODEL): 3}
    assert caller.infer(MODEL, request(1.0)).json["name"] == "2"


def test_a_listener_whose_port_is_taken_is_refused(setting: Setting) -> None:
    setting.control.apply(setting.state(setting.first))
    setting.control.set(render(setting.state(setting.first, port=setting.second.port)))
    refused = setting.control.wait(Nacked)
    assert refused.resource_type == "listeners"
    assert str(setting.second.port) in refused.reason
    assert Caller(setting.port).infer(MODEL, request(1.0)).status == 200


def test_versions_are_swapped_under_load_without_one_failure(setting: Setting) -> None:
    """Each swap adds one cluster and takes the other away, in one snapshot."""
    setting.control.apply(setting.state(setting.first))
    stop = threading.Event()
    statuses: list[int] = []

    def call() -> None:
        caller = Caller(setting.port)
        while not stop.is_set():
            statuses.append(caller.infer(MODEL, request(1.0)).status)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    caller = Caller(setting.port)
    try:
        for turn in range(16):
            upstream = setting.second if turn % 2 == 0 else setting.first
            setting.control.apply(setting.state(upstream, revision=10 + turn))
            names = {caller.infer(MODEL, request(1.0)).json["name"] for _ in range(5)}
            assert upstream.name in names
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
    assert len(statuses) > 100
    assert set(statuses) == {200}


def test_a_flip_does_not_wait_for_a_cluster_that_is_slow_to_warm(
    setting: Setting, free_port: Callable[[], int]
) -> None:
    """The new cluster's health check hangs for its time-out; another endpoint flips meanwhile."""
    silent = Upstream("3")
    setting.control.apply(setting.state(setting.first, setting.second))
    before = setting.state(setting.second, setting.first, revision=2)
    other = EndpointState(
        "staging", "slow_model", 1, weights={1: 10000},
        targets={1: Target("slow_model", 1, (NodeAddress("n", "127.0.0.1", silent.port),))},
    )  # fmt: skip
    # The listener takes connections, and nothing ever answers.
    silent.stop()
    with socket.create_server(("127.0.0.1", silent.port)):
        state = GatewayState(
            {**before.listeners, "staging": free_port()},
            (*before.endpoints, other),
            access_log="/dev/null",
        )
        setting.control.set(render(state))
        caller = Caller(setting.port)
        answers = [caller.infer(MODEL, request(1.0)).json["name"]]
        while answers[-1] != "1" and len(answers) < 20_000:
            answers.append(caller.infer(MODEL, request(1.0)).json["name"])
        assert answers[-1] == "1"
        assert not any(
            isinstance(e, Acked) and ("staging", "slow_model") in e.snapshot.revisions
            for e in setting.control.events
        )
        setting.control.wait(Acked, lambda e: ("staging", "slow_model") in e.snapshot.revisions)


def test_without_its_control_plane_a_gateway_serves_and_then_catches_up(setting: Setting) -> None:
    setting.control.apply(setting.state(setting.first))
    setting.control.stop()
    caller = Caller(setting.port)
    assert [caller.infer(MODEL, request(1.0)).status for _ in range(50)] == [200] * 50
    setting.control = ControlPlane(setting.control.port)
    setting.control.set(render(setting.state(setting.first, setting.second, revision=2)))
    acked = setting.control.wait(Acked)
    assert acked.snapshot.revisions == {("production", MODEL): 2}
    assert caller.infer(MODEL, request(1.0)).json["name"] == "2"


def test_a_restarted_gateway_gets_the_present_state_and_no_older_one(setting: Setting) -> None:
    setting.control.apply(setting.state(setting.first))
    setting.control.apply(setting.state(setting.first, setting.second, revision=2))
    process.stop(setting.envoy.process, signal.SIGKILL, seconds=5)
    setting.control.wait(Disconnected)
    assert setting.control.connected() == frozenset()
    setting.control.set(render(setting.state(setting.second, revision=3)))
    seen = len(setting.control.events)
    setting.start_envoy()
    acked = setting.control.wait(Acked, seen=seen)
    assert acked.snapshot.revisions == {("production", MODEL): 3}
    assert Caller(setting.port).infer(MODEL, request(1.0)).json["name"] == "2"
    assert setting.first.paths == []


def test_a_gateway_that_nobody_knows_waits(setting: Setting) -> None:
    setting.control.set(render(setting.state(setting.first)), node_id="another")
    setting.control.wait(Connected)
    snapshot = render(setting.state(setting.second, revision=5))
    acked = setting.control.apply(snapshot)
    assert acked.node_id == "embedded"
    assert Caller(setting.port).infer(MODEL, request(1.0)).json["name"] == "2"


def test_a_stream_without_node_id_is_refused(setting: Setting) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{setting.control.port}") as channel:
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            next(stub.StreamAggregatedResources(iter([discovery_pb2.DiscoveryRequest()])))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
