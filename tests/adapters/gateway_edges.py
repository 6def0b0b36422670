"""One way to drive a gateway of any product: Envoy for real, the others as stand-ins."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from console.stack import envoy as envoy_stack
from console.stack import process
from deployments.adapters.gateway import (
    Acked,
    Disconnected,
    GatewayAdapter,
    Nacked,
    Registration,
)
from deployments.adapters.gateway_products import reaching_adapters
from deployments.adapters.reaching import Pace
from deployments.rules.fallback.fallbacks import Fallback
from deployments.rules.gateways.snapshots import Snapshot, render
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from tests.adapters.gateways import NODE_ID, Caller, ControlPlane, Upstream
from tests.adapters.kong_double import KongDouble
from tests.adapters.kubernetes_double import KubernetesDouble
from tests.stack import RunningEnvoy

MODEL = "fraud_detector"
PACE = Pace(look_s=0.1, resync_s=0.3, again_s=0.3)
BODY = {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}]}
FALLBACK = Fallback({"score": 0.25, "reason": "model_down"})


class ReachedControl(ControlPlane):
    """The adapter of a product that is reached, driven as `ControlPlane` drives Envoy's."""

    def __init__(self, registration: Registration, secrets: Path) -> None:
        self.registration = registration
        self._secrets = secrets
        super().__init__(0)

    async def _start(self) -> Any:
        adapter = reaching_adapters(self._note, self._secrets, PACE)[self.registration.product]
        await adapter.start("")
        adapter.register([self.registration])
        return adapter

    def register(self, *registrations: Registration) -> None:
        async def call() -> None:
            adapter: GatewayAdapter = self.server
            adapter.register(registrations)

        self._run(call())


class GatewayEdge(Protocol):
    """A gateway, its control, and two upstreams in place of two versions of a model."""

    product: str
    control: ControlPlane
    port: int

    def node(self, upstream: Upstream) -> NodeAddress:
        """The address by which this gateway reaches an upstream."""
        ...

    def broken(self, snapshot: Snapshot) -> Snapshot:
        """The same snapshot with something that this product refuses."""
        ...

    def go_away(self) -> None: ...

    def come_back(self) -> None: ...

    def restart_control(self) -> None: ...

    def writes(self) -> int | None:
        """How often the gateway's configuration was written; None where that cannot be seen."""
        ...


class Driven:
    """What a test does with a gateway of any product."""

    def __init__(self, edge: GatewayEdge) -> None:
        self.edge = edge
        self.first, self.second = Upstream("1"), Upstream("2")
        self.revision = 0

    def state(self, **changes: Any) -> GatewayState:
        self.revision += 1
        targets = {
            1: Target(MODEL, 1, (self.edge.node(self.first),)),
            2: Target(f"{MODEL}_g2", 2, (self.edge.node(self.second),)),
        }
        endpoint = EndpointState(
            "production",
            MODEL,
            self.revision,
            weights={1: 10000},
            targets=targets,
            timeout_ms=2000,
            fallback=FALLBACK,
        )
        return GatewayState(
            {"production": self.edge.port},
            (replace(endpoint, **changes),),
            access_log="/dev/null",
        )

    def apply(self, **changes: Any) -> Acked:
        return self.edge.control.apply(self.state(**changes))

    def set(self, snapshot: Snapshot) -> int:
        seen = len(self.edge.control.events)
        self.edge.control.set(snapshot)
        return seen

    def refused(self, snapshot: Snapshot) -> Nacked:
        seen = self.set(snapshot)
        return self.edge.control.wait(
            Nacked, lambda e: e.snapshot.version == snapshot.version, seen
        )

    def snapshot(self, **changes: Any) -> Snapshot:
        return render(self.state(**changes))

    def caller(self) -> Caller:
        return Caller(self.edge.port)

    def versions(self, users: range) -> dict[int, str]:
        """Which version each user gets."""
        caller = self.caller()
        found = {}
        for user in users:
            reply = caller.infer(MODEL, BODY, x_user_id=f"user-{user}")
            assert reply.status == 200, reply
            found[user] = reply.version
        caller.close()
        return found

    def away(self) -> None:
        """Have the gateway go away, and wait until its control knows."""
        seen = len(self.edge.control.events)
        self.edge.go_away()
        self.edge.control.wait(Disconnected, seen=seen)

    def stop(self) -> None:
        self.edge.control.stop()
        self.first.stop()
        self.second.stop()


