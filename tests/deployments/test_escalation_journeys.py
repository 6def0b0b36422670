"""Down the levels and back with a real Triton, a real Envoy and callers in between."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.models import Job
from console.stack import envoy
from deployments.models import Deployment, Endpoint, Gateway, Incident, Node, TrafficSplit
from deployments.processes.traffic import Tick, TrafficControl
from deployments.services.fleet.deploys import deploy_release, remove_deployment
from deployments.services.incidents import escalations, redeploys, rollback_policies
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import set_split, wait_acknowledged
from tests import factories, stack
from tests.deployments.calling import Load, infer
from tests.deployments.conftest import Fleet, running_control
from tests.deployments.test_collector_services import (  # noqa: F401 - a fixture
    own_triton,
    running_collector,
)
from tests.deployments.waiting import eventually

HERE: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}
QUICK: dict[str, Any] = {
    "window_s": 3,
    "min_requests": 5,
    "no_node_s": 1,
    "hold_s": 5,
    "probes_percent": [10, 100],
    "probe_s": 2,
    "probe_requests": 1,
}


class running_traffic_control:
    """`with running_traffic_control():` acts by itself in a thread of its own."""

    def __enter__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        ticks = (
            Tick("rollback levels", escalations.watch_endpoints, 0.2),
            Tick("deploys", redeploys.finish_redeploys, 0.2),
        )
        self._loop.run_until_complete(TrafficControl(ticks).run(self._stop))
        self._loop.close()


def current() -> TrafficSplit:
    split = Endpoint.objects.select_related("current").get().current
    assert split is not None
    return split


def test_a_node_that_dies_leads_to_the_fallback_and_carefully_back(
    transactional_db: None,
    fleet_rows: Fleet,
    own_triton: Any,
    tmp_path: Path,
    settings: Any,
    run_jobs: Callable[..., list[Job]],
    envoy_factory: Callable[..., stack.RunningEnvoy],
    record_property: Callable[[str, object], None],
) -> None:
    settings.CONFIG = replace(settings.CONFIG, triton_repository_key="own-key")
    ports = own_triton.ports
    Node.objects.update(
        http_address=f"127.0.0.1:{ports['http']}",
        grpc_address=f"127.0.0.1:{ports['grpc']}",
        repository=str(tmp_path / "repository"),
    )
    child = own_triton()
    release = factories.make_release(factories.make_version())
    deploy_release(release_id=release.pk, actor=fleet_rows.sam)
    run_jobs()
    rollback_policies.set_policy(
        **HERE, automatic=True, document=QUICK, expected_revision=None, actor=fleet_rows.sam
    )
    with running_control() as port:
        admin = int(fleet_rows.gateway.admin_url.rsplit(":", 1)[1])
        envoy_factory(envoy.bootstrap(admin_port=admin, ads_port=port, node_id="embedded"))
        eventually(lambda: Gateway.objects.get().acknowledged_at is not None)
        wait_acknowledged(current())
        url = fleet_rows.url()
        with (
            running_collector(),
            running_traffic_control(),
            Load(url, "fraud_detector") as load,
        ):
            eventually(lambda: len(load.answers) > 20)
            child.kill()
            died = time.monotonic()
            eventually(lambda: load.answers[-1][2] == "fallback", 20)
            record_property("seconds_to_fallback", round(time.monotonic() - died, 2))
            assert infer(url, "fraud_detector").headers["x-covenant-fallback"]

            own_triton()
            back = time.monotonic()
            eventually(lambda: run_jobs() or Node.objects.get().state == "ready", 20)
            eventually(lambda: run_jobs() or current().probe, 30)
            record_property("seconds_to_half_open", round(time.monotonic() - back, 2))
            assert current().mode == "fallback"
            eventually(lambda: current().mode == "normal", 30)
            record_property("seconds_to_normal", round(time.monotonic() - back, 2))
            since = len(load.answers)
            eventually(lambda: Incident.objects.get().ended_at is not None, 30)
            assert {version for _, _, version in load.answers[since + 5 :]} == {"1"}

    incident = Incident.objects.get()
    assert (incident.cause in ("no_node", "error_rate"), incident.level) == (True, 2)
    kinds = [one.kind for one in incident.events.all() if one.kind not in ("opened", "called")]
    # Where nothing but the node was missing, its return is tried with everybody at once.
    probes = ["probe"] if incident.cause == "no_node" else ["probe", "probe"]
    assert kinds == ["moved", *probes, "returned", "ended"]
    # While the return was half open, nobody was failed by it.
    probed = TrafficSplit.objects.filter(probe__gt=0).order_by("revision").first()
    assert probed is not None
    assert probed.cause == "automatic"


def test_a_rollback_to_a_version_that_is_gone_serves_all_the_way(
    live_fleet: Fleet, control: stack.RunningEnvoy, run_jobs: Callable[..., list[Job]]
) -> None:
    model = factories.make_model()
    for bias in (0.0, 1.0):
        version = factories.make_version(model, bias=bias)
        deploy_release(release_id=factories.make_release(version).pk, actor=live_fleet.sam)
        run_jobs()
    wait_acknowledged(current())
    wait_acknowledged(
        set_split(
            **HERE, weights={2: 100}, expected_revision=1, reason="New.", actor=live_fleet.sam
        )
    )
    remove_deployment(
        deployment=Deployment.objects.get(release__version__number=1),
        reason="It is old.",
        actor=live_fleet.sam,
    )
    run_jobs()
    with Load(live_fleet.url(), "fraud_detector") as load:
        eventually(lambda: load.answers and load.answers[-1][2] == "2")
        wait_acknowledged(roll_back(**HERE, reason="v2 is wrong.", actor=live_fleet.sam))
        eventually(lambda: load.answers[-1][2] == "fallback")
        with running_traffic_control():
            run_jobs()
            eventually(lambda: load.answers[-1][2] == "1", 20)
    assert not load.errors
    assert set(load.statuses) == {200}
    split = current()
    assert (split.mode, split.weights, split.cause) == ("normal", {"1": 10000}, "rollback")
