"""How fast a rollout takes a bad version back, with real nodes and a real gateway.

    python -m benchmarks.rollout_faults [REQUESTS_PER_SECOND]

Uses databases, two Tritons and an Envoy of its own; what are processes of ours elsewhere (gateway
control, edge, collector, traffic control) run as threads of this one. Versions 1 of four models
serve on the first node; versions 2 on the second one fail every run, are slow, answer NaN, or are
good until their Triton is killed. Each gets 10 % by a rollout under load. Printed is the time from
when the version got its first traffic (or was killed) until every gateway had acknowledged that it
has none.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests import stack

stack.provide()

import django  # noqa: E402 - needs the environment from above

django.setup()

import httpx  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks import bad_models  # noqa: E402
from benchmarks.demo_stack import report  # noqa: E402
from console.actors import Actor  # noqa: E402
from console.adapters.triton import TritonClient  # noqa: E402
from console.stack import envoy, process  # noqa: E402
from deployments.adapters import repository  # noqa: E402
from deployments.adapters.repository import FilePart  # noqa: E402
from deployments.models import Gateway, Node, NodeState, Rollout, TrafficSplit  # noqa: E402
from deployments.processes.collector import Collector  # noqa: E402
from deployments.processes.traffic import TrafficControl  # noqa: E402
from deployments.rules.incidents.beginnings import START  # noqa: E402
from deployments.services.fleet import nodes as fleet  # noqa: E402
from deployments.services.rollouts.acts import start_rollout  # noqa: E402
from deployments.services.traffic.splits import set_split, wait_acknowledged  # noqa: E402
from models_registry.adapters import triton_config  # noqa: E402
from tests import factories  # noqa: E402
from tests.deployments.calling import BODY  # noqa: E402
from tests.deployments.conftest import Fleet, ready_version, running_control  # noqa: E402
from tests.deployments.edge_running import running_edge  # noqa: E402
from tests.deployments.waiting import eventually  # noqa: E402

PLAN = {"steps": [{"set_weight": 10}, {"pause": "10m"}], "analysis": False}
CASES: dict[str, Callable[[], bytes]] = {
    "fails": bad_models.failing,
    "is slow": bad_models.slow,
    "answers NaN": bad_models.not_a_number,
    "its process dies": lambda: factories.tiny_onnx(0.2),
}
ENDED_WITHIN_S = 60.0
SETTLED_S = 6.0


@dataclass
class Parts:
    """What every case needs: rows, nodes and the address of the gateway."""

    fleet: Fleet
    second: Node
    tritons: list[stack.RunningTriton]
    url: str


class Load:
    """Calls at a steady rate, each as another person, from threads of its own."""

    def __init__(self, url: str, rate: float, threads: int = 8) -> None:
        self._url, self._every, self._threads = url, threads / rate, threads
        self._stop = threading.Event()
        self.statuses: dict[int, int] = {}
        self.errors = 0

    def __enter__(self) -> Load:
        self._running = [
            threading.Thread(target=self._call, args=(number,), daemon=True)
            for number in range(self._threads)
        ]
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._running:
            thread.join(10)

    def _call(self, number: int) -> None:
        count, following = 0, time.monotonic() + self._every * number / self._threads
        with httpx.Client(timeout=10) as client:
            while not self._stop.is_set():
                time.sleep(max(following - time.monotonic(), 0))
                following = max(following + self._every, time.monotonic())
                count += 1
                try:
                    who = {"x-user-id": f"user-{number}-{count}"}
                    status = client.post(self._url, json=BODY, headers=who).status_code
                    self.statuses[status] = self.statuses.get(status, 0) + 1
                except httpx.HTTPError:
                    self.errors += 1


@contextmanager
def everything(folder: Path) -> Iterator[Parts]:
    """Two Tritons, an Envoy, and our own processes as they run in a house."""
    call_command("migrate", verbosity=0)
    base = settings.CONFIG.ports
    with ExitStack() as running:
        tritons = []
        for number in (1, 2):
            triton, child = stack.start_triton(
                folder / f"triton{number}", settings.CONFIG.triton_repository_key
            )
            running.callback(process.stop, child, signal.SIGTERM, seconds=5)
            tritons.append(triton)
        parts = _rows(tritons)
        port = running.enter_context(running_control())
        running.enter_context(running_edge(base.edge))
        for work in (Collector().run, TrafficControl().run):
            running.enter_context(_in_a_thread(work))
        admin = int(parts.fleet.gateway.admin_url.rsplit(":", 1)[1])
        document = envoy.bootstrap(admin_port=admin, ads_port=port, node_id="embedded")
        gateway = stack.start_envoy(folder / "envoy", document)
        running.callback(process.stop, gateway.process, signal.SIGTERM, seconds=5)
        eventually(lambda: Gateway.objects.get(name="embedded").acknowledged_at is not None, 60)
        yield parts


def _rows(tritons: list[stack.RunningTriton]) -> Parts:
    persons, ports = factories.people(), settings.CONFIG.ports
    system = Actor.system("benchmark")
    staging, production = (factories.make_environment(one) for one in ("staging", "production"))
    nodes = [
        fleet.register_node(
            name=name,
            http_address=triton.http,
            grpc_address=triton.grpc,
            repository=str(triton.repository),
            environments=["production"],
            actor=system,
        )
        for name, triton in zip(("first", "second"), tritons, strict=True)
    ]
    gateway = fleet.register_gateway(
        name="embedded",
        admin_url=f"http://127.0.0.1:{ports.gateway_admin}",
        actor=system,
        listeners={"production": ("127.0.0.1", ports.gateway_production)},
    )
    rows = Fleet(staging, production, nodes[0], gateway, factories.actor(persons.sam), system)
    return Parts(rows, nodes[1], tritons, f"http://127.0.0.1:{ports.gateway_production}")


@contextmanager
def _in_a_thread(work: Callable[[asyncio.Event], Awaitable[None]]) -> Iterator[None]:
    """`work(stop)` in a thread with a loop of its own, as each of our processes runs it."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(work(stop))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(15)