class EnvoyEdge:
    """A real Envoy."""

    product = "envoy"

    def __init__(self, factory: Callable[..., RunningEnvoy], free_port: Callable[[], int]) -> None:
        self.control = ControlPlane(free_port())
        self.port = free_port()
        self._document = envoy_stack.bootstrap(
            admin_port=free_port(), ads_port=self.control.port, node_id=NODE_ID
        )
        self._factory = factory
        self.come_back()

    def node(self, upstream: Upstream) -> NodeAddress:
        return NodeAddress(upstream.name, "127.0.0.1", upstream.port)

    def broken(self, snapshot: Snapshot) -> Snapshot:
        table = snapshot.route_tables[0]
        routes = table.endpoints[0]
        routes = replace(routes, split=tuple((name, 0) for name, _ in routes.split))
        return _with(snapshot, replace(table, endpoints=(routes,)))

    def go_away(self) -> None:
        process.stop(self._running.process, signal.SIGKILL, seconds=5)

    def come_back(self) -> None:
        self._running = self._factory(self._document, wait=False)

    def restart_control(self) -> None:
        self.control.stop()
        self.control = ControlPlane(self.control.port)

    def writes(self) -> None:
        return None


class KongEdge:
    """A Kong, as its stand-in."""

    product = "kong"

    def __init__(self, secrets: Path) -> None:
        # Short pages, so that everything is read in several.
        self.kong = KongDouble(token="a-token", page=3)
        secrets.mkdir(exist_ok=True)
        file = secrets / "kong"
        file.write_text("a-token\n")
        self._secrets = secrets
        options = {"token_file": str(file)}
        self.registration = Registration(NODE_ID, self.product, self.kong.admin.url, options)
        self.port = self.kong.proxy.port
        self.restart()

    def restart(self) -> None:
        self.control: ControlPlane = ReachedControl(self.registration, self._secrets)

    def node(self, upstream: Upstream) -> NodeAddress:
        return NodeAddress(upstream.name, "127.0.0.1", upstream.port)

    def broken(self, snapshot: Snapshot) -> Snapshot:
        table = snapshot.route_tables[0]
        routes = replace(table.endpoints[0], timeout_ms=-5)
        return _with(snapshot, replace(table, endpoints=(routes,)))

    def go_away(self) -> None:
        self.kong.admin.go_away()

    def come_back(self) -> None:
        self.kong.admin.come_back()

    def restart_control(self) -> None:
        self.control.stop()
        self.restart()

    def writes(self) -> int:
        return self.kong.writes


class KubernetesEdge:
    """A cluster with the Gateway API, as its stand-in."""

    product = "kubernetes"

    def __init__(self, secrets: Path) -> None:
        self.cluster = KubernetesDouble(token="b-token", page=2)
        secrets.mkdir(exist_ok=True)
        file = secrets / "kubernetes"
        file.write_text("b-token")
        self._secrets = secrets
        options = {
            "token_file": str(file),
            "namespace": "models",
            "parent": {"name": "public", "namespace": "gateways"},
            "backend_rewrites": True,
        }
        self.registration = Registration(NODE_ID, self.product, self.cluster.api.url, options)
        self.port = self.cluster.proxy.port
        self.restart()

    def restart(self) -> None:
        self.control: ControlPlane = ReachedControl(self.registration, self._secrets)

    def node(self, upstream: Upstream) -> NodeAddress:
        address = f"10.0.0.{upstream.name}"
        self.cluster.network[(address, 8000)] = upstream.port
        return NodeAddress(upstream.name, address, 8000)

    def broken(self, snapshot: Snapshot) -> Snapshot:
        table = snapshot.route_tables[0]
        cluster = table.endpoints[0].pinned[0][1]
        routes = replace(table.endpoints[0], header_rules=(("x-exp-id", "", cluster),))
        return _with(snapshot, replace(table, endpoints=(routes,)))

    def go_away(self) -> None:
        self.cluster.api.go_away()

    def come_back(self) -> None:
        self.cluster.api.come_back()

    def restart_control(self) -> None:
        self.control.stop()
        self.restart()

    def writes(self) -> int:
        return self.cluster.writes


@contextmanager
def driven(edge: GatewayEdge) -> Iterator[Driven]:
    """A gateway with two upstreams, for one test."""
    made = Driven(edge)
    try:
        yield made
    finally:
        made.stop()


def _with(snapshot: Snapshot, table: Any) -> Snapshot:
    return replace(snapshot, version=f"{snapshot.version}-broken", route_tables=(table,))
