"""Trying a version: what may be sent, who may send it, and what a real Triton answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, checker, helper

from console.adapters.triton import TritonClient
from console.errors import Invalid, TooLarge, Unavailable
from console.models import AuditEntry, Job, JobState
from deployments.models import Node, NodeState, Placement
from deployments.rules.trials import requests as trial_requests
from deployments.rules.trials.answers import compared, row_of
from deployments.rules.trials.requests import Declared, check_request, read_request
from deployments.services.fleet.deploys import deploy_release
from deployments.services.traffic.splits import set_mode
from deployments.services.trials.samples import try_version
from models_registry.adapters import triton_config
from models_registry.models import ModelVersion
from models_registry.rules import tuning
from tests import factories, stack
from tests.deployments.conftest import Fleet, ready_version
from tests.deployments.test_cli import Run, run, signed_in  # noqa: F401
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor

PATH = "/models/fraud_detector/versions/1/try/"
PANEL = "/panels/try/fraud_detector/1/"
FEATURES = Declared("features", "FP32", (-1, 10), ("batch", ""))
NAMES = Declared("names", "BYTES", (-1,), ("batch",))


def body(**changes: Any) -> dict[str, Any]:
    tensor = {"name": "features", "datatype": "FP32", "shape": [1, 10], "data": [1.0] * 10}
    return {"inputs": [tensor | changes]}


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ({}, "/inputs", "Give a list"),
        ({"inputs": []}, "/inputs", "Give a list"),
        ({"inputs": ["x"]}, "/inputs/0", "Give an object"),
        (body() | {"model": "x"}, "/model", "no such member"),
        (body(name="feature"), "/inputs/0/name", "it takes features"),
        (body(name=["x"]), "/inputs/0/name", "it takes features"),
        (body(datatype="FP64"), "/inputs/0/datatype", "features is FP32"),
        (body(shape=[10]), "/inputs/0/shape", "has 2 axes: [batch, 10]"),
        (body(shape=[1, 9]), "/inputs/0/shape/1", "9 does not fit [batch, 10]"),
        (body(shape=[0, 10]), "/inputs/0/shape/0", "0 does not fit"),
        (body(shape=[10**30, 10]), "/inputs/0/shape/0", "does not fit"),
        (body(shape=[True, 10]), "/inputs/0/shape", "whole numbers"),
        (body(shape="1,10"), "/inputs/0/shape", "whole numbers"),
        (body(shape=[2, 10]), "/inputs/0/data", "10 values, but the shape [2, 10] holds 20"),
        (body(data=1.0), "/inputs/0/data", "as a list"),
        (body(data=[1.0] * 9 + ["1"]), "/inputs/0/data/9", "is no number"),
        (body(data=[1.0] * 9 + [True]), "/inputs/0/data/9", "is no number"),
        (body(data=[1.0] * 9 + [None]), "/inputs/0/data/9", "is no number"),
        (body(data=[1e39] + [1.0] * 9), "/inputs/0/data/0", "too large for FP32"),
        (body(data=[10**400] + [1.0] * 9), "/inputs/0/data/0", "too large for FP32"),
        (body(weights=[1]), "/inputs/0/weights", "no such member"),
    ],
)
def test_each_fault_is_pointed_at(document: Any, pointer: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_request(document, [FEATURES])
    assert caught.value.code == "request_does_not_fit"
    assert "features FP32 [batch, 10]" in caught.value.hint
    found = {fault.pointer: fault.detail for fault in caught.value.errors}
    assert words in found[pointer], found


def test_a_number_with_more_digits_than_any_float_is_a_fault_of_the_request() -> None:
    wide = Declared("x", "FP64", (-1,), ("batch",))
    tensor = {"name": "x", "datatype": "FP64", "shape": [1], "data": [10**400]}
    with pytest.raises(Invalid) as caught:
        check_request({"inputs": [tensor]}, [wide])
    assert "too large for FP64" in caught.value.errors[0].detail
    [taken] = check_request({"inputs": [tensor | {"data": [1.7e308]}]}, [wide])
    assert taken.data == (1.7e308,)


def test_a_second_input_that_is_missing_or_given_twice_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        check_request(body(), [FEATURES, NAMES])
    assert [fault.detail for fault in caught.value.errors] == ["The input names is missing."]
    with pytest.raises(Invalid) as caught:
        check_request({"inputs": body()["inputs"] * 2}, [FEATURES])
    assert "given twice" in caught.value.errors[0].detail


def test_what_fits_is_taken_in_the_declared_order() -> None:
    nested = {"inputs": [
        {"name": "names", "datatype": "BYTES", "shape": [2], "data": ["ä", ""]},
        body(shape=[2, 10], data=[["NaN", *range(9)], ["-Infinity", *range(9)]])["inputs"][0],
    ]}  # fmt: skip
    features, names = check_request(nested, [FEATURES, NAMES])
    assert np.isnan(features.data[0])
    assert features.data[10] == -np.inf
    assert names.data == ("ä", "")
    whole = Declared("n", "INT8", (1,))
    for value, fits in ((-128, True), (128, False), (1.0, False), (True, False)):
        given = {"inputs": [{"name": "n", "datatype": "INT8", "shape": [1], "data": [value]}]}
        if fits:
            assert check_request(given, [whole])[0].data == (value,)
        else:
            with pytest.raises(Invalid):
                check_request(given, [whole])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1, column 2"),
        ('{"inputs": NaN}', 'write it as the text "NaN"'),
        ("[1]", "has to be an object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "\\ud800"}', "surrogate"),
        ("1" * 5_000, "object|limit|Exceeds"),
    ],
)
def test_what_is_no_json_is_said(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        read_request(text)
    assert caught.value.code == "bad_json"


def test_more_than_a_mebibyte_is_refused() -> None:
    with pytest.raises(TooLarge) as caught:
        read_request('{"inputs": [' + " " * trial_requests.MAX_BYTES)
    assert caught.value.code == "request_too_large"


def test_an_answer_is_compared_and_shortened() -> None:
    recorded = [{"name": "y", "datatype": "FP32", "shape": [2], "data": [1.0, "NaN"]}]
    near = [recorded[0] | {"data": [1.00001, "NaN"]}]
    far = [recorded[0] | {"data": [1.5, "NaN"]}]
    assert compared(recorded, near, atol=1e-4, rtol=0).within
    found = compared(recorded, far, atol=1e-4, rtol=0)
    assert (found.within, found.largest) == (False, 0.5)
    assert "y[0] is 1.5, 1 was recorded" in found.detail
    assert not compared(recorded, [], atol=1, rtol=1).within
    row = row_of({"name": "y", "datatype": "BYTES", "shape": [100], "data": ["x" * 500] * 100})
    assert (len(row.values), row.more) == (24, 76)
    assert len(row.values[0]) < 100


@pytest.fixture
def staged(fleet_rows: Fleet) -> ModelVersion:
    """A version that is ready in staging, as rows alone: nobody answers."""
    version = factories.make_version()
    ready_version(fleet_rows, version, fleet_rows.staging)
    return version


@pytest.mark.django_db
def test_who_may_try_and_where_it_is_not_ready(fleet_rows: Fleet) -> None:
    people = factories.people()
    version = factories.make_version()
    given = {"environment": "staging"}
    for user, status in ((people.vic, 403), (people.dana, 409), (people.sam, 409)):
        assert Caller(user).post(PATH, given).status_code == status
    answer = Caller(people.dana).post(PATH, given).json()
    assert answer["code"] == "version_not_ready"
    assert "Ask for its release to staging" in answer["hint"]
    ready_version(fleet_rows, version, fleet_rows.production)
    answer = Caller(people.dana).post(PATH, given).json()
    assert "It is ready in production" in answer["hint"]
    assert Caller(people.dana).post(PATH, {"environment": "nowhere"}).status_code == 404
    assert not AuditEntry.objects.filter(action="version.try").exists()


@pytest.mark.django_db
def test_a_stranger_to_the_model_may_not_try_it(staged: ModelVersion) -> None:
    other = factories.make_user("dora", "data_scientist")
    answer = Caller(other).post(PATH, {"environment": "staging"})
    assert answer.status_code == 403
    assert "fraud_detector" in answer.json()["detail"]


@pytest.mark.django_db
def test_faults_come_back_as_problems_before_anything_is_sent(staged: ModelVersion) -> None:
    dana = Caller(factories.people().dana)
    wrong = dana.post(PATH, {"environment": "staging", "request": body(shape=[1, 9])})
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["pointer"] == "/inputs/0/shape/1"
    huge = body(shape=[30_000, 10], data=[1.5] * 300_000)
    large = dana.post(PATH, {"environment": "staging", "request": huge})
    assert (large.status_code, large.json()["code"]) == (413, "request_too_large")
    nan = dana.send("POST", PATH, b'{"environment": "staging", "request": NaN}', "application/json")
    assert nan.status_code == 400
    assert not AuditEntry.objects.filter(action="version.try").exists()


@pytest.mark.django_db
def test_a_node_that_is_gone_is_said_and_recorded_without_values(staged: ModelVersion) -> None:
    secret = body(data=[0.123456789] * 10)
    answer = Caller(factories.people().dana).post(
        PATH, {"environment": "staging", "request": secret}
    )
    assert (answer.status_code, answer.json()["code"]) == (503, "infer_failed")
    assert "The node local in staging cannot be reached" in answer.json()["detail"]
    entry = AuditEntry.objects.get(action="version.try")
    assert entry.after["outcome"] == "infer_failed"
    assert entry.after["request_bytes"] == len(json.dumps(secret, separators=(",", ":")))
    assert len(entry.after["request_sha256"]) == 64
    assert "0.123456789" not in json.dumps(entry.after)
    Node.objects.update(state=NodeState.LOST)
    answer = Caller(factories.people().dana).post(PATH, {"environment": "staging"})
    assert answer.json()["code"] == "version_not_ready"


@pytest.mark.django_db
def test_the_panel_offers_shows_and_refuses_in_place(
    staged: ModelVersion, fleet_rows: Fleet
) -> None:
    people = factories.people()
    dana = Visitor(people.dana)
    shown = dana.get(PANEL, part=True)
    assert "staging (node local)" in shown
    assert '"name": "features"' in shown
    assert PANEL in shown.forms
    assert PANEL in dana.get("/models/fraud_detector/versions/1/").links
    assert "Only the model’s people" in Visitor(people.vic).get(PANEL, part=True)
    given = {"environment": "staging", "request": '{"inputs": ['}
    refused = dana.post(PANEL, given, part=True)
    assert refused.status == 422
    assert "line 1, column 13" in refused
    assert '{"inputs": [' in refused
    away = dana.post(PANEL, {"environment": "staging", "request": ""}, part=True)
    assert (away.status, "cannot be reached" in away) == (409, True)
    page = dana.post(PANEL, {"environment": "staging", "request": ""})
    assert (page.status, "cannot be reached" in page) == (503, True)
    assert "Try fraud_detector" in page
    assert "staging (node local)" in page
    assert Visitor(people.vic).post(PANEL, given).status in (403, 422)
    Placement.objects.update(state="unloaded")
    assert "Nobody could answer yet" in dana.get(PANEL, part=True)


Jobs = Callable[..., list[Job]]


def deploy(fleet: Fleet, version: ModelVersion, run_jobs: Jobs) -> ModelVersion:
    release = factories.make_release(version, fleet.staging)
    deploy_release(release_id=release.pk, actor=fleet.sam)
    for job in run_jobs():
        assert job.state == JobState.SUCCEEDED, job.error_message
    return version


def test_a_real_gateway_lets_the_version_answer(
    live_fleet: Fleet, control: stack.RunningEnvoy, run_jobs: Jobs
) -> None:
    version = deploy(live_fleet, factories.make_version(), run_jobs)
    dana = factories.actor(factories.people().dana)
    trial = try_version(version=version, environment=live_fleet.staging, actor=dana)
    assert (trial.who, trial.model_version) == ("gateway embedded", "1")
    assert trial.comparison is not None
    assert trial.comparison.within
    assert trial.outputs[0]["shape"] == [1, 1]
    assert 0 < trial.duration_ms < 10_000
    two = body(shape=[2, 10], data=[0.0] * 20)
    trial = try_version(version=version, environment=live_fleet.staging, actor=dana, request=two)
    assert trial.comparison is None
    assert trial.outputs[0]["shape"] == [2, 1]
    entry = AuditEntry.objects.filter(action="version.try").order_by("-sequence")[0]
    assert (entry.after["outcome"], entry.after["by"]) == ("answered", "gateway embedded")
    nan = body(data=["NaN"] * 10)
    trial = try_version(version=version, environment=live_fleet.staging, actor=dana, request=nan)
    assert trial.outputs[0]["data"] == ["NaN"]
    # The panel, with the answer of the recorded sample and of another one.
    visitor = Visitor(factories.people().dana)
    shown = visitor.post(PANEL, {"environment": "staging", "request": ""}, part=True)
    assert shown.status == 200
    assert "It answers as it was recorded" in shown
    assert "risk_score" in shown
    shown = visitor.post(PANEL, {"environment": "staging", "request": json.dumps(two)})
    assert "It answers as it was recorded" not in shown
    assert "gateway embedded in staging" in shown
    # Out of the mode “normal” the node itself is asked.
    name = version.model.name
    set_mode(environment="staging", model=name, mode="open", reason="Off.", actor=live_fleet.sam)
    trial = try_version(version=version, environment=live_fleet.staging, actor=dana)
    assert trial.who == "node local"
    assert trial.comparison is not None


def test_the_node_itself_answers_texts_and_halves(
    live_fleet: Fleet, run_jobs: Jobs, triton: stack.RunningTriton
) -> None:
    version = deploy(live_fleet, _odd_version(), run_jobs)
    sam = live_fleet.sam
    trial = try_version(version=version, environment=live_fleet.staging, actor=sam)
    assert trial.who == "node local"
    assert trial.comparison is not None
    assert trial.comparison.within, trial.comparison
    answers = {one["name"]: one for one in trial.outputs}
    assert answers["text_out"]["data"] == ["ä", "", "b"]
    assert answers["half_out"]["data"] == [0.5, -2.0]
    assert answers["half_out"]["datatype"] == "FP16"
    other = {"inputs": [
        {"name": "half", "datatype": "FP16", "shape": [3], "data": ["Infinity", 1, 2]},
        {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["x"]},
    ]}  # fmt: skip
    trial = try_version(version=version, environment=live_fleet.staging, actor=sam, request=other)
    assert {one["name"]: one["data"] for one in trial.outputs}["half_out"][0] == "Infinity"
    # The node does not have it any more, and nobody has noticed yet.
    with TritonClient(live_fleet.node.grpc_address, repository_key=triton.key) as client:
        client.unload(version.model.name)
    with pytest.raises(Unavailable, match="The node local in staging answered with status"):
        try_version(version=version, environment=live_fleet.staging, actor=sam)


def _odd_version() -> ModelVersion:
    """A version that gives back a text tensor and an FP16 tensor, neither batched."""
    model = factories.make_model(f"m_{uuid.uuid4().hex[:12]}")
    version = factories.make_version(model)
    kinds = {"text": TensorProto.STRING, "half": TensorProto.FLOAT16}
    ends = [
        [
            helper.make_tensor_value_info(name + tail, kind, [f"n_{name}"])
            for name, kind in kinds.items()
        ]
        for tail in ("", "_out")
    ]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds]
    graph = helper.make_graph(nodes, "odd", *ends)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(built, full_check=True)
    onnx = built.SerializeToString()

    def tensors(tail: str) -> tuple[tuning.Tensor, ...]:
        return (
            tuning.Tensor(f"text{tail}", "BYTES", ("n_text",)),
            tuning.Tensor(f"half{tail}", "FP16", ("n_half",)),
        )

    facts = tuning.TuningFacts(
        model=model.name, inputs=tensors(""), outputs=tensors("_out"), mean_latency_ms=0.5
    )
    values = {"text": ("BYTES", ["ä", "", "b"]), "half": ("FP16", [0.5, -2.0])}
    request, expected = (
        [
            {"name": name + tail, "datatype": kind, "shape": [len(data)], "data": data}
            for name, (kind, data) in values.items()
        ]
        for tail in ("", "_out")
    )
    sample = {"request": {"inputs": request}, "expected": {"outputs": expected}}
    version.inputs = [
        {"name": "text", "dtype": "BYTES", "shape": [-1], "dims": ["n_text"]},
        {"name": "half", "dtype": "FP16", "shape": [-1], "dims": ["n_half"]},
    ]
    version.facts = {**version.facts, "inputs": version.inputs, "batch_axis": None}
    version.onnx = factories.make_artifact(onnx)
    version.config = factories.make_artifact(
        triton_config.render(tuning.plan(facts)).encode(), "text/plain"
    )
    version.sample = factories.make_artifact(json.dumps(sample).encode(), "application/json")
    version.save()
    return version


@pytest.mark.django_db(transaction=True)
def test_the_command_line_says_what_to_do(signed_in: Run, tmp_path: Any) -> None:
    factories.make_environment("staging")
    factories.make_version()
    outcome = signed_in("try", "fraud_detector", "1")
    assert outcome.code == 1
    assert "Ask for its release to staging" in outcome.err
    file = tmp_path / "request.json"
    file.write_text("{")
    outcome = signed_in("try", "fraud_detector", "1", "--input", str(file))
    assert (outcome.code, "holds no JSON" in outcome.err) == (2, True)
