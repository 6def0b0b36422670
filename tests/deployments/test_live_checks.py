"""What is live is compared with what was signed, on a real Triton's own repository."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from rest_framework.test import APIClient

from console.errors import NotAllowed
from console.models import AuditEntry, InstallationKey, Job, JobState
from console.selectors.notices import open_notices
from deployments.models import Node, NodeState, Placement
from deployments.selectors.fleet.nodes import node_list
from deployments.services.fleet import folder_signatures, live_checks
from deployments.services.fleet.deploys import deploy_release, remove_deployment
from deployments.services.traffic.splits import set_split
from models_registry.models import ReleaseApproval
from tests import factories
from tests.deployments.conftest import Fleet
from tests.deployments.test_deploys_services import deploy, name, version_of

__all__ = ["name"]

Jobs = Callable[..., list[Job]]
OMS = Path(sys.executable).with_name("model_signing")


@pytest.fixture
def live(live_fleet: Fleet, run_jobs: Jobs, name: str) -> Placement:
    deploy(live_fleet, version_of(name), run_jobs)
    return Placement.objects.get()


def folder_of(placement: Placement) -> Path:
    return Path(placement.node.repository) / placement.deployment.generation.triton_model


def verify(placement: Placement, run: Jobs) -> Placement:
    live_checks.verify_node(node=placement.node, actor=factories.actor(factories.people().sam))
    [job] = run()
    assert job.state == JobState.SUCCEEDED, job.error_message
    placement.refresh_from_db()
    return placement


def test_drift_is_found_told_once_and_over_when_it_is_mended(
    live: Placement, run_jobs: Jobs
) -> None:
    sam, bea, vic = (factories.make_user(one) for one in ("sam", "bea", "vic"))
    before = live.verified_at
    assert verify(live, run_jobs).verification_faults == []
    assert live.verified_at > before
    model = folder_of(live) / "1" / "model.onnx"
    config, good = folder_of(live) / "config.pbtxt", model.read_bytes()
    text = config.read_text()
    model.write_bytes(good[:-1] + b"\0")
    (model.parent / "extra.bin").write_bytes(b"")
    config.write_text(text + "\n")
    faults = [fault["detail"] for fault in verify(live, run_jobs).verification_faults]
    where = live.deployment.generation.triton_model
    assert faults == [
        f"{where}/config.pbtxt is not the file that was signed",
        f"{where}/1/extra.bin does not belong there",
        f"{where}/1/model.onnx is not the file that was signed",
    ]
    assert [row.drifted for row in node_list()] == [1]
    verify(live, run_jobs)
    assert AuditEntry.objects.filter(action="placement.drift").count() == 1
    assert [one.severity for one in open_notices(sam)] == ["critical"]
    assert len(open_notices(bea)) == 1
    assert open_notices(vic) == []
    client = Client()
    client.force_login(sam)
    assert "does not belong there" in client.get("/nodes/local/").content.decode()
    assert "What is on local is not what was signed" in client.get("/").content.decode()
    model.write_bytes(good)
    (model.parent / "extra.bin").unlink()
    config.write_text(text)
    assert verify(live, run_jobs).verification_faults == []
    assert open_notices(sam) == []
    assert AuditEntry.objects.filter(action="placement.verified").count() == 1


def test_a_link_in_place_of_a_file_is_drift(
    live: Placement, run_jobs: Jobs, tmp_path: Path
) -> None:
    model = folder_of(live) / "1" / "model.onnx"
    (tmp_path / "same").write_bytes(model.read_bytes())
    model.unlink()
    model.symlink_to(tmp_path / "same")
    assert len(verify(live, run_jobs).verification_faults) == 1


def test_a_signature_that_was_changed_in_the_database_is_drift(
    live: Placement, run_jobs: Jobs
) -> None:
    approval = ReleaseApproval.objects.get(release=live.deployment.release)
    approval.envelope["signatures"][0]["sig"] = (
        "AAAA" + approval.envelope["signatures"][0]["sig"][4:]
    )
    approval.save()
    [fault] = verify(live, run_jobs).verification_faults
    assert fault["code"] == "signature_invalid"
    assert live.state == "ready", "what serves goes on serving"


def test_the_schedule_asks_each_node_once_in_its_slot(live: Placement) -> None:
    Node.objects.create(
        name="gone", state=NodeState.LOST, http_address="h:1", grpc_address="h:2", repository="/r"
    )
    assert live_checks.verify_all(slot="1") == 1
    Job.objects.filter(kind="verify").update(state=JobState.SUCCEEDED)
    assert live_checks.verify_all(slot="1") == 1
    assert Job.objects.filter(kind="verify").count() == 1
    live_checks.verify_all(slot="2")
    assert Job.objects.filter(kind="verify").count() == 2


def test_only_operators_ask(live: Placement) -> None:
    with pytest.raises(NotAllowed):
        live_checks.verify_node(node=live.node, actor=factories.actor(factories.people().dana))
    client = APIClient()
    client.force_authenticate(factories.people().sam)
    first, second = (client.post("/api/v1/nodes/local/verify/") for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (202, second.json()["id"])


def test_strangers_check_the_deployed_folder_with_the_tool_of_the_standard(
    live: Placement, run_jobs: Jobs, live_fleet: Fleet, tmp_path: Path
) -> None:
    folder_signatures.verify_placement(live)
    client = APIClient()
    client.force_authenticate(factories.people().vic)
    address = f"/api/v1/deployments/{live.deployment_id}/signatures/local/"
    (tmp_path / "model.sig").write_bytes(client.get(address).content)
    kept = folder_of(live).parent.parent / "signatures" / f"{folder_of(live).name}-1.sig"
    assert json.loads(kept.read_text()) == live.folder_signature
    [key] = client.get("/api/v1/installation-keys/").json()["results"]
    assert key["keyid"] == live.folder_signed_by == InstallationKey.objects.get().keyid
    (tmp_path / "key.pem").write_text(key["public_key_pem"])
    # A later version in the same folder does not disturb what was said of the first.
    second = factories.make_version(live.deployment.release.version.model)
    deploy(live_fleet, second, run_jobs)
    command = [
        str(OMS), "verify", "key", "--signature", str(tmp_path / "model.sig"),
        "--public_key", str(tmp_path / "key.pem"), "--ignore_unsigned_files", str(folder_of(live)),
    ]  # fmt: skip
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr
    model = folder_of(live) / "1" / "model.onnx"
    model.write_bytes(model.read_bytes()[:-1] + b"\0")
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode != 0
    assert "model.onnx" in checked.stdout + checked.stderr
    set_split(
        environment="production", model=live.deployment.release.version.model.name,
        weights={2: 100}, expected_revision=None, reason="on", actor=live_fleet.sam,
    )  # fmt: skip
    remove_deployment(
        deployment=live.deployment,
        reason="the next is here",
        actor=live_fleet.sam,
        move_traffic=True,
    )
    run_jobs()
    assert not kept.exists(), "what was taken off leaves no signature behind"


def test_there_is_no_signature_of_what_was_not_placed(live_fleet: Fleet) -> None:
    release = factories.make_release()
    deployment = deploy_release(release_id=release.pk, actor=live_fleet.sam)
    client = APIClient()
    client.force_authenticate(factories.people().vic)
    answer = client.get(f"/api/v1/deployments/{deployment.pk}/signatures/local/")
    assert answer.status_code == 404
