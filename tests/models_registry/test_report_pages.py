"""The validation report as a person reads it: the mend first, the figures, two side by side."""

from __future__ import annotations

import pytest

from console.models import Job, JobState
from console.services import jobs
from models_registry.models import ModelVersion, VersionState
from models_registry.services.versions import url_of
from tests import factories
from tests.factories import People, actor
from tests.models_registry.browsing import Visitor
from tests.models_registry.reports import check, report_of, reported

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> People:
    return factories.people()


@pytest.fixture
def dana(people: People) -> Visitor:
    return Visitor(people.dana)


def rejected(people: People, **error: str) -> ModelVersion:
    """A rejected version whose validation or export ended with `error`."""
    version = reported(
        None,
        report_of(
            "failed",
            check(
                "output_range", "failed", detail="-7 to 2.", fix="Add a sigmoid.", group="Behaviour"
            ),
            check(
                "finite", "failed", detail="3 NaN.", fix="Clamp the logarithm.", measured=3, limit=0
            ),
            check("varies", "warning", detail="It never changes.", fix="Check the weights."),
            check("onnx_checker", group="Format"),
        ),
    )
    version.state, version.config = VersionState.REJECTED, None
    version.replay = factories.make_artifact(b"{}", "application/json")
    job = jobs.enqueue(
        kind="validate",
        subject=str(version),
        subject_url=url_of(version),
        arguments={"version": version.pk},
        actor=actor(people.dana),
    )
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED, **error)
    version.validate_job = job
    version.save()
    return version


def test_a_rejected_version_leads_with_the_way_to_mend_each_fault(
    people: People, dana: Visitor
) -> None:
    version = rejected(people, error_message="finite: 3 NaN.", error_code="validation_failed")
    shown = dana.get(url_of(version))
    order = (
        "It cannot serve yet: 2 checks failed",
        "Add a sigmoid.",
        "-7 to 2.",
        "Clamp the logarithm.",
        "3 NaN.",
        "New version from a mended file",
        "Propose another contract",
        "Lineage",
        "Worth a look",
        "Check the weights.",
        "What passed",
        "onnx checker",
    )
    places = [shown.text.index(words) for words in order]
    assert places == sorted(places)
    assert "/models/fraud_detector/versions/new/?from=1" in shown.links
    assert "/models/fraud_detector/contracts/new/?version=1" in shown.links
    assert f"/jobs/{version.validate_job_id}/" in shown.links
    assert "/api/v1/models/fraud_detector/versions/1/artifacts/replay" in shown.links
    others = Visitor(people.vic).get(url_of(version))
    assert "/models/fraud_detector/versions/new/?from=1" not in others.links
    assert "/models/fraud_detector/contracts/new/?version=1" not in others.links


def test_a_refused_export_leads_with_its_hint(people: People, dana: Visitor) -> None:
    version = rejected(
        people,
        error_message="The file does not say what its inputs are.",
        error_hint="Describe each input.",
        error_code="inputs_missing",
    )
    version.report, version.onnx, version.report_artifact = None, None, None
    version.export_job, version.validate_job = version.validate_job, None
    version.save()
    shown = dana.get(url_of(version))
    assert shown.text.index("Describe each input.") < shown.text.index("does not say what its")
    assert "It could not be exported to ONNX" in shown
    assert "inputs_missing" in shown
    assert "Nothing to see yet" not in shown


def test_a_new_version_begins_with_what_was_described_for_another(dana: Visitor) -> None:
    version = factories.make_version()
    version.tuning = {"max_batch_size": 16, "preferred_batch_sizes": [4, 8]}
    version.notes = "Trained on May."
    version.save()
    shown = dana.get("/models/fraud_detector/versions/new/?from=1")
    for words in ("features", "batch, 10", "Trained on May.", "16", "4, 8"):
        assert words in shown, words
    assert dana.get("/models/fraud_detector/versions/new/?from=9").status == 404


GRAPH = {
    "blocks": [
        {
            "id": 0, "kind": "operators", "label": "Conv → Relu",
            "operators": {"Conv": 1, "Relu": 1},
            "count": 2, "repeated": 3, "parameters": 1200, "flops": 8_200_000_000,
            "shape": [1, 64, 56, 56], "row": 1, "column": 0,
        },
        {
            "id": 1, "kind": "input", "label": "<script>alert(1)</script>",
            "shape": ["batch", 3], "row": 0, "column": 0,
        },
        {"id": 2, "kind": "output", "label": "y", "shape": ["batch", 2], "row": 2, "column": 0},
    ],
    "edges": [[1, 0], [0, 2], [1, 2]],
    "rows": 3, "columns": 1, "operators": 2,
}  # fmt: skip


def test_the_report_shows_graph_memory_work_and_the_worst_inputs(dana: Visitor) -> None:
    report = report_of()
    rows = [{**row, "peak_bytes": 3 << 20, "rows_per_second": 900.0} for row in report["latency"]]
    output = report["equivalence"]["outputs"][0]
    worst = {**output["worst"], "origin": "varied", "index": [0], "expected": 0.25, "answered": 0.5}
    report |= {
        "latency": rows,
        "equivalence": {**report["equivalence"], "outputs": [{**output, "worst": worst}]},
        "graph": GRAPH,
        "model": {
            "flops": 8_200_000_000,
            "flops_by_operator": {"Relu": 200_000_000, "Conv": 8_000_000_000},
            "flops_left_out": {"NonMaxSuppression": 1},
        },
    }
    version = reported(None, report)
    version.replay = factories.make_artifact(b'{"cases": []}', "application/json")
    version.save()
    shown = dana.get(url_of(version))
    for words in (
        "On 100 inputs its answers are at most 1.2e-6 away from the source’s",
        "3 MiB",
        "900",
        "8.2 GFLOP",
        "Conv 97.6 % · Relu 2.4 %",
        "not counted: NonMaxSuppression",
        "risk_score[0]",
        "no. 99, near a recorded one",
        "0.25",
        "fraud_detector-v1-replay.json",
        "2 operators in 1 block ",
        "<script>alert(1)</script>",
    ):
        assert words in shown, words
    page = shown.response.content.decode()
    assert "<script>alert(1)" not in page
    assert page.count('class="graph-line"') == 3
    assert "style=" not in page[page.index('class="graph-figure"') :]


def test_two_reports_stand_side_by_side(dana: Visitor) -> None:
    first = reported(None, report_of("passed", check("finite")))
    report = report_of("failed", check("finite", "failed", fix="Clamp the logarithm."))
    report["latency"] = [{**row, "p95_ms": row["p95_ms"] * 4} for row in report["latency"]]
    reported(first.model, report)
    shown = dana.get("/models/fraud_detector/versions/2/diff/")
    for words in ("worse Clamp the logarithm.", "P95 at batch 8", "3.1 ms", "12.4 ms", "+300 %"):
        assert words in shown, words
