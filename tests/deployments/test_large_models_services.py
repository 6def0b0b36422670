"""A model whose weights lie beside its graph, on a real Triton: placed whole, or not at all."""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from console.actors import Actor
from console.adapters.triton import TritonClient
from console.errors import Conflict, Unavailable
from console.models import Job, JobState
from console.services.job_runs import run_job
from console.services.job_sweep import sweep
from deployments.adapters import repository
from deployments.models import Deployment, PlacementState
from deployments.services.fleet import deploys, placements
from deployments.services.fleet.deploys import deploy_release
from deployments.services.fleet.reconciles import loaded_slots
from models_registry.exporting import onnx_weights
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import ModelVersion
from models_registry.services import artifacts
from models_registry.services.release_checks import verify_release
from tests import factories, stack
from tests.deployments import killed_worker
from tests.deployments.conftest import HANDLERS, Fleet

Jobs = Callable[..., list[Job]]
PARTS = {"model.onnx", "model.onnx.data"}


@pytest.fixture
def name() -> str:
    """A model's name that no other test uses in the session's Triton."""
    return f"m_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(triton: stack.RunningTriton) -> Iterator[TritonClient]:
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        yield client


@cache
def parted(folder: Path, bias: float) -> tuple[bytes, bytes]:
    """`factories.tiny_onnx` by way of a hundred equal columns: (graph, weights beside it)."""
    model = onnx.load_from_string(factories.tiny_onnx(bias))
    wide = numpy_helper.from_array(np.full((10, 100), 0.1, np.float32), "weight")
    mean = numpy_helper.from_array(np.full((100, 1), 0.01, np.float32), "mean")
    model.graph.initializer[0].CopyFrom(wide)
    model.graph.initializer.append(mean)
    again = onnx.helper.make_node("MatMul", ["columns", "mean"], ["weighted"])
    model.graph.node[0].output[0] = "columns"
    model.graph.node.insert(1, again)
    onnx_weights.write(model, folder, folder / "model.onnx", keep_above=1_000)
    return (folder / "model.onnx").read_bytes(), (folder / "model.onnx.data").read_bytes()


def large_version(name: str, folder: Path) -> ModelVersion:
    """A validated version with a graph and weights, as an export leaves them."""
    known = factories.RegisteredModel.objects.filter(name=name).first()
    version = factories.make_version(known or factories.make_model(name))
    place = folder / str(version.number)
    place.mkdir()
    graph, weights = parted(place, version.number / 10)
    version.onnx, version.onnx_data = map(factories.make_artifact, (graph, weights))
    version.facts = replace(
        ExportFacts.from_json(version.facts),
        sha256=hashlib.sha256(graph).hexdigest(),
        data_sha256=hashlib.sha256(weights).hexdigest(),
        data_size=len(weights),
    ).to_json()
    version.save()
    return version


def deploy(fleet: Fleet, version: ModelVersion) -> Deployment:
    release = factories.make_release(version)
    return deploy_release(release_id=release.pk, actor=fleet.sam)


def placed(root: Path, name: str, number: int = 1) -> set[str]:
    folder = root / name / str(number)
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def staged(root: Path) -> list[Path]:
    return list((root.parent / repository.STAGING).iterdir())


def test_graph_and_weights_are_placed_served_restored_and_taken_off_together(
    live_fleet: Fleet, run_jobs: Jobs, client: TritonClient, name: str, tmp_path: Path
) -> None:
    root = Path(live_fleet.node.repository)
    deployment = deploy(live_fleet, large_version(name, tmp_path))
    (job,) = run_jobs()
    # The smoke test compared a real answer with the recorded one.
    assert job.state == JobState.SUCCEEDED, job.error_message
    assert placed(root, name) == PARTS
    placement = deployment.placements.get()
    assert placement.digests["onnx_data"] == deployment.release.digests["onnx_data"]

    # Triton lost it, and somebody took the weights away: neither is served without the other.
    client.unload(name)
    (root / name / "1" / "model.onnx.data").unlink()
    placements.reconcile_node(node=live_fleet.node, actor=Actor.system("tests"))
    (job,) = run_jobs()
    assert "model.onnx.data is missing" in job.result["failed"][0]
    assert (name, 1) not in loaded_slots(client)

    # Deployed again, and lost again with both files sound: it is back.
    placements.reconcile_node(node=live_fleet.node, actor=Actor.system("tests"))
    run_jobs()
    assert placed(root, name) == set()
    deploy_release(release_id=deployment.release.pk, actor=live_fleet.sam)
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED, job.error_message
    client.unload(name)
    placements.reconcile_node(node=live_fleet.node, actor=Actor.system("tests"))
    (job,) = run_jobs()
    assert job.result["loaded"] == [f"{name} v1"]
    placements.take_off(client, root, name, 1)
    assert not (root / name).exists()


