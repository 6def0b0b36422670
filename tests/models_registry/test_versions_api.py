"""Versions over the API: created from an upload, shown, downloaded and never shown inline."""

from __future__ import annotations

import hashlib

import pytest
from django.core.files.storage import default_storage

from models_registry.models import ModelVersion, VersionState
from tests import factories
from tests.models_registry.api import Caller
from tests.models_registry.reports import check, report_of, reported

pytestmark = pytest.mark.django_db
ONNX = factories.tiny_onnx(0.9)


@pytest.fixture
def dana() -> Caller:
    return Caller(factories.people().dana)


def test_an_upload_becomes_a_version_with_a_job(dana: Caller) -> None:
    factories.make_model()
    body = {
        "upload": dana.upload(ONNX),
        "inputs": [{"name": "features", "dtype": "FP32", "dims": ["batch", 10]}],
        "tuning": {"max_batch_size": 16},
        "sample": {"features": [[0.5] * 10]},
        "target": "25.03",
        "notes": "first",
    }
    made = dana.post("/models/fraud_detector/versions/", body, idempotency_key="once")
    assert made.status_code == 201, made.content
    version = made.json()
    assert (version["number"], version["state"]) == (1, "uploaded")
    assert version["target"] == "25.03"
    assert version["job"] == version["export_job"]
    assert version["files"]["source"]["sha256"] == hashlib.sha256(ONNX).hexdigest()
    assert "sample" in version["files"]
    assert dana.get(f"/jobs/{version['job']}/").json()["subject"] == "fraud_detector v1"
    for key in ("once", "another"):
        again = dana.post("/models/fraud_detector/versions/", body, idempotency_key=key)
        assert again.json()["number"] == 1
    assert ModelVersion.objects.count() == 1
    listed = dana.get("/models/fraud_detector/versions/").json()["results"]
    assert [v["number"] for v in listed] == [1]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x80\x02csklearn.linear_model._logistic\nLogisticRegression\n)\x81.", "sklearn"),
        (b"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\n", "lightgbm"),
        (b'{"learner":{"attributes":{}},"version":[3,2,0]}', "xgboost"),
        (b"CBM1" + bytes(40), "catboost"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "keras"),
    ],
    ids=["sklearn", "lightgbm", "xgboost", "catboost", "keras"],
)
def test_a_model_that_names_its_inputs_needs_no_description(
    dana: Caller, data: bytes, kind: str
) -> None:
    factories.make_model()

    made = dana.post("/models/fraud_detector/versions/", {"upload": dana.upload(data)})

    assert made.status_code == 201, made.content
    assert made.json()["source_format"] == kind


def test_refusals_name_the_field(dana: Caller) -> None:
    factories.make_model()
    cases = [
        ({"upload": dana.upload(b"just text")}, 422, "text", ["/upload"]),
        ({"upload": "not-an-id"}, 422, "invalid_input", ["/upload"]),
        (
            {"upload": "11111111-1111-1111-1111-111111111111"},
            404,
            "upload_not_found",
            [],
        ),
        (
            {"upload": dana.upload(ONNX), "inputs": [{"name": "x", "dtype": "FP32"}]},
            422,
            "invalid_tensor",
            ["/inputs/0/shape"],
        ),
        ({"upload": dana.upload(ONNX), "opset": 99}, 422, "opset_too_new", ["/opset"]),
        ({"upload": dana.upload(ONNX), "target": "1.0"}, 422, "target_unknown", ["/target"]),
        ({"upload": dana.upload(ONNX), "tuning": {"x": 1}}, 422, "invalid_tuning", ["/tuning/x"]),
    ]
    for body, status, code, pointers in cases:
        answer = dana.post("/models/fraud_detector/versions/", body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code)
        assert [error["pointer"] for error in problem["errors"]] == pointers
        assert problem["hint"]
    assert not ModelVersion.objects.exists()


