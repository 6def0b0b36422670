"""Why a version does not load: really broken versions on a real Triton."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import onnx
import pytest
from onnx import TensorProto, helper

from console.errors import Conflict, NotAllowed
from console.models import AuditEntry, Job, JobState
from deployments.adapters import repository, trial_models
from deployments.models import Diagnosis, DiagnosisState, Placement
from deployments.services.diagnosis.asking import request_diagnosis
from deployments.services.fleet.deploys import deploy_release
from models_registry.models import ModelVersion, VersionState
from models_registry.services import artifacts
from tests import factories, stack
from tests.deployments.conftest import Fleet

RunJobs = Callable[..., list[Job]]


@pytest.fixture
def fleet(live_fleet: Fleet, triton: stack.RunningTriton) -> Fleet:
    """The fleet, whose worker knows where Triton's log is."""
    live_fleet.node.labels = {"triton_log": str(triton.log)}
    live_fleet.node.save(update_fields=["labels"])
    return live_fleet


def bad_version(
    *,
    graph: Callable[[onnx.ModelProto], object] = lambda model: None,
    config: Callable[[str], str] = lambda text: text,
) -> ModelVersion:
    """A version that was signed as it is, with this fault in its graph or configuration."""
    version = factories.make_version()
    assert version.onnx
    assert version.config
    model = onnx.load_model_from_string(artifacts.read_bytes(version.onnx))
    graph(model)
    data = model.SerializeToString()
    version.onnx = factories.make_artifact(data)
    version.facts = factories.facts_of(data).to_json()
    text = config(artifacts.read_bytes(version.config).decode())
    version.config = factories.make_artifact(text.encode(), "text/plain")
    version.save()
    return version


def deployed(fleet: Fleet, version: ModelVersion, run_jobs: RunJobs) -> Placement:
    release = factories.make_release(version, fleet.production)
    deployment = deploy_release(release_id=release.pk, actor=fleet.sam)
    run_jobs()
    return deployment.placements.select_related("job").get()


def told(diagnosis: Diagnosis) -> dict[str, set[str]]:
    """Step → its findings, bad ones with an exclamation mark."""
    return {
        step["name"]: {
            f"{one['code']}{'!' if one['verdict'] == 'bad' else ''}" for one in step["findings"]
        }
        for step in diagnosis.steps
    }


def newer_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


def foreign_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.acme.secret"
    model.opset_import.append(helper.make_opsetid("com.acme.secret", 1))


