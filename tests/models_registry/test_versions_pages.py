"""One version's pages: the report, the configuration, the comparison; and how one is created."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from console.models import Job, JobState
from console.services import jobs
from models_registry.models import ModelVersion, Release, VersionState
from models_registry.services.versions import url_of
from tests import factories
from tests.factories import People, actor
from tests.models_registry.browsing import Visitor
from tests.models_registry.reports import check, report_of, reported
from tests.models_registry.test_exporting_weights import parted

pytestmark = pytest.mark.django_db
ONNX = factories.tiny_onnx(0.25)


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def dana(people: People) -> Visitor:
    return Visitor(people.dana)


def form_of(upload: Any, **changes: Any) -> dict[str, Any]:
    """What the form of a new version sends."""
    return {
        "upload": str(upload.pk),
        "source_format": "",
        "model_class": "tabular",
        "opset": "17",
        "module_arguments": "",
        "input_name": ["features"],
        "input_dtype": ["FP32"],
        "input_dims": ["batch, 10"],
        "input_min": ["-10"],
        "input_max": ["10"],
        **changes,
    }


def test_a_version_shows_its_lineage_report_graph_and_files(dana: Visitor) -> None:
    version = reported(
        None,
        report_of(
            "warning",
            check("equivalence", measured=1.2e-6, limit=1e-5, detail="Over 100 samples."),
            check("latency", "warning", measured=61.0, limit=50.0, unit="ms", fix="Use opset 17."),
        ),
    )
    shown = dana.get(url_of(version))
    assert shown.status == 200
    for words in (
        version.source.sha256[:12],
        version.onnx.sha256[:12],
        "batch 16",
        "Validated, with warnings",
        "1.2e-6",
        "limit 1e-5",
        "61 ms",
        "limit 50 ms",
        "Use opset 17.",
        "MatMul",
        "[batch, 10]",
        "-10 … 10",
        "Error of “risk_score” over 100 inputs",
        "PyTorch on the CPU",
        "3.1 ms",
    ):
        assert words in shown, words
    for name in ("source", "onnx", "config", "report", "sample"):
        assert f"/api/v1/models/fraud_detector/versions/1/artifacts/{name}" in shown.links


def test_the_part_that_is_fetched_anew_brings_state_and_acts_with_it(dana: Visitor) -> None:
    version = reported()
    text = dana.get(url_of(version), part=True).response.content.decode()
    assert "<h1" not in text
    for part in ("version-state", "version-acts", "version-dialogs"):
        assert f'id="{part}" hx-swap-oob="true"' in text


def test_the_errors_of_the_comparisons_are_given_to_the_chart(dana: Visitor) -> None:
    reported()
    answer = json.loads(dana.client.get("/models/fraud_detector/versions/1/errors/0/").content)
    counts = {bar["label"]: bar["count"] for bar in answer["bars"]}
    assert counts["0"] == 40
    assert counts["1e-8–1e-7"] == 50
    assert counts["1e-7–1e-6"] == 9
    assert counts["1e-6–1e-5"] == 1
    assert sum(counts.values()) == 100
    assert answer["limit"]["label"] == "atol 1e-5"
    missing = dana.client.get("/models/fraud_detector/versions/1/errors/7/")
    assert missing.status_code == 404


def test_the_configuration_says_where_each_value_came_from(dana: Visitor) -> None:
    reported()
    shown = dana.get("/models/fraud_detector/versions/1/config/")
    for words in ("Largest batch", "16", "set by hand", "300 µs", "measured", "max_batch_size:"):
        assert words in shown, words
    assert shown.text.index("Largest batch") < shown.text.index("Longest wait for a batch")


def test_a_version_without_a_configuration_says_when_it_comes(dana: Visitor) -> None:
    factories.make_version(state=VersionState.EXPORTING)
    assert "Not rendered yet" in dana.get("/models/fraud_detector/versions/1/config/")


def test_two_versions_are_compared(dana: Visitor) -> None:
    first = reported()
    second = reported(first.model)
    second.config_origins["max_batch_size"]["value"] = 32
    second.save()
    shown = dana.get("/models/fraud_detector/versions/2/diff/")
    assert "max_batch_size" in shown
    assert shown.text.index("16") < shown.text.index("32")
    assert first.onnx.sha256[:12] in shown
    back = dana.get("/models/fraud_detector/versions/1/diff/?against=2")
    assert "v2" in back
    assert dana.get("/models/fraud_detector/versions/1/diff/?against=77").status == 404


def test_progress_shows_the_running_step_and_a_failure_with_its_hint(
    people: People, dana: Visitor
) -> None:
    version = factories.make_version(state=VersionState.EXPORTING)
    job = jobs.enqueue(
        kind="export",
        subject=str(version),
        subject_url=url_of(version),
        arguments={"version": version.pk},
        actor=actor(people.dana),
    )
    version.export_job = job
    version.save()
    address = "/models/fraud_detector/versions/1/progress/"
    assert "waits for a free worker" in dana.get(address, part=True)
    Job.objects.filter(pk=job.pk).update(
        state=JobState.RUNNING, progress=0.4, step="Comparing answers"
    )
    running = dana.get(address, part=True)
    assert "Comparing answers" in running
    assert "40 %" in running
    Job.objects.filter(pk=job.pk).update(
        state=JobState.FAILED,
        error_message="The disk is full.",
        error_hint="Free 2 GiB, then retry.",
        error_code="disk_full",
    )
    stopped = dana.get(address, part=True)
    assert "The disk is full." in stopped
    assert "Free 2 GiB, then retry." in stopped
    assert f"/jobs/{job.pk}/retry/" in stopped.forms
    assert f"/jobs/{job.pk}/retry/" not in Visitor(people.vic).get(address, part=True).forms


def test_a_rejected_version_says_why(dana: Visitor) -> None:
    version = factories.make_version(state=VersionState.REJECTED)
    version.rejection = "The operator aten::foo has no ONNX form. Replace it."
    version.save()
    assert "aten::foo has no ONNX form" in dana.get(url_of(version))


def test_a_new_version_is_made_from_an_upload(dana: Visitor) -> None:
    factories.make_model()
    upload = factories.make_upload(ONNX)
    upload.detected_format = "onnx"
    upload.save()
    made = dana.post("/models/fraud_detector/versions/new/", form_of(upload, notes="First."))
    assert made.address == "/models/fraud_detector/versions/1/"
    version = ModelVersion.objects.get()
    assert version.inputs == [
        {
            "name": "features",
            "dtype": "FP32",
            "shape": [-1, 10],
            "dims": ["batch", ""],
            "min": -10.0,
            "max": 10.0,
        }
    ]
    twice = dana.post("/models/fraud_detector/versions/new/", form_of(upload, notes="First."))
    assert twice.address == made.address
    assert ModelVersion.objects.count() == 1, "a second click has no second effect"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_dims": ["batch, 0"]}, "give a size of at least 1"),
        ({"input_min": ["low"]}, "give a number"),
        ({"input_min": ["11"]}, "min 11 is above max 10"),
        ({"input_dtype": ["FP33"]}, "is not a data type"),
        ({"opset": "99"}, "less than or equal to 30"),
        ({"opset": "28"}, "opset"),
        ({"max_batch_size": "5000"}, "between 0 and 4096"),
        ({"preferred_batch_sizes": "4, many"}, "Give whole numbers"),
        ({"module_arguments": "[1]"}, "Give an object"),
        ({"source_format": "torchscript"}, "was announced as torchscript"),
        ({"upload": ""}, "Upload the model’s file first"),
    ],
)
def test_each_fault_stands_where_it_was_made_and_nothing_typed_is_lost(
    dana: Visitor, changes: dict[str, Any], words: str
) -> None:
    factories.make_model()
    upload = factories.make_upload(ONNX)
    upload.detected_format = "onnx"
    upload.save()
    refused = dana.post(
        "/models/fraud_detector/versions/new/", {**form_of(upload, notes="Kept."), **changes}
    )
    assert refused.status == 422
    assert words in refused
    assert "Kept." in refused
    assert "features" in refused
    assert not ModelVersion.objects.exists()


def test_a_state_dict_without_its_source_is_asked_for_it(dana: Visitor) -> None:
    factories.make_model()
    upload = factories.make_upload(ONNX, "weights.pt")
    upload.detected_format = "torch_state_dict"
    upload.save()
    form = form_of(upload, module_entry="")
    shown = dana.post("/models/fraud_detector/versions/new/", {**form, "opset": ""})
    assert "What helps to read it" in shown
    assert "Needed where a file holds weights only" in shown


def test_inputs_are_proposed_from_the_file(dana: Visitor) -> None:
    factories.make_model()
    upload = factories.make_upload(ONNX)
    upload.detected_format = "onnx"
    upload.save()
    shown = dana.post(
        "/models/fraud_detector/versions/new/inspect/", {"upload": str(upload.pk)}, part=True
    )
    assert shown.status == 200
    assert "model.onnx is a ONNX file." in shown
    assert "features" in shown
    assert "batch, 10" in shown


def test_a_graph_without_its_weights_names_them_and_takes_them_from_the_form(
    dana: Visitor, tmp_path: Path
) -> None:
    factories.make_model()
    graph = parted(tmp_path / "up")
    upload = factories.make_upload(graph.read_bytes(), "net.onnx")
    upload.detected_format = "onnx"
    upload.save()
    address = "/models/fraud_detector/versions/new/"
    shown = dana.post(f"{address}inspect/", {"upload": str(upload.pk)}, part=True)
    assert "Its weights are in weights.bin, which the model needs as well." in shown
    weights = factories.make_upload(graph.with_name("weights.bin").read_bytes(), "weights.bin")
    form = {**form_of(upload), "input_name": ["x"], "input_dims": ["N, 600"]}
    form["data_uploads"] = [str(weights.pk), ""]

    twice = {**form, "data_uploads": [str(weights.pk)] * 2}
    refused = dana.post(address, twice)
    assert refused.status == 422
    assert "Two data files are called weights.bin." in refused
    assert f'name="data_uploads" value="{weights.pk}"' in refused.response.content.decode()
    made = dana.post(address, form)

    assert made.address == "/models/fraud_detector/versions/1/"
    assert "data:weights.bin" in dana.get(made.address)
    assert [file.name for file in ModelVersion.objects.get().files.all()] == ["weights.bin"]


def test_a_file_that_is_no_model_is_refused_in_words(dana: Visitor) -> None:
    factories.make_model()
    upload = factories.make_upload(b"hello, this is a text file\n" * 20, "notes.txt")
    upload.detected_format = "text"
    upload.save()
    address = "/models/fraud_detector/versions/new/inspect/"
    shown = dana.post(address, {"upload": str(upload.pk)}, part=True)
    assert "notes.txt cannot be used." in shown
    assert "Upload the file again." in dana.post(address, {"upload": "x"}, part=True)


def test_a_release_is_asked_for_where_the_policy_lets_it(people: People, dana: Visitor) -> None:
    version = reported()
    factories.make_environment("staging")
    factories.make_environment("production")
    shown = dana.get(url_of(version))
    assert "It asks for a contract in force, and there is none yet." in shown
    address = "/models/fraud_detector/versions/1/release/"
    assert dana.post(address, {"environment": "production"}).address == url_of(version)
    assert "asks for a contract in force" in dana.said()
    made = dana.post(address, {"environment": "staging", "note": "Try it."})
    release = Release.objects.get()
    assert made.address == f"/releases/{release.pk}/"
    assert release.note == "Try it."
    assert "There is a release that is open or approved." in dana.get(url_of(version))
    assert Visitor(people.vic).post(address, {"environment": "staging"}).status == 403
    assert "Ask for a release" not in Visitor(people.vic).get(url_of(version))


def test_archiving_asks_first_and_is_refused_while_a_release_needs_it(
    people: People, dana: Visitor
) -> None:
    version = reported()
    address = "/models/fraud_detector/versions/1/archive/"
    assert address in dana.get(url_of(version)).forms
    release = factories.make_release(version)
    dana.post(address, {"reason": "Old."})
    assert "has a release that is open or approved" in dana.said()
    release.approvals.all().delete()
    release.delete()
    dana.post(address, {"reason": "Old."})
    version.refresh_from_db()
    assert version.state == VersionState.ARCHIVED
    assert address not in Visitor(people.sam).get(url_of(version)).forms
