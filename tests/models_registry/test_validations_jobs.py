"""The whole way of a version through the real sandbox: export, validation, contract, release."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from django.conf import settings
from django.core.files.storage import default_storage
from onnx import TensorProto, helper, numpy_helper

from console.models import Job, JobState
from models_registry import tasks
from models_registry.adapters import triton_config
from models_registry.models import Artifact, ModelVersion, ReleaseState, VersionState
from models_registry.services import artifacts, contracts, releases, versions
from tests import factories
from tests.factories import People, actor
from tests.models_registry import signing

pytestmark = pytest.mark.django_db(transaction=True)
FEATURES = {"name": "features", "dtype": "FP32", "dims": ["batch", 10], "min": -10, "max": 10}
SCORE = {"name": "risk_score", "dtype": "FP32", "dims": ["batch", 1]}


def create(people: People, data: bytes, **fields: Any) -> ModelVersion:
    model = ModelVersion.objects.first()
    registered = model.model if model else factories.make_model()
    version, _ = versions.create_version(
        model=registered,
        upload_id=factories.make_upload(data).pk,
        actor=actor(people.dana),
        **fields,
    )
    return version


def run_jobs(version: ModelVersion) -> ModelVersion:
    """Run the version's jobs as a worker would, one after the other."""
    tasks.export_version(str(version.export_job_id))
    version.refresh_from_db()
    if version.validate_job_id:
        tasks.validate_version(str(version.validate_job_id))
        version.refresh_from_db()
    return version


def torchscript() -> bytes:
    import torch

    torch.manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), torch.nn.Sigmoid()
    ).eval()
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(net, torch.zeros(2, 10)), buffer)
    return buffer.getvalue()