def weights_elsewhere(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("length", "40")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


def other_name(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = model.graph.node[0].input[0] = "columns"


@pytest.mark.parametrize(
    ("graph", "cause", "step"),
    [
        (newer_opset, "opset_too_new", "compatibility"),
        (foreign_operator, "operator_unknown", "onnx"),
        (weights_elsewhere, "external_data_missing", "onnx"),
        (other_name, "interface_differs", "config"),
    ],
)
def test_a_deploy_that_fails_is_looked_into_by_itself(
    fleet: Fleet,
    run_jobs: RunJobs,
    graph: Callable[[onnx.ModelProto], object],
    cause: str,
    step: str,
) -> None:
    placement = deployed(fleet, bad_version(graph=graph), run_jobs)
    assert placement.job is not None
    assert (placement.state, placement.job.error_code) == ("failed", "load_failed")

    diagnosis = Diagnosis.objects.get()
    assert diagnosis.automatic
    assert not diagnosis.try_load
    assert (diagnosis.state, diagnosis.cause) == (DiagnosisState.FOUND, cause)
    found = told(diagnosis)
    assert f"{cause}!" in found["log"], "Triton's own words name it"
    assert any(code.endswith("!") for code in found[step]), "and so does the step that it is of"
    assert {"digests_match"} <= found["onnx"]
    assert found["files"] == {"files_readable", "not_on_node"}
    log = next(s for s in diagnosis.steps if s["name"] == "log")
    assert any("failed to load" in one["evidence"] for one in log["findings"])


def test_what_somebody_did_on_the_node_is_found(
    fleet: Fleet, run_jobs: RunJobs, triton: stack.RunningTriton
) -> None:
    placement = deployed(fleet, factories.make_version(), run_jobs)
    version = placement.deployment.release.version
    folder = triton.repository / placement.deployment.generation.triton_model
    model, config = folder / str(version.number) / "model.onnx", folder / "config.pbtxt"
    whole, text = model.read_bytes(), config.read_text()

    def look() -> tuple[str, dict[str, set[str]]]:
        asked = request_diagnosis(version=version, node=fleet.node, actor=fleet.sam)
        run_jobs()
        asked.refresh_from_db()
        return asked.cause, told(asked)

    cause, found = look()
    assert cause == ""
    assert {"serves", "trial_loads", "config_completed"} <= found["log"]
    assert Diagnosis.objects.latest("requested_at").state == DiagnosisState.CLEAN
    assert found["config"] == {"config_fits"}

    model.write_bytes(whole[:40])
    cause, found = look()
    assert cause == "digest_differs"
    assert {"digest_differs!", "onnx_damaged!"} <= found["onnx"]
    assert {"trial_failed!", "onnx_damaged!"} <= found["log"]

    model.write_bytes(whole)
    config.write_text(text + "log_frequency: 3\n")
    cause, found = look()
    assert cause == "config_unknown_field"
    assert {"config_unknown_field!", "config_differs!"} <= found["config"]

    config.write_text(text.replace("KIND_CPU", "KIND_GPU").replace("dims: 10", "dims: 12"))
    cause, found = look()
    assert cause == "gpu_missing"
    assert {"gpu_missing!", "dims_differ!", "config_differs!"} <= found["config"]
    assert "gpu_missing!" in found["log"]

    config.unlink()
    assert look()[0] == "config_missing"
    config.write_text(text)
    assert not list(triton.repository.glob(f"{trial_models.PREFIX}*")), "no trial stays behind"
    assert [one.triton_model for one in repository.present(triton.repository)] == [folder.name]


@pytest.mark.django_db(transaction=True)
def test_a_triton_that_does_not_answer_is_the_cause(
    transactional_db: None, fleet_rows: Fleet, run_jobs: RunJobs
) -> None:
    version = factories.make_version()
    asked = request_diagnosis(version=version, node=fleet_rows.node, actor=fleet_rows.sam)
    assert request_diagnosis(version=version, node=fleet_rows.node, actor=fleet_rows.sam) == asked
    run_jobs()
    asked.refresh_from_db()
    assert (asked.state, asked.cause) == ("found", "triton_unreachable")
    assert told(asked)["files"] == {"repository_missing!"}
    ends = AuditEntry.objects.filter(action__startswith="diagnosis.").order_by("pk")
    assert [entry.action for entry in ends] == ["diagnosis.request", "diagnosis.end"]


def test_who_may_not_and_what_cannot(fleet_rows: Fleet) -> None:
    version = factories.make_version(state=VersionState.UPLOADED)
    with pytest.raises(Conflict) as refused:
        request_diagnosis(version=version, node=fleet_rows.node, actor=fleet_rows.sam)
    assert refused.value.code == "version_not_exported"
    bea = factories.actor(factories.people().bea)
    with pytest.raises(NotAllowed):
        request_diagnosis(version=version, node=fleet_rows.node, actor=bea)


def test_a_cancelled_diagnosis_may_be_asked_for_again(fleet_rows: Fleet) -> None:
    from console.services.jobs import cancel_job

    version = factories.make_version()
    first = request_diagnosis(version=version, node=fleet_rows.node, actor=fleet_rows.sam)
    assert first.job_id is not None
    cancel_job(job_id=uuid.UUID(str(first.job_id)), actor=fleet_rows.sam)
    first.refresh_from_db()
    assert first.state == DiagnosisState.FAILED
    assert Job.objects.get(pk=first.job_id).state == JobState.CANCELLED
    second = request_diagnosis(version=version, node=fleet_rows.node, actor=fleet_rows.sam)
    assert second.pk != first.pk
