from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.actors import Actor
from console.adapters.triton import TritonClient
from console.errors import Conflict, NotAllowed, NotFound
from console.models import AuditEntry, Job, JobState
from console.services import job_runs
from console.services.job_runs import run_job
from console.services.job_sweep import sweep
from deployments.adapters import repository
from deployments.models import (
    Deployment,
    Endpoint,
    Placement,
    PlacementState,
    ServingGeneration,
)
from deployments.services.fleet import placements
from deployments.services.fleet.deploys import deploy_release, remove_deployment
from deployments.services.fleet.reconciles import check_live, loaded_slots
from deployments.services.traffic.splits import set_mode, set_split
from models_registry.models import ModelVersion, Release, ReleaseState
from models_registry.services import artifacts
from tests import factories, stack
from tests.deployments import killed_worker
from tests.deployments.conftest import HANDLERS, Fleet

Jobs = Callable[..., list[Job]]


@pytest.fixture
def name() -> str:
    """A model's name that no other test uses in the session's Triton."""
    return f"m_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(triton: stack.RunningTriton) -> Iterator[TritonClient]:
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        yield client


def version_of(name: str, **choices: Any) -> ModelVersion:
    model = factories.RegisteredModel.objects.filter(name=name).first() or factories.make_model(
        name
    )
    return factories.make_version(model, **choices)


def deploy(fleet: Fleet, version: ModelVersion, run: Jobs, where: str = "production") -> Deployment:
    release = factories.make_release(version, getattr(fleet, where))
    deployment = deploy_release(release_id=release.pk, actor=fleet.sam)
    for job in run():
        assert job.state == JobState.SUCCEEDED, job.error_message
    return deployment


def test_a_release_that_is_not_approved_is_refused_before_anything_is_written(
    fleet_rows: Fleet,
) -> None:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    with pytest.raises(Conflict) as refused:
        deploy_release(release_id=release.pk, actor=fleet_rows.sam)
    assert refused.value.code == "release_not_approved"
    dana = factories.actor(factories.people().dana)
    with pytest.raises(NotAllowed):
        deploy_release(release_id=release.pk, actor=dana)
    with pytest.raises(NotFound):
        deploy_release(release_id=uuid.uuid4(), actor=fleet_rows.sam)
    assert not Deployment.objects.exists()
    assert not Job.objects.exists()


def test_bytes_that_differ_from_what_was_signed_are_refused(fleet_rows: Fleet) -> None:
    release = factories.make_release()
    with artifacts.local_path(release.version.onnx) as path:
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
        try:
            with pytest.raises(Conflict) as refused:
                deploy_release(release_id=release.pk, actor=fleet_rows.sam)
        finally:
            path.unlink()
    assert refused.value.code == "digest_mismatch"
    assert not Deployment.objects.exists()


def test_no_node_is_told(fleet_rows: Fleet) -> None:
    fleet_rows.node.cordon_reason = "Fan."
    fleet_rows.node.save()
    with pytest.raises(Conflict) as refused:
        deploy_release(release_id=factories.make_release().pk, actor=fleet_rows.sam)
    assert refused.value.code == "no_node"
    with pytest.raises(Conflict, match="Fan"):
        deploy_release(release_id=Release.objects.get().pk, actor=fleet_rows.sam, nodes=["local"])


def test_asking_twice_deploys_once_and_shares_a_generation_by_configuration(
    fleet_rows: Fleet,
) -> None:
    first = factories.make_release(factories.make_version())
    deployment = deploy_release(release_id=first.pk, actor=fleet_rows.sam)
    assert deploy_release(release_id=first.pk, actor=fleet_rows.sam) == deployment
    assert Job.objects.filter(kind="deploy").count() == 1
    assert Job.objects.get().subject == "fraud_detector v1 → production on local"
    same = factories.make_release(factories.make_version())
    other = factories.make_release(factories.make_version(queue_delay_us=7))
    names = [
        deploy_release(release_id=release.pk, actor=fleet_rows.sam).generation.triton_model
        for release in (same, other)
    ]
    assert names == ["fraud_detector", "fraud_detector_g2"]
    assert ServingGeneration.objects.count() == 2
    entry = AuditEntry.objects.filter(action="deployment.create").latest("sequence")
    assert entry.after["triton_model"] == "fraud_detector_g2"