def nan_onnx() -> bytes:
    """A model whose only weight is NaN."""
    x = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 10])
    y = helper.make_tensor_value_info("risk_score", TensorProto.FLOAT, ["batch", 10])
    weight = numpy_helper.from_array(numpy.array([numpy.nan], numpy.float32), "weight")
    multiply = helper.make_node("Mul", ["features", "weight"], ["risk_score"])
    graph = helper.make_graph([multiply], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def work_left() -> list[Path]:
    return list((settings.CONFIG.home / "work").glob("*"))


def test_from_a_torchscript_file_to_an_approved_release() -> None:
    people = factories.people()
    version = create(people, torchscript(), inputs=[FEATURES], outputs=[SCORE])
    version = run_jobs(version)
    job = Job.objects.get(pk=version.export_job_id)
    assert job.state == JobState.SUCCEEDED, job.error_message
    validate_job = Job.objects.get(pk=version.validate_job_id)
    assert validate_job.state == JobState.SUCCEEDED, validate_job.error_message
    assert version.state == VersionState.VALIDATED
    assert version.facts["opset"] == 17
    assert version.facts["ir_version"] == 8
    assert version.report["verdict"] in ("passed", "warning")
    assert version.report["equivalence"]["samples"] == 100
    assert version.report["equivalence"]["batches"] == [1, 2, 32]
    assert [row["batch"] for row in version.report["latency"]] == [1, 2, 4, 8, 16, 32]
    assert version.report["schema_version"] == 1
    assert json.loads(artifacts.read_bytes(version.replay))["cases"]
    config = triton_config.parse(artifacts.read_bytes(version.config).decode())
    assert (config.name, config.max_batch_size) == ("fraud_detector", 32)
    assert version.config_origins["queue_delay_us"]["origin"] == "measured"
    sample = json.loads(artifacts.read_bytes(version.sample))
    assert sample["request"]["inputs"][0]["name"] == "features"
    assert work_left() == []

    # As if the worker had been killed between its last write and the job's ending.
    before = (version.onnx_id, version.config_id, version.validated_at)
    Job.objects.update(state=JobState.QUEUED, result=None)
    version = run_jobs(version)
    assert (version.onnx_id, version.config_id, version.validated_at) == before
    assert set(Job.objects.values_list("state", flat=True)) == {JobState.SUCCEEDED}

    body = contracts.propose_document(version)
    contract = contracts.propose_contract(
        model=version.model, document=json.dumps(body), actor=actor(people.dana)
    )
    for user in people.seats.values():
        signing.enrol(user)
        contracts.sign_contract(
            contract=contract,
            envelope=signing.contract_envelope(user, contract.payload),
            actor=actor(user),
        )
    release = releases.request_release(
        model=version.model,
        number=version.number,
        environment=factories.make_environment(),
        actor=actor(people.dana),
    )
    releases.approve_release(
        release=release,
        envelope=signing.release_envelope(people.sam, release.payload),
        actor=actor(people.sam),
    )
    release.refresh_from_db()
    assert release.state == ReleaseState.APPROVED
    verified = releases.verify_release(release)
    assert verified.onnx.sha256 == version.facts["sha256"]


def test_nan_outputs_reject_the_version_with_a_fix_and_keep_the_report() -> None:
    version = run_jobs(create(factories.people(), nan_onnx()))
    assert version.state == VersionState.REJECTED
    assert version.rejection
    assert version.report is not None
    assert version.report["verdict"] == "failed"
    assert version.report_artifact is not None
    assert version.config is None
    replay = json.loads(artifacts.read_bytes(version.replay))
    (case,) = replay["cases"]
    assert case["outputs"] == ["risk_score"]
    assert set(case["expected"]["outputs"][0]["data"]) == {"NaN"}
    assert case["request"]["inputs"][0]["name"] == "features"
    job = Job.objects.get(pk=version.validate_job_id)
    assert (job.state, job.error_code) == (JobState.FAILED, "validation_failed")
    assert job.error_hint
    assert work_left() == []


def test_a_refused_export_rejects_the_version_and_leaves_nothing() -> None:
    people = factories.people()
    wrong = [{**FEATURES, "dims": ["batch", 12]}]
    version = run_jobs(create(people, factories.tiny_onnx(0.1), inputs=wrong))
    assert version.state == VersionState.REJECTED
    assert version.onnx is None
    job = Job.objects.get(pk=version.export_job_id)
    assert job.state == JobState.FAILED
    assert job.error_hint
    assert job.error_message in version.rejection
    assert work_left() == []
    kept = set(Artifact.objects.values_list("pk", flat=True))
    assert kept == {version.source_id}


def test_an_attempt_that_was_killed_on_the_way_is_done_again_from_the_start() -> None:
    people = factories.people()
    version = create(people, factories.tiny_onnx(0.3))
    left = settings.CONFIG.home / "work" / f"{version.export_job_id}-1"
    left.mkdir(parents=True)
    (left / "half.onnx").write_bytes(b"half")
    ModelVersion.objects.update(state=VersionState.EXPORTING)
    Job.objects.update(attempt=1)
    tasks.export_version(str(version.export_job_id))
    version.refresh_from_db()
    assert version.state == VersionState.VALIDATING
    assert work_left() == []


def test_a_version_under_a_contract_is_measured_by_it() -> None:
    people = factories.people()
    factories.make_contract(
        factories.make_version().model,
        validation={"samples": 20, "seed": 7, "atol": 1e-4, "rtol": 1e-3},
    )
    kept = run_jobs(create(people, factories.tiny_onnx(0.5)))
    assert kept.state == VersionState.VALIDATED
    assert (kept.report["equivalence"]["samples"], kept.report["equivalence"]["seed"]) == (20, 7)
    line = next(c for c in kept.report["checks"] if c["id"] == "contract_interface")
    assert line["verdict"] == "passed"


def test_bytes_of_the_source_lost_from_the_storage_fail_the_job_and_not_the_model() -> None:
    version = create(factories.people(), factories.tiny_onnx(0.6))
    path = Path(default_storage.path(version.source.storage_key))
    content = path.read_bytes()
    path.unlink()
    try:
        tasks.export_version(str(version.export_job_id))
    finally:
        path.write_bytes(content)
    version.refresh_from_db()
    job = Job.objects.get(pk=version.export_job_id)
    assert (job.state, job.error_code) == (JobState.FAILED, "artifact_missing")
    assert version.state == VersionState.UPLOADED


def test_a_frozen_batch_is_served_as_it_is_though_a_free_one_was_described() -> None:
    import torch

    class Frozen(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return features.reshape(4, 10).sum(1, keepdim=True)

    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Frozen().eval(), torch.zeros(4, 10)), buffer)

    version = run_jobs(
        create(factories.people(), buffer.getvalue(), inputs=[FEATURES], outputs=[SCORE])
    )

    assert version.state == VersionState.VALIDATED, version.rejection
    assert version.report is not None
    assert version.report["verdict"] == "warning"
    assert "fixed at 4" in version.facts["warnings"][0]
    assert version.config is not None
    config = triton_config.parse(artifacts.read_bytes(version.config).decode())
    assert (config.max_batch_size, list(config.input[0].dims)) == (0, [4, 10])
