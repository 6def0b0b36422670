"""Terms, differences and proposals: what people read of a contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from models_registry.exporting.protocol import TensorSpec
from models_registry.rules.contract_diff import diff
from models_registry.rules.contract_document import from_json, load
from models_registry.rules.contract_proposal import (
    MeasuredLatency,
    latency_promise,
    propose,
    to_yaml,
    with_shares,
)
from models_registry.rules.contract_terms import (
    Term,
    Word,
    duration_text,
    number_text,
    render,
    terms,
)
from tests.models_registry.contract_samples import GONE, SAMPLE, body, changed


def test_the_terms_say_every_promise_in_order() -> None:
    said = [(term.key, render(term)) for term in terms(load(SAMPLE))]
    assert said == [
        ("latency", "99 % of requests are answered within 80 ms, measured over 28 days."),
        (
            "availability",
            "99.9 % of requests end without a fault of ours (no 5xx, no time-out), "
            "measured over 28 days.",
        ),
        ("load", "This holds up to 2000 requests per second."),
        ("input", "Callers send “features”: [batch, 10] of FP32, -10 … 10."),
        ("output", "They get “risk_score”: [batch, 1] of FP32, 0 … 1."),
        ("request", "Who gets no answer within 800 ms gets 504 instead."),
        (
            "error",
            "422 invalid_input: the caller's fault, not counted against us; "
            "trying again does not help.",
        ),
        (
            "error",
            "503 model_unavailable: our fault, counted against us; trying again makes sense.",
        ),
        ("fallback", "While the model is down, callers get: reason = model_down, risk_score = 0.3"),
        (
            "logging",
            "Each request is logged with x_request_id, model_version, status, duration_ms; "
            "logs are kept 30 days.",
        ),
        ("drift", "An alert is raised when feature drift is above 0.3."),
        (
            "drift",
            "An alert is raised when the entropy of the outputs is above 0.5 for 5 min.",
        ),
        ("explanation", "Answers carry no explanation."),
        (
            "validation",
            "A version is accepted when 100 seeded inputs give the source's outputs within "
            "0.00001 absolute and 0.0001 relative, and 95 % of inferences take at most 50 ms.",
        ),
        (
            "rollout",
            "A new version starts with 5 % of traffic and gets 5 % more every 15 min.",
        ),
        (
            "rollout",
            "It loses its traffic by itself when more than 1 % of requests fail or P99 is above "
            "80 ms, judged from 100 requests on.",
        ),
        ("approvals", "A release to production must be approved by: SRE."),
        ("approvals", "A release to staging needs no approval."),
    ]


def test_what_is_not_promised_is_said_too() -> None:
    document = from_json(
        changed(
            ("/objectives", [{"name": "availability", "target": 99, "window": "calendar_month"}]),
            ("/fallback/response", {"message": "later", "codes": [1, None, True]}),
            ("/explanation/method", "shap"),
            ("/interface/inputs/0/nan", "allow"),
            ("/interface/inputs/0/max", GONE),
            ("/interface/outputs/0/min", GONE),
            ("/interface/outputs/0/max", GONE),
            ("/load", GONE),
            ("/drift", GONE),
        )
    )
    said = [render(term) for term in terms(document)]
    assert "Nothing is promised about latency." in said
    assert any(text.endswith("measured over each calendar month.") for text in said)
    assert "While the model is down, callers get: codes = [1, null, true], message = later" in said
    assert any("callers of the v2 protocol get no tensors" in text for text in said)
    assert "NaN in “features” is let through." in said
    assert "Callers send “features”: [batch, 10] of FP32, ≥ -10." in said
    assert "They get “risk_score”: [batch, 1] of FP32." in said
    assert "Each answer can be explained (SHAP)." in said


def test_a_term_is_translated_whole_with_its_words() -> None:
    chinese = {"%(who)s signs.": "由%(who)s签署。", "SRE": "站点可靠性工程师", "owner": "负责人"}
    term = Term("x", "%(who)s signs.", {"who": (Word("SRE"), Word("owner"))})
    assert render(term, chinese.__getitem__) == "由站点可靠性工程师, 负责人签署。"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (80.0, "80"), (99.95, "99.95"), (1e-5, "0.00001"), (3.4e38, "3.4e+38"), (-5, "-5")],
)
def test_numbers_are_said_without_needless_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_durations_are_said_with_unit_symbols() -> None:
    assert [duration_text(s) for s in (30, 900, 5400, 7200)] == ["30 s", "15 min", "90 min", "2 h"]


DIFFERENCES: list[tuple[str, Any, str, str, str]] = [
    # place, value, effect, pointer, sentence
    ("/model", "fraud_scorer", "breaking", "/model", "Model: fraud_detector → fraud_scorer"),
    (
        "/objectives/0/threshold_ms",
        100,
        "weaker",
        "/objectives/0/threshold_ms",
        "P99 limit: 80 → 100 ms",
    ),
    ("/objectives/0/threshold_ms", 160, "weaker", "/objectives/0/threshold_ms", ""),
    ("/objectives/0/threshold_ms", 161, "breaking", "/objectives/0/threshold_ms", ""),
    ("/objectives/0/threshold_ms", 60, "stronger", "/objectives/0/threshold_ms", ""),
    ("/objectives/1/target", 99.8, "weaker", "/objectives/1/target", ""),
    ("/objectives/1/target", 99.5, "breaking", "/objectives/1/target", ""),
    (
        "/objectives/1/target",
        99.95,
        "stronger",
        "/objectives/1/target",
        "Share of requests without a fault of ours: 99.9 → 99.95 %",
    ),
    (
        "/objectives/1/window",
        "calendar_month",
        "neutral",
        "/objectives/1/window",
        "“availability”, measured over: 28 d → calendar month",
    ),
    (
        "/objectives/1",
        GONE,
        "breaking",
        "/objectives/1",
        "Availability promise is dropped: 99.9 % (28d)",
    ),
    ("/load", GONE, "stronger", "/load/qps", ""),
    ("/load/qps", 1000, "weaker", "/load/qps", ""),
    ("/load/qps", 999, "breaking", "/load/qps", ""),
    (
        "/interface/inputs/0/dtype",
        "FP64",
        "breaking",
        "/interface/inputs/0/dtype",
        "“features”, data type: FP32 → FP64",
    ),
    ("/interface/inputs/0/dims", ["batch", 11], "breaking", "/interface/inputs/0/dims", ""),
    ("/interface/inputs/0/dims", ["batch", "width"], "stronger", "/interface/inputs/0/dims", ""),
    ("/interface/inputs/0/dims", ["batch"], "breaking", "/interface/inputs/0/dims", ""),
    ("/interface/outputs/0/dims", ["batch", "n"], "breaking", "/interface/outputs/0/dims", ""),
    (
        "/interface/inputs/0/min",
        -5,
        "breaking",
        "/interface/inputs/0/min",
        "“features”, smallest value: -10 → -5",
    ),
    ("/interface/inputs/0/min", -50, "stronger", "/interface/inputs/0/min", ""),
    (
        "/interface/inputs/0/max",
        GONE,
        "stronger",
        "/interface/inputs/0/max",
        "“features”, largest value: 10 → no limit",
    ),
    (
        "/interface/inputs/0/nan",
        "allow",
        "stronger",
        "/interface/inputs/0/nan",
        "“features”, NaN: refused → allowed",
    ),
    ("/interface/outputs/0/max", 2, "weaker", "/interface/outputs/0/max", ""),
    ("/interface/outputs/0/min", 0.1, "stronger", "/interface/outputs/0/min", ""),
    (
        "/interface/inputs/-",
        {"name": "age", "dtype": "INT32", "dims": ["batch"]},
        "breaking",
        "/interface/inputs/1",
        "Input “age” is new: INT32 [batch]",
    ),
    ("/errors/1", GONE, "breaking", "/errors/1", ""),
    (
        "/errors/0/code",
        "bad_input",
        "breaking",
        "/errors/0/code",
        "“422”, code: invalid_input → bad_input",
    ),
    (
        "/errors/-",
        {"status": 429, "code": "slow_down", "retry": True, "counts_against": "none"},
        "weaker",
        "/errors/2",
        "Error answer “429 slow_down” is new: none",
    ),
    (
        "/errors/1/retry",
        False,
        "breaking",
        "/errors/1/retry",
        "“503 model_unavailable”, trying again helps: yes → no",
    ),
    ("/errors/1/counts_against", "none", "breaking", "/errors/1/counts_against", ""),
    ("/errors/0/counts_against", "provider", "breaking", "/errors/0/counts_against", ""),
    (
        "/fallback/response/risk_score",
        0.5,
        "neutral",
        "/fallback/response/risk_score",
        "“risk_score”, fallback value: 0.3 → 0.5",
    ),
    ("/fallback/response/reason", 1, "breaking", "/fallback/response/reason", ""),
    ("/fallback/response/reason", GONE, "breaking", "/fallback/response/reason", ""),
    ("/fallback/response/more", 1, "neutral", "/fallback/response/more", ""),
    ("/logging/required/0", GONE, "weaker", "/logging/required", ""),
    ("/logging/required/-", "user", "stronger", "/logging/required", "Logged field is new: user"),
    ("/logging/retention_days", 7, "weaker", "/logging/retention_days", ""),
    ("/drift/feature_drift_score", 0.5, "weaker", "/drift/feature_drift_score", ""),
    ("/explanation/method", "shap", "stronger", "/explanation/method", ""),
    ("/validation/samples", 50, "weaker", "/validation/samples", ""),
    ("/validation/atol", 1e-6, "stronger", "/validation/atol", ""),
    ("/validation/seed", 1, "neutral", "/validation/seed", ""),
    ("/rollout/start", 10, "weaker", "/rollout/start", ""),
    (
        "/rollout/every",
        "5m",
        "weaker",
        "/rollout/every",
        "Time between steps: 15 min → 5 min",
    ),
    ("/rollout/analysis/max_error_rate", 0.5, "stronger", "/rollout/analysis/max_error_rate", ""),
    (
        "/approvals/production",
        ["sre", "business_owner"],
        "stronger",
        "/approvals/production",
        "Approval of a release to “production” is new: business owner",
    ),
    (
        "/approvals/production",
        [],
        "weaker",
        "/approvals/production",
        "Approval of a release to “production” is dropped: SRE",
    ),
    ("/valid_until", "2027-01-31", "breaking", "/valid_until", "Last day is new: 2027-01-31"),
]


@pytest.mark.parametrize(("place", "value", "effect", "pointer", "sentence"), DIFFERENCES)
def test_a_difference_has_its_effect_on_callers(
    place: str, value: Any, effect: str, pointer: str, sentence: str
) -> None:
    changes = diff(load(SAMPLE), from_json(changed((place, value))))
    assert [(change.pointer, change.effect) for change in changes] == [(pointer, effect)]
    if sentence:
        assert changes[0].sentence == sentence


def test_a_renamed_output_is_one_lost_and_one_gained() -> None:
    after = from_json(
        changed(
            ("/interface/outputs/0/name", "score"),
            ("/fallback/response", {"score": 0.3, "reason": "model_down"}),
        )
    )
    found = {(c.kind, c.pointer): c.effect for c in diff(load(SAMPLE), after)}
    assert found == {
        ("removed", "/interface/outputs/0"): "breaking",
        ("added", "/interface/outputs/0"): "neutral",
        ("removed", "/fallback/response/risk_score"): "breaking",
        ("added", "/fallback/response/score"): "neutral",
    }


def test_order_and_renamed_sizes_do_not_matter_to_callers() -> None:
    document = body()
    document["errors"].reverse()
    document["objectives"].reverse()
    assert diff(load(SAMPLE), from_json(document)) == ()
    sizes = changed(
        ("/interface/inputs/0/dims/1", "width"), ("/interface/outputs/0/dims/1", "width")
    )
    renamed = changed(
        ("/interface/inputs/0/dims/1", "columns"), ("/interface/outputs/0/dims/1", "columns")
    )
    effects = {change.effect for change in diff(from_json(sizes), from_json(renamed))}
    assert effects == {"neutral"}


FEATURES = TensorSpec("features", "FP32", (-1, 10), ("batch", ""), -10, 10)
RISK = TensorSpec("risk_score", "FP32", (-1, 1), ("batch", ""), 0, 1)


def test_a_proposal_for_the_seed_case_is_the_documented_contract_but_for_what_people_decide() -> (
    None
):
    proposed = propose(model="fraud_detector", inputs=[FEATURES], outputs=[RISK])
    assert list(proposed)[:3] == ["apiVersion", "kind", "model"]
    assert load(to_yaml(proposed)) == from_json(proposed)
    expected = changed(("/load", GONE), ("/fallback/response/risk_score", 0))
    assert proposed == expected


@pytest.mark.parametrize(
    ("p95", "budget", "threshold"),
    [(1.0, 50, 80), (16.0, 50, 80), (20.0, 60, 96), (61.4, 190, 310), (1234.0, 3800, 6100)],
)
def test_the_promise_leaves_three_times_the_measured_p95(
    p95: float, budget: float, threshold: float
) -> None:
    measured = MeasuredLatency(mean_ms=p95 / 2, p95_ms=p95, p99_ms=p95 * 1.2)
    assert latency_promise(measured) == (budget, threshold)
    proposed = propose(model="m1", inputs=[FEATURES], outputs=[RISK], measured=measured)
    document = from_json(proposed)
    assert document.latency is not None
    assert document.latency.threshold_ms == threshold
    assert document.validation.p95_ms == budget
    assert document.rollout.analysis.max_p99_ms == threshold


def test_a_next_proposal_keeps_what_was_promised() -> None:
    previous = from_json(changed(("/objectives/0/threshold_ms", 200)))
    wider = TensorSpec("features", "FP32", (-1, 12), ("batch", ""), -10, 10)
    proposed = propose(model="fraud_detector", inputs=[wider], outputs=[RISK], previous=previous)
    expected = changed(
        ("/objectives/0/threshold_ms", 200), ("/interface/inputs/0/dims", ["batch", 12])
    )
    assert proposed == expected


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (  # a scalar beside a batch in the second place, a text and a flag out
            [
                TensorSpec("sr", "INT64"),
                TensorSpec("state", "FP32", (2, -1, 128), ("", "batch", "")),
            ],
            [
                TensorSpec("label", "BYTES", (-1,), ("batch",)),
                TensorSpec("flag", "BOOL", (-1,), ("batch",)),
            ],
        ),
        (  # no batch in, something that varies out
            [TensorSpec("image:0", "UINT8", (3, 64, 64), ("", "", ""), 0, 255)],
            [TensorSpec("boxes", "FP32", (-1, 4), ("", ""), 5, 9)],
        ),
        (  # names that are not ours, one name for two axes, a range that is none
            [TensorSpec("x", "INT64", (-1, -1, 8), ("N", "N", "Höhe"), 0.5, 2)],
            [TensorSpec("reason", "FP64", (-1,), ("n",), 3, 3)],
        ),
    ],
)
def test_a_proposal_for_any_model_passes_every_check(
    inputs: list[TensorSpec], outputs: list[TensorSpec]
) -> None:
    document = load(to_yaml(propose(model="any_model", inputs=inputs, outputs=outputs)))
    assert set(document.fallback_outputs) == {spec.name for spec in outputs}


SHARES = TensorSpec("shares", "FP32", (-1, 4), ("batch", ""))
SEEN = {"min": 0.01, "max": 0.97, "sums": [0.9999999, 1.0000001]}


@pytest.mark.parametrize(
    ("spec", "answers", "expected"),
    [
        (SHARES, SEEN, (0.0, 1.0, 1.0)),
        (replace(SHARES, maximum=0.99), SEEN, (0.0, 0.99, 1.0)),
        (SHARES, {**SEEN, "max": 1.0000001}, (0.0, None, 1.0)),
        (SHARES, {**SEEN, "min": -0.1}, (None, None, None)),
        (SHARES, {**SEEN, "sums": [0.5, 1.0]}, (None, None, None)),
        (SHARES, {**SEEN, "sums": None}, (None, None, None)),
        (SHARES, {**SEEN, "max": "NaN"}, (None, None, None)),
        (SHARES, {}, (None, None, None)),
        (replace(SHARES, dtype="INT64"), SEEN, (None, None, None)),
    ],
)
def test_what_adds_up_to_one_is_proposed_as_shares(
    spec: TensorSpec, answers: dict[str, object], expected: tuple[float | None, ...]
) -> None:
    found = with_shares(spec, answers)
    assert (found.minimum, found.maximum, found.sums_to) == expected


def test_the_fallback_of_shares_adds_up_too() -> None:
    spec = replace(SHARES, minimum=0.0, maximum=1.0, sums_to=1.0)
    body = propose(
        model="classifier", inputs=[TensorSpec("x", "FP32", (-1, 2), ("batch", ""))], outputs=[spec]
    )
    assert body["interface"]["outputs"][0]["sums_to"] == 1.0
    assert body["fallback"]["response"]["shares"] == 0.25
    assert from_json(body).interface.outputs[0].sums_to == 1