def test_files_are_downloads_with_their_digest(dana: Caller) -> None:
    version = factories.make_version()
    base = f"/models/fraud_detector/versions/{version.number}"
    names = {"source": "model.onnx", "onnx": "fraud_detector-v1-model.onnx",
             "config": "fraud_detector-v1-config.pbtxt", "report": "fraud_detector-v1-report.json",
             "sample": "fraud_detector-v1-sample.json"}  # fmt: skip
    for name, filename in names.items():
        answer = dana.get(f"{base}/artifacts/{name}", accept="application/octet-stream")
        content = b"".join(answer.streaming_content)
        digest = hashlib.sha256(content).hexdigest()
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"] == f'attachment; filename="{filename}"'
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert answer["ETag"] == f'"{digest}"'
        assert int(answer["Content-Length"]) == len(content)
        shown = dana.get(f"{base}/").json()["files"][name]
        assert (shown["sha256"], shown["size"]) == (digest, len(content))
    missing = dana.get(f"{base}/artifacts/code")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_config_and_report(dana: Caller) -> None:
    version = factories.make_version()
    config = dana.get("/models/fraud_detector/versions/1/config/", accept="text/plain")
    assert config["Content-Type"] == "text/plain; charset=utf-8"
    assert b'name: "fraud_detector"' in config.content
    assert config["ETag"] == f'"{version.config.sha256}"'
    assert dana.get("/models/fraud_detector/versions/1/report/").json()["verdict"] == "passed"
    proposal = dana.get("/models/fraud_detector/versions/1/contract-proposal/").json()
    assert proposal["interface"]["inputs"][0]["dims"] == ["batch", 10]
    factories.make_version(state=VersionState.UPLOADED)
    for name, code in (("config", "no_config"), ("report", "no_report"),
                       ("contract-proposal", "version_not_exported")):  # fmt: skip
        answer = dana.get(f"/models/fraud_detector/versions/2/{name}/")
        assert answer.status_code in (404, 409)
        assert answer.json()["code"] == code


def test_a_file_that_the_storage_lost_is_explained(dana: Caller) -> None:
    version = factories.make_version(bias=4.25)
    default_storage.delete(version.onnx.storage_key)
    answer = dana.get("/models/fraud_detector/versions/1/artifacts/onnx")
    assert (answer.status_code, answer.json()["code"]) == (409, "artifact_missing")


def test_archiving(dana: Caller) -> None:
    factories.make_version()
    answer = dana.post("/models/fraud_detector/versions/1/archive/", {"reason": "old"})
    assert answer.json()["state"] == "archived"
    listed = dana.get("/models/fraud_detector/versions/?state=archived").json()["results"]
    assert len(listed) == 1


def test_two_reports_are_compared_check_by_check(dana: Caller) -> None:
    first = reported(None, report_of("passed", check("finite"), check("varies", "warning")))
    reported(first.model, report_of("failed", check("finite", "failed", fix="Mend it.")))
    third = factories.make_version(first.model, state=VersionState.UPLOADED)
    address = "/models/fraud_detector/versions/2/report/diff/"
    found = dana.get(address).json()
    assert (found["before"], found["after"]) == (1, 2)
    assert found["verdict"] == {"before": "passed", "after": "failed", "effect": "worse"}
    assert [(c["id"], c["effect"]) for c in found["checks"]] == [
        ("finite", "worse"),
        ("varies", "neutral"),
    ]
    assert {f["effect"] for f in found["figures"]} == {"same"}
    assert dana.get(f"{address}?against=1").json() == found
    for query, status, code in (
        ("2", 422, "invalid_version"),
        ("x", 422, "invalid_version"),
        ("9", 404, "not_found"),
        ("3", 404, "no_report"),
    ):
        refused = dana.get(f"{address}?against={query}")
        assert (refused.status_code, refused.json()["code"]) == (status, code), query
    alone = dana.get("/models/fraud_detector/versions/1/report/diff/")
    assert alone.json()["code"] == "no_report"
    assert third.number == 3


def test_the_worst_inputs_are_a_download(dana: Caller) -> None:
    version = reported()
    version.replay = factories.make_artifact(b'{"cases": []}', "application/json")
    version.save()
    listed = dana.get("/models/fraud_detector/versions/1/").json()["files"]
    assert listed["replay"]["sha256"] == version.replay.sha256
    got = dana.get("/models/fraud_detector/versions/1/artifacts/replay")
    assert b"".join(got.streaming_content) == b'{"cases": []}'
    assert "fraud_detector-v1-replay.json" in got["Content-Disposition"]