def test_a_version_is_placed_loaded_tried_and_offered(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    deployment = deploy(live_fleet, version_of(name), run_jobs)
    placement = deployment.placements.get()
    assert placement.state == PlacementState.READY
    assert placement.verified_at is not None
    assert placement.digests["onnx"] == deployment.release.digests["onnx"]
    assert client.model_ready(name, 1)
    endpoint = Endpoint.objects.get(model__name=name)
    assert endpoint.current is not None
    assert (endpoint.current.weights, endpoint.current.cause) == ({"1": 10000}, "initial")
    log = [line.text for line in Job.objects.get(kind="deploy").lines.all()]
    assert any("Smoke test passed" in text for text in log)
    # A second version with the same configuration joins without touching the first.
    before = client.statistics(name, 1)[0].success.count
    deploy(live_fleet, version_of(name), run_jobs)
    assert client.model_ready(name, 2)
    assert client.statistics(name, 1)[0].success.count == before
    endpoint.refresh_from_db()
    assert endpoint.current.weights == {"1": 10000}


def test_a_version_that_answers_otherwise_than_recorded_is_undone(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    deploy(live_fleet, version_of(name), run_jobs)
    version = version_of(name)
    version.sample = factories.make_artifact(factories.recorded_sample(5.0), "application/json")
    version.save()
    release = factories.make_release(version)
    deployment = deploy_release(release_id=release.pk, actor=live_fleet.sam)
    job, diagnosis = run_jobs()
    assert diagnosis.kind == "diagnose"
    assert (job.state, job.error_code) == (JobState.FAILED, "smoke_test_failed")
    placement = deployment.placements.get()
    assert placement.state == PlacementState.FAILED
    assert "smoke test" in placement.detail
    assert loaded_slots(client) == {(name, 1)}
    root = Path(live_fleet.node.repository)
    assert [p.version for p in repository.present(root) if p.triton_model == name] == [1]
    # Mended, the same release is tried anew on the node where it failed.
    version.sample = factories.make_artifact(factories.recorded_sample(0.2), "application/json")
    version.save()
    again = deploy_release(release_id=release.pk, actor=live_fleet.sam)
    assert again == deployment
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    assert client.model_ready(name, 2)


def test_a_model_that_triton_refuses_is_undone_with_its_words(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    version = version_of(name)
    broken = factories.make_artifact(b"\x08\x08not a model")
    version.onnx = version.source = broken
    version.save()
    deploy_release(release_id=factories.make_release(version).pk, actor=live_fleet.sam)
    job, diagnosis = run_jobs()
    assert diagnosis.kind == "diagnose"
    assert (job.state, job.error_code) == (JobState.FAILED, "load_failed")
    root = Path(live_fleet.node.repository)
    assert not (root / name).exists()
    assert (name, 1) not in loaded_slots(client)


@pytest.mark.parametrize(
    ("step", "share"), [("Placing files", 0.4), ("Loading in Triton", 0), ("Offering it", 0)]
)
def test_a_worker_killed_anywhere_is_followed_by_one_that_finishes(
    live_fleet: Fleet,
    triton: stack.RunningTriton,
    process_environment: dict[str, str],
    client: TritonClient,
    name: str,
    step: str,
    share: float,
) -> None:
    release = factories.make_release(version_of(name))
    deployment = deploy_release(release_id=release.pk, actor=live_fleet.sam)
    job = Job.objects.get(kind="deploy")
    killed = subprocess.run(
        [sys.executable, killed_worker.__file__, str(job.pk), step, str(share)],
        env={**process_environment, "COVENANT_TRITON_KEY": triton.key},
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    root = Path(live_fleet.node.repository)
    half = [p for p in repository.present(root) if p.triton_model == name]
    assert len(half) == (0 if step == "Placing files" else 1)
    # The dead worker's lease has run out, so the sweep puts the job back into the queue.
    Job.objects.filter(pk=job.pk).update(lease_until=job.created_at)
    assert sweep()[0] == 1
    run_job(str(job.pk), HANDLERS["deploy"])
    job.refresh_from_db()
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2), job.error_message
    assert deployment.placements.get().state == PlacementState.READY
    assert client.model_ready(name, 1)


def test_a_deploy_job_that_lost_its_worker_for_good_is_cleaned_up_on_the_node(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    version = version_of(name)
    deployment = deploy_release(release_id=factories.make_release(version).pk, actor=live_fleet.sam)
    placement = deployment.placements.get()
    root = Path(live_fleet.node.repository)
    with placements.node_files(placement) as parts:
        repository.place(root, triton_model=name, version=1, config=parts.config, files=parts.files)
    Placement.objects.update(state=PlacementState.LOADING)
    job = Job.objects.get(kind="deploy")
    job_runs.finish(job, JobState.ERRORED, message="The worker was lost.", code="worker_lost")
    placement.refresh_from_db()
    assert (placement.state, placement.detail) == (PlacementState.FAILED, "The worker was lost.")
    (reconcile,) = run_jobs()
    assert reconcile.result == {"loaded": [], "failed": [], "removed": [f"{name} v1"]}
    assert not (root / name).exists()


def test_two_environments_share_the_files_of_a_version_on_a_node(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    version = version_of(name)
    staged = deploy(live_fleet, version, run_jobs, "staging")
    produced = deploy(live_fleet, version, run_jobs)
    assert staged.generation == produced.generation
    set_mode(
        environment="staging", model=name, mode="open", reason="Done trying.", actor=live_fleet.sam
    )
    remove_deployment(deployment=staged, reason="Done trying.", actor=live_fleet.sam)
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    staged.refresh_from_db()
    assert staged.removed_at is not None
    assert client.model_ready(name, 1)
    assert not check_live()


def test_a_version_with_traffic_is_not_unloaded_unless_its_traffic_moves(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    first = deploy(live_fleet, version_of(name), run_jobs)
    second = deploy(live_fleet, version_of(name), run_jobs)
    sam = live_fleet.sam
    with pytest.raises(Conflict) as refused:
        remove_deployment(deployment=first, reason="Old.", actor=sam)
    assert refused.value.code == "has_traffic"
    set_split(
        environment="production",
        model=name,
        weights={1: 60, 2: 40},
        expected_revision=1,
        reason="Try it.",
        actor=sam,
    )
    jobs = remove_deployment(deployment=first, reason="Old.", actor=sam, move_traffic=True)
    assert remove_deployment(deployment=first, reason="Old.", actor=sam) == jobs
    endpoint = Endpoint.objects.get(model__name=name)
    assert endpoint.current is not None
    assert (endpoint.current.weights, endpoint.current.cause) == ({"2": 10000}, "unload")
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    assert first.placements.get().state == PlacementState.UNLOADED
    assert loaded_slots(client) == {(name, 2)}
    with pytest.raises(Conflict, match="only version"):
        remove_deployment(deployment=second, reason="All.", actor=sam, move_traffic=True)


def test_what_a_restarted_triton_lost_is_loaded_again(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    deploy(live_fleet, version_of(name), run_jobs)
    deploy(live_fleet, version_of(name, queue_delay_us=5), run_jobs)
    client.unload(name)
    client.unload(f"{name}_g2")
    live_fleet.node.state = "lost"
    live_fleet.node.save()
    placements.reconcile_node(node=live_fleet.node, actor=Actor.system("tests"))
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED, job.error_message
    assert loaded_slots(client) == {(name, 1), (f"{name}_g2", 2)}
    live_fleet.node.refresh_from_db()
    assert live_fleet.node.state == "ready"


def test_a_version_whose_release_does_not_hold_any_more_is_not_loaded_again(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str
) -> None:
    deployment = deploy(live_fleet, version_of(name), run_jobs)
    client.unload(name)
    Release.objects.update(state=ReleaseState.WITHDRAWN)
    assert check_live() == 1
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    placement = deployment.placements.get()
    assert placement.state == PlacementState.FAILED
    assert "not approved" in placement.detail
    assert loaded_slots(client) == set()