def place(triton: stack.RunningTriton, model: str, number: int, onnx: bytes) -> None:
    """A version's files and config on a node, loaded."""
    config = triton_config.specialise(
        triton_config.render(factories.config_plan(model, queue_delay_us=0)), triton_model=model
    )
    repository.place(
        triton.repository,
        triton_model=model,
        version=number,
        config=[FilePart.of_bytes("config.pbtxt", _without_warmup(config).encode())],
        files=[FilePart.of_bytes("model.onnx", onnx)],
    )
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        client.load(model)


def _without_warmup(config: str) -> str:
    """A version that fails every run would fail its warm-up, too, and never be loaded."""
    return config.partition("model_warmup")[0]


def case(parts: Parts, number: int, name: str, rate: float) -> dict[str, Any]:
    """One bad version: how long until it has no traffic any more."""
    model = factories.make_model(f"bad_model_{number}")
    factories.make_contract(model)
    versions = [factories.make_version(model, queue_delay_us=0) for _ in range(2)]
    # Files first: the watch of nodes takes a version off that is said to be there and is not.
    place(parts.tritons[0], model.name, 1, factories.tiny_onnx(0.1))
    place(parts.tritons[1], model.name, 2, CASES[name]())
    ready_version(parts.fleet, versions[0])
    ready_version(replace(parts.fleet, node=parts.second), versions[1])
    eventually(lambda: not Node.objects.exclude(state=NodeState.READY).exists(), 60)
    wait_acknowledged(_serve_first(parts, model.name), 30)
    with Load(f"{parts.url}/v2/models/{model.name}/infer", rate) as load:
        time.sleep(3)
        rollout = start_rollout(
            environment="production",
            model=model.name,
            version=2,
            plan=PLAN,
            reason="A benchmark.",
            actor=parts.fleet.sam,
        )
        bad_since = _applied(rollout, 1000)
        if name == "its process dies":
            time.sleep(SETTLED_S)
            os.kill(parts.tritons[1].pid, signal.SIGKILL)
            bad_since = timezone.now()
        ended = eventually(lambda: Rollout.objects.filter(pk=rollout.pk).exclude(ended_at=None), 60)
        done = ended.get()
        off = _applied(done, 0)
    return {
        "version": name,
        "ended_as": done.state,
        "cause": done.cause,
        "decided_s": round((done.ended_at - bad_since).total_seconds(), 2),  # type: ignore[operator]
        "weight_0_acknowledged_s": round((off - bad_since).total_seconds(), 2),
        "message": done.message,
        "answers": load.statuses,
        "connection_errors": load.errors,
    }


def _serve_first(parts: Parts, model: str) -> TrafficSplit:
    weights: Any = {1: 100}
    return set_split(
        environment="production",
        model=model,
        weights=weights,
        expected_revision=None,
        reason="A benchmark.",
        actor=parts.fleet.sam,
    )


def _applied(rollout: Rollout, points: int) -> datetime:
    """When every gateway acted on the rollout's split that gives the version this share."""

    def found() -> TrafficSplit | None:
        splits = TrafficSplit.objects.filter(endpoint=rollout.endpoint, cause="rollout")
        fitting = [one for one in splits if one.weights.get("2", 0) == points and one.applied_at]
        return fitting[0] if fitting else None

    split = eventually(found, ENDED_WITHIN_S)
    assert split is not None
    assert split.applied_at is not None
    return split.applied_at


def main() -> None:
    rate = float(sys.argv[1]) if len(sys.argv) > 1 else 40.0
    with (
        TemporaryDirectory(prefix="covenant-rollout-faults-") as folder,
        everything(Path(folder)) as parts,
    ):
        # In its first seconds the traffic control moves nothing.
        time.sleep(START.total_seconds())
        for number, name in enumerate(CASES):
            figures = case(parts, number, name, rate)
            report("rollout of a version that is bad", requests_per_second=rate, **figures)


if __name__ == "__main__":
    main()
