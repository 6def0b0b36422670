"""Reading the service contract: what is typed, what is signed, and every refusal with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from console.errors import Invalid
from console.rules.canonical import digest
from models_registry.rules.contract_diff import diff
from models_registry.rules.contract_document import (
    AvailabilityObjective,
    ErrorMeaning,
    LatencyObjective,
    Tensor,
    from_json,
    load,
    schema,
    to_json,
    window_days,
)
from models_registry.rules.contract_terms import render, terms
from tests.models_registry.contract_samples import GONE, SAMPLE, body, changed


def test_the_documented_contract_is_read_into_types() -> None:
    document = load(SAMPLE)
    assert document.model == "fraud_detector"
    features, risk = document.interface.inputs[0], document.interface.outputs[0]
    assert features == Tensor("features", "FP32", ("batch", 10), -10, 10, "refuse")
    assert risk == Tensor("risk_score", "FP32", ("batch", 1), 0, 1)
    assert document.latency == LatencyObjective(80, 99, "28d")
    assert document.availability == AvailabilityObjective(99.9, "28d")
    assert document.errors[0] == ErrorMeaning(422, "invalid_input", False, "caller")
    assert document.unavailable_code == "model_unavailable"
    assert document.fallback.response == {"risk_score": 0.3, "reason": "model_down"}
    assert document.fallback_outputs == {"risk_score": 0.3}
    assert document.logging.required[0] == "x_request_id"
    assert document.drift is not None
    assert document.drift.entropy_for_seconds == 300
    assert (document.validation.atol, document.validation.rtol) == (1e-5, 1e-4)
    assert document.rollout.every_seconds == 900
    assert document.approvals == {"staging": (), "production": ("sre",)}


def test_yaml_and_json_of_one_contract_sign_the_same_bytes() -> None:
    from_yaml = load(SAMPLE, "yaml")
    spelled = json.dumps(dict(reversed(body().items())), indent=4)
    for source in (spelled, spelled.encode(), b"\n " + spelled.encode()):
        assert load(source) == from_yaml
    assert load(from_yaml.canonical, "json") == from_yaml
    assert from_yaml.digest == digest(from_yaml.canonical)


def test_nothing_is_added_to_what_was_submitted() -> None:
    left_out = ("load", "drift", "explanation", "validation", "rollout", "approvals")
    short = changed(*((f"/{name}", GONE) for name in left_out), ("/fallback/rules", GONE))
    document = from_json(short)
    assert to_json(document) == short
    assert json.loads(document.canonical) == short
    assert document.load_qps is None
    assert document.drift is None
    assert document.explanation_method == "none"
    assert (document.validation.samples, document.validation.p95_ms) == (100, 50)
    assert (document.rollout.start, document.rollout.every_seconds) == (5, 900)
    assert document.approvals == {}


def test_a_rollout_without_a_limit_is_judged_by_the_latency_promise() -> None:
    document = from_json(
        changed(("/objectives/0/threshold_ms", 200), ("/rollout/analysis/max_p99_ms", GONE))
    )
    assert document.rollout.analysis.max_p99_ms == 200


def test_the_schema_is_a_valid_schema_that_accepts_the_sample() -> None:
    Draft202012Validator.check_schema(schema())
    Draft202012Validator(schema()).validate(body())


def test_the_documentation_shows_this_schema_and_a_contract_that_loads() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs" / "contract.md").read_text()
    file = root / "models_registry" / "rules" / "contract_schema.json"
    assert f"```json\n{file.read_text()}```" in text
    example = text.split("```yaml\n")[1].split("```")[0]
    assert load(example) == load(SAMPLE)


def test_the_schema_knows_no_object_that_takes_unknown_fields() -> None:
    def closed(part: Any, path: str) -> list[str]:
        open_objects: list[str] = []
        if isinstance(part, dict):
            describes = part.get("type") == "object" and path != "/properties/fallback/response"
            if describes and "additionalProperties" not in part and "allOf" not in part:
                open_objects.append(path)
            for name, item in part.items():
                open_objects += closed(item, f"{path}/{name}")
        return open_objects

    # Answers and rows have the names that the model gives to its tensors.
    own = ("/response", "/examples/items/properties/inputs")
    found = [path for path in closed(schema(), "") if not path.endswith(own)]
    assert found == []


REFUSALS: list[tuple[str, Any, str, str]] = [
    # place, value, pointer of the fault, words
    ("/surprise", 1, "/surprise", "not a known field"),
    ("/fallbak", {}, "/fallbak", "did you mean fallback?"),
    ("/apiVersion", "covenant/v2", "/apiVersion", "covenant/v1 is expected"),
    ("/kind", "Contract", "/kind", "ServiceContract is expected"),
    ("/model", "Fraud", "/model", "lower_snake_case"),
    ("/model", "fraud\n", "/model", "lower_snake_case"),
    ("/model", "a" * 64, "/model", "longer than 63"),
    ("/model", None, "/model", "a text is expected"),
    ("/objectives", GONE, "/objectives", "is missing"),
    ("/objectives", [], "/objectives", "too few"),
    ("/errors", GONE, "/errors", "is missing"),
    ("/interface/inputs", [], "/interface/inputs", "too few"),
    ("/interface/inputs/0/surprise", 1, "/interface/inputs/0/surprise", "not a known field"),
    ("/interface/inputs/0/name", "", "/interface/inputs/0/name", "is empty"),
    ("/interface/inputs/0/name", "a\x00", "/interface/inputs/0/name", "control characters"),
    ("/interface/inputs/0/dtype", "float32", "/interface/inputs/0/dtype", "FP32"),
    ("/interface/inputs/0/dims", ["batch", -1], "/interface/inputs/0/dims/1", "whole number"),
    ("/interface/inputs/0/dims", ["batch", 0], "/interface/inputs/0/dims/1", "whole number"),
    ("/interface/inputs/0/dims", ["N"], "/interface/inputs/0/dims/0", "lower_snake_case"),
    ("/interface/inputs/0/dims", [True], "/interface/inputs/0/dims/0", "whole number"),
    ("/interface/inputs/0/dims", ["batch", "batch"], "/interface/inputs/0/dims", "more than once"),
    ("/interface/inputs/0/dims", [10], "/interface/outputs/0/dims", "no input has one"),
    ("/interface/inputs/0/min", 10, "/interface/inputs/0/min", "not below max"),
    ("/interface/inputs/0/min", "-10", "/interface/inputs/0/min", "a number is expected"),
    ("/interface/inputs/0/min", -1e39, "/interface/inputs/0/min", "beyond FP32"),
    ("/interface/inputs/0/nan", "yes", "/interface/inputs/0/nan", "refuse, allow"),
    ("/interface/inputs/0/dtype", "BYTES", "/interface/inputs/0/min", "no sense for BYTES"),
    ("/interface/inputs/0/dtype", "INT64", "/interface/inputs/0/nan", "no sense for INT64"),
    ("/interface/inputs/0/dtype", "UINT8", "/interface/inputs/0/min", "UINT8's range"),
    (
        "/interface/inputs/-",
        {"name": "features", "dtype": "FP32", "dims": ["batch"]},
        "/interface/inputs/1/name",
        "named twice",
    ),
    ("/objectives/0/target", 100, "/objectives/0/target", "less than 100"),
    ("/objectives/0/target", 49.9, "/objectives/0/target", "50 or more"),
    ("/objectives/0/threshold_ms", 0, "/objectives/0/threshold_ms", "more than 0"),
    ("/objectives/0/threshold_ms", GONE, "/objectives/0/threshold_ms", "is missing"),
    ("/objectives/0/window", "28", "/objectives/0/window", "28d"),
    ("/objectives/0/window", "0d", "/objectives/0/window", "28d"),
    ("/objectives/0/window", "28d\n", "/objectives/0/window", "28d"),
    ("/objectives/0/window", "367d", "/objectives/0/window", "at most 366d"),
    ("/objectives/1/threshold_ms", 80, "/objectives/1/threshold_ms", "not a known field"),
    ("/objectives/1/name", "throughput", "/objectives/1/name", "latency, availability"),
    (
        "/objectives/1",
        {"name": "latency", "threshold_ms": 9, "target": 90, "window": "7d"},
        "/objectives/1/name",
        "promised twice",
    ),
    ("/load/qps", 0, "/load/qps", "more than 0"),
    ("/errors/0/status", 200, "/errors/0/status", "400 or more"),
    ("/errors/0/status", 600, "/errors/0/status", "599 or less"),
    ("/errors/0/status", 422.5, "/errors/0/status", "a whole number is expected"),
    ("/errors/0/retry", "no", "/errors/0/retry", "true or false is expected"),
    ("/errors/0/counts_against", "us", "/errors/0/counts_against", "caller, provider, none"),
    ("/errors/1/counts_against", "caller", "/errors/1/counts_against", "never the caller's"),
    (
        "/errors/1",
        {"status": 422, "code": "invalid_input", "retry": True, "counts_against": "none"},
        "/errors/1",
        "listed twice",
    ),
    ("/fallback/response", {}, "/fallback/response", "is empty"),
    ("/fallback/response", [], "/fallback/response", "an object is expected"),
    ("/fallback/rules", [{"if": 1}], "/fallback/rules/0/when", "is missing"),
    ("/fallback/response/risk_score", 1.5, "/fallback/response/risk_score", "above the output's"),
    ("/fallback/response/risk_score", "low", "/fallback/response/risk_score", "not a number"),
    ("/fallback/response/risk_score", True, "/fallback/response/risk_score", "not a number"),
    (
        "/fallback/response/risk_score",
        [0.1, 0.2],
        "/fallback/response/risk_score",
        "1 are expected",
    ),
    ("/fallback/response/risk_score", [[0.1]], "/fallback/response/risk_score/0", "deeper"),
    ("/fallback/response/reason", "a\x00b", "/fallback/response/reason", "U+0000"),
    ("/logging/required", [], "/logging/required", "too few"),
    ("/logging/required", ["a", "a"], "/logging/required", "twice"),
    ("/logging/retention_days", 0, "/logging/retention_days", "1 or more"),
    ("/drift/feature_drift_score", 1.5, "/drift/feature_drift_score", "1 or less"),
    ("/drift/model_output_entropy/for", "5 min", "/drift/model_output_entropy/for", "15m"),
    ("/explanation/method", "lime", "/explanation/method", "none, shap"),
    ("/validation/samples", 0, "/validation/samples", "1 or more"),
    ("/validation/atol", -1, "/validation/atol", "0 or more"),
    ("/validation/p95_ms", 0, "/validation/p95_ms", "more than 0"),
    ("/rollout/start", 101, "/rollout/start", "100 or less"),
    ("/rollout/step", 0.001, "/rollout/step", "0.01 percent"),
    ("/rollout/every", "15", "/rollout/every", "15m"),
    ("/rollout/analysis/max_error_rate", 101, "/rollout/analysis/max_error_rate", "100 or less"),
    ("/rollout/analysis/max_cpu", 1, "/rollout/analysis/max_cpu", "not a known field"),
    ("/approvals/production", ["boss"], "/approvals/production/0", "data_scientist, sre"),
    ("/approvals/production", ["sre", "sre"], "/approvals/production", "twice"),
    ("/approvals/Prod uction", [], "/approvals/Prod uction", "lower case"),
]


@pytest.mark.parametrize(("place", "value", "pointer", "words"), REFUSALS)
def test_a_wrong_contract_is_refused_with_the_place(
    place: str, value: Any, pointer: str, words: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        from_json(changed((place, value)))
    assert refusal.value.code == "invalid_contract"
    details = {error.pointer: error.detail for error in refusal.value.errors}
    assert words in details[pointer], details
    assert refusal.value.hint


def test_every_fault_of_a_document_is_named_at_once() -> None:
    with pytest.raises(Invalid, match="and 2 more") as refusal:
        from_json(changed(("/model", 5), ("/objectives/0/target", 100), ("/errors/0/retry", None)))
    pointers = [error.pointer for error in refusal.value.errors]
    assert pointers == ["/errors/0/retry", "/model", "/objectives/0/target"]


@pytest.mark.parametrize("value", [None, [], "text", 5, {}])
def test_what_is_no_contract_at_all_is_refused(value: object) -> None:
    with pytest.raises(Invalid) as refusal:
        from_json(value)
    assert refusal.value.code == "invalid_contract"


def test_a_document_that_is_too_large_is_refused_before_it_is_read() -> None:
    for source in ("# " + "x" * 300_000 + "\n" + SAMPLE, b"{" + b" " * 300_000 + b"}"):
        with pytest.raises(Invalid, match="larger than"):
            load(source)


def test_a_fallback_names_every_output_or_none() -> None:
    second = {"name": "reason_code", "dtype": "INT32", "dims": ["batch"], "min": 0}
    with pytest.raises(Invalid, match="reason_code"):
        from_json(changed(("/interface/outputs/-", second)))
    both = from_json(
        changed(
            ("/interface/outputs/-", second),
            ("/fallback/response", {"risk_score": [0.25], "reason_code": 3}),
        )
    )
    assert both.fallback_outputs == {"risk_score": [0.25], "reason_code": 3}
    plain = from_json(changed(("/fallback/response", {"message": "try later"})))
    assert plain.fallback_outputs == {}


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("INT32", 3, 3.5),
        ("UINT8", 255, 256),
        ("BOOL", False, 0),
        ("BYTES", "low", 1),
        ("FP16", 65504, 65505),
    ],
)
def test_a_fallback_value_is_a_value_of_its_output(dtype: str, good: object, bad: object) -> None:
    output = {"name": "risk_score", "dtype": dtype, "dims": ["batch", "count"]}
    tensor = ("/interface/outputs/0", output)
    response = "/fallback/response/risk_score"
    assert from_json(changed(tensor, (response, [good, good]))).fallback_outputs
    with pytest.raises(Invalid) as refusal:
        from_json(changed(tensor, (response, [good, bad])))
    assert refusal.value.errors[0].pointer == f"{response}/1"


def test_windows() -> None:
    assert window_days("28d") == 28
    assert window_days("calendar_month") is None
    document = from_json(changed(("/objectives/0/window", "calendar_month")))
    assert document.latency is not None
    assert document.latency.window == "calendar_month"


def test_tensor_names_of_real_models_are_taken_as_they_are() -> None:
    name = "serving default/input:0"
    document = from_json(changed(("/interface/inputs/0/name", name)))
    assert document.interface.inputs[0].name == name


SHARES = (
    "/interface/outputs/-",
    {"name": "shares", "dtype": "FP32", "dims": ["batch", 4], "sums_to": 1},
)
PLAIN = ("/fallback/response", {"message": "try later"})


def test_shares_that_add_up_and_tolerances_of_optimised_versions_are_terms_of_their_own() -> None:
    int8 = {"int8": {"atol": 0.1, "rtol": 0.02}}
    document = from_json(changed(SHARES, PLAIN, ("/validation/derived", int8)))
    assert document.interface.outputs[1].sums_to == 1
    assert (document.validation.derived["int8"].atol, document.validation.derived["int8"].rtol) == (
        0.1,
        0.02,
    )
    words = [render(term) for term in terms(document)]
    assert "The values of “shares” along its last axis add up to 1." in words
    assert any("as int8 is accepted within 0.1 of the output's largest value" in w for w in words)
    looser = {"int8": {"atol": 0.2, "rtol": 0.02}, "fp16": {"atol": 0.1, "rtol": 0.1}}
    changes = diff(document, from_json(changed(PLAIN, ("/validation/derived", looser))))
    assert {(c.pointer, c.effect) for c in changes} == {
        ("/interface/outputs/1", "breaking"),
        ("/validation/derived/fp16/atol", "weaker"),
        ("/validation/derived/fp16/rtol", "weaker"),
        ("/validation/derived/int8/atol", "weaker"),
    }
    unsummed = {**SHARES[1]}
    del unsummed["sums_to"]
    (weaker,) = diff(
        from_json(changed(SHARES, PLAIN)), from_json(changed((SHARES[0], unsummed), PLAIN))
    )
    assert (weaker.effect, weaker.sentence) == (
        "weaker",
        "“shares”, sum along the last axis: 1 → not promised",
    )


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (("/interface/inputs/0/sums_to", 1), "/interface/inputs/0/sums_to"),
        (("/interface/outputs/0/sums_to", 0), "/interface/outputs/0/sums_to"),
        (
            (
                "/interface/outputs/0",
                {"name": "risk_score", "dtype": "INT32", "dims": ["batch", 2], "sums_to": 1},
            ),
            "/interface/outputs/0/sums_to",
        ),
        (
            (
                "/interface/outputs/0",
                {"name": "risk_score", "dtype": "FP32", "dims": ["batch"], "sums_to": 1},
            ),
            "/interface/outputs/0/sums_to",
        ),
        (("/validation/derived", {"int4": {"atol": 0, "rtol": 0}}), "/validation/derived/int4"),
        (("/validation/derived", {"fp16": {"atol": 0}}), "/validation/derived/fp16/rtol"),
    ],
)
def test_a_sum_or_a_tolerance_that_makes_no_sense_is_refused(
    change: tuple[str, object], pointer: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        from_json(changed(PLAIN, change))
    assert pointer in [fault.pointer for fault in refusal.value.errors]