def test_a_worker_killed_while_it_places_leaves_nothing_and_the_next_finishes(
    live_fleet: Fleet,
    triton: stack.RunningTriton,
    process_environment: dict[str, str],
    client: TritonClient,
    name: str,
    tmp_path: Path,
) -> None:
    root = Path(live_fleet.node.repository)
    deployment = deploy(live_fleet, large_version(name, tmp_path))
    job = Job.objects.get(kind="deploy")
    killed = subprocess.run(
        [sys.executable, killed_worker.__file__, str(job.pk), "Placing files", "0.4"],
        env={**process_environment, "COVENANT_TRITON_KEY": triton.key},
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert placed(root, name) == set()
    assert staged(root) != []
    Job.objects.filter(pk=job.pk).update(lease_until=job.created_at)
    assert sweep()[0] == 1
    run_job(str(job.pk), HANDLERS["deploy"])
    job.refresh_from_db()
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 2), job.error_message
    assert deployment.placements.get().state == PlacementState.READY
    assert placed(root, name) == PARTS
    assert staged(root) == []


def test_weights_that_are_not_those_that_were_signed_never_reach_a_node(
    fleet_rows: Fleet, name: str, tmp_path: Path
) -> None:
    version = large_version(name, tmp_path)
    deployment = deploy(fleet_rows, version)
    placement = placements.placements_in_full().get(deployment=deployment)
    assert verify_release(deployment.release).onnx_data == version.onnx_data

    other = factories.make_artifact(b"other weights")
    for data in (other, None):
        version.onnx_data = data
        version.save()
        placement = placements.placements_in_full().get(deployment=deployment)
        with pytest.raises(Conflict) as refused, placements.node_files(placement):
            pass
        assert refused.value.code == "digest_mismatch"
        with pytest.raises(Conflict, match="onnx_data of the release") as refused:
            verify_release(deployment.release, read_files=False)
        assert refused.value.code == "digest_mismatch"


def test_changed_bytes_are_found_where_they_are_stored(
    fleet_rows: Fleet, name: str, tmp_path: Path
) -> None:
    version = large_version(name, tmp_path)
    deployment = deploy(fleet_rows, version)
    assert version.onnx_data is not None
    with artifacts.local_path(version.onnx_data) as path:
        path.chmod(0o600)
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(Conflict) as refused:
            verify_release(deployment.release)
        path.write_bytes(data)
    assert refused.value.code == "digest_mismatch"


def test_a_full_disk_is_seen_before_a_byte_of_the_weights_is_written(
    fleet_rows: Fleet, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = deploy(fleet_rows, large_version(name, tmp_path))
    placement = placements.placements_in_full().get(deployment=deployment)
    root = tmp_path / "node" / "repository"
    usage = shutil.disk_usage(tmp_path)

    def nearly_full(_: Any) -> Any:
        return usage._replace(free=repository.SPARE_BYTES + 2_000)  # the graph, not its weights

    monkeypatch.setattr(repository.shutil, "disk_usage", nearly_full)
    with placements.node_files(placement) as parts, pytest.raises(Unavailable) as refused:
        repository.place(root, triton_model=name, version=1, config=parts.config, files=parts.files)
    assert refused.value.code == "disk_full"
    assert [path for path in (tmp_path / "node").rglob("*") if path.is_file()] == []


def test_gigabytes_are_read_by_the_nodes_worker_and_not_while_somebody_waits(
    live_fleet: Fleet,
    run_jobs: Jobs,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deploys, "READ_AT_ONCE_BYTES", 1_000)
    version = large_version(name, tmp_path)
    assert version.onnx_data is not None
    with artifacts.local_path(version.onnx_data) as path:
        data = path.read_bytes()
        path.write_bytes(bytes(len(data)))
        deployment = deploy(live_fleet, version)
        job, _diagnosis = run_jobs()
        path.write_bytes(data)
    assert (job.state, job.error_code) == (JobState.FAILED, "digest_mismatch")
    assert deployment.placements.get().state == PlacementState.FAILED
    assert placed(Path(live_fleet.node.repository), name) == set()
