"""The whole way of a split: rows, gateway control, a real Envoy and a real Triton."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from console.errors import NotAcknowledged
from console.models import Job, JobState
from console.stack import envoy
from deployments.models import Deployment, Gateway, TrafficSplit
from deployments.services.fleet.deploys import deploy_release, remove_deployment
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import set_mode, set_split, wait_acknowledged
from tests import factories, stack
from tests.deployments.calling import Load, infer
from tests.deployments.conftest import Fleet, applied, ready_version, running_control
from tests.deployments.waiting import eventually


def test_versions_are_deployed_shared_rolled_back_and_replaced_by_the_fallback(
    live_fleet: Fleet, control: stack.RunningEnvoy, run_jobs: Callable[..., list[Job]]
) -> None:
    name = f"m_{uuid.uuid4().hex[:12]}"
    model, sam, url = factories.make_model(name), live_fleet.sam, live_fleet.url()
    here: dict[str, Any] = {"environment": "production", "model": name, "actor": sam}

    def deploy() -> Deployment:
        release = factories.make_release(factories.make_version(model), live_fleet.production)
        deployment = deploy_release(release_id=release.pk, actor=sam)
        assert [job.state for job in run_jobs()] == [JobState.SUCCEEDED]
        return deployment

    deploy()
    wait_acknowledged(TrafficSplit.objects.get(revision=1))
    first = infer(url, name)
    assert (first.status_code, first.headers["x-model-version"]) == (200, "1")

    with Load(url, name) as load:
        second = deploy()
    assert not load.errors
    assert load.statuses.keys() == {200}
    assert load.versions.keys() == {"1"}

    split = set_split(**here, weights={1: 50, 2: 50}, expected_revision=1, reason="Try it.")
    (word,) = wait_acknowledged(split)
    assert (word.outcome, word.gateway) == ("applied", "embedded")
    assert word.took_ms is not None
    assert word.took_ms < 1000

    with Load(url, name) as load:
        eventually(lambda: len(load.answers) >= 100)
        back = roll_back(**here, reason="Errors.")
        wait_acknowledged(back)
        effect = time.monotonic()
        eventually(lambda: len([a for a in load.answers if a[0] > effect]) >= 100)
    assert not load.errors
    assert load.statuses.keys() == {200}
    assert load.versions["2"] > 0
    # A request under way while the gateway acknowledged may still be answered by version 2.
    late = [version for at, _, version in load.answers if at > effect + 0.05]
    assert set(late) == {"1"}
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    assert job.result is not None
    assert job.result["milliseconds_to_effect"] > 0
    assert job.result["requests_still_on_left"] == 0

    wait_acknowledged(set_mode(**here, mode="fallback", reason="Bad scores."))
    answer = infer(url, name)
    assert answer.status_code == 200
    assert answer.json()["outputs"][0]["data"] == [0.3]
    assert answer.json()["parameters"]["fallback"] is True
    wait_acknowledged(set_mode(**here, mode="open", reason="Worse."))
    answer = infer(url, name)
    assert (answer.status_code, answer.json()["code"]) == (503, "model_unavailable")
    wait_acknowledged(set_mode(**here, mode="normal", reason="Mended."))

    remove_deployment(deployment=second, reason="It was bad.", actor=sam)
    with Load(url, name) as load:
        (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    assert load.statuses.keys() == {200}
    gone = httpx.get(f"{url}/v2/models/{name}/versions/2/ready", timeout=5)
    assert gone.json()["code"] == "model_not_found"


def test_without_its_control_a_gateway_serves_on_and_catches_up_later(
    live_fleet: Fleet,
    free_port: Callable[[], int],
    envoy_factory: Callable[..., stack.RunningEnvoy],
) -> None:
    ready_version(live_fleet, factories.make_version())
    ready_version(live_fleet, factories.make_version())
    here: dict[str, Any] = {
        "environment": "production",
        "model": "fraud_detector",
        "actor": live_fleet.sam,
    }
    first = set_split(**here, weights={1: 100}, expected_revision=0, reason="First.")
    port = free_port()
    admin = int(live_fleet.gateway.admin_url.rsplit(":", 1)[1])
    with running_control(port):
        document = envoy.bootstrap(admin_port=admin, ads_port=port, node_id="embedded")
        envoy_factory(document)
        wait_acknowledged(first, 10)
    # The version is nowhere in Triton: the gateway's own answer shows that it routes.
    assert infer(live_fleet.url(), "fraud_detector").status_code in (400, 404, 503)
    second = set_split(**here, weights={1: 50, 2: 50}, expected_revision=1, reason="More.")
    with pytest.raises(NotAcknowledged, match="embedded"):
        wait_acknowledged(second, 0.2)
    with running_control(port):
        wait_acknowledged(second, 15)
        assert Gateway.objects.get().connected
    applied(second)
