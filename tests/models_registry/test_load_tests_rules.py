from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime, timedelta

import pytest

from console.errors import Conflict, Invalid
from models_registry.rules import load_measurements as measured
from models_registry.rules.load_measurements import Answer, Tally
from models_registry.rules.load_payloads import payloads
from models_registry.rules.load_tests import (
    PATTERNS,
    GateRun,
    Limits,
    check_request,
    gate,
    limits_for,
    profile,
)

MS = 1000
LIMITS = Limits(50.0, 100.0)
SAMPLE = {
    "request": {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]},
            {"name": "s", "datatype": "BYTES", "shape": [2, 1], "data": ["a", "b"]},
        ]
    },
    "expected": {},
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_profile_ever_leaves_its_bounds(pattern: str) -> None:
    source = random.Random(7)
    for _ in range(400):
        rate, seconds = source.randint(1, 500), source.randint(5, 300)
        rates = profile(pattern, rate, seconds)
        assert len(rates) == seconds
        assert all(isinstance(one, int) and 1 <= one <= rate for one in rates)
        assert max(rates) == rate, "the peak that was asked for is reached"
        if pattern == "step":
            assert rates == sorted(rates), "a staircase never goes down"
            assert len(set(rates)) <= 5


def test_the_patterns_differ_as_their_names_say() -> None:
    assert profile("step", 100, 10) == [20, 20, 40, 40, 60, 60, 80, 80, 100, 100]
    assert profile("pulse", 100, 10) == [25, 25, 25, 25, 25, 25, 100, 100, 25, 25]
    assert profile("mixed", 100, 10) == [60, 60, 60, 60, 100, 60, 60, 60, 60, 100]


@pytest.mark.parametrize(
    ("pattern", "rate", "seconds", "places"),
    [
        ("step", 501, 10, ["/rate"]),
        ("step", 0, 10, ["/rate"]),
        ("step", -3, 4, ["/rate", "/seconds"]),
        ("step", 100, 301, ["/seconds"]),
        ("flood", 100, 10, ["/pattern"]),
        ("step", 5, 5, ["/rate"]),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_field(
    pattern: str, rate: int, seconds: int, places: list[str]
) -> None:
    with pytest.raises(Invalid) as refused:
        check_request(pattern, rate, seconds, max_rate=500)
    assert refused.value.code == "bad_load_test"
    assert [fault.pointer for fault in refused.value.errors] == places


def test_the_strictest_gate_is_what_is_measured_against() -> None:
    assert limits_for(LIMITS, []) == LIMITS
    assert limits_for(LIMITS, [Limits(80, 99), Limits(20, 95)]) == Limits(20, 99)


def answers(rates: list[int], wait_us: int, outcome: str = "ok") -> list[Answer]:
    """Each request on its moment, each answered after the same time."""
    found = []
    for second, rate in enumerate(rates):
        for index in range(rate):
            due = second * 1_000_000 + index * 1_000_000 // rate
            found.append((due, due + 100, due + wait_us, outcome, 0))
    return found


def test_percentiles_are_exact() -> None:
    values = list(range(1, 1001))
    random.Random(3).shuffle(values)
    for share, rank in ((0.5, 500), (0.95, 950), (0.99, 990), (0.999, 999), (1.0, 1000)):
        assert measured.percentile_ms([v * MS for v in values], share) == rank
    assert measured.percentile_ms([], 0.5) is None
    assert measured.percentile_ms([7], 0.999) == 0.007
    for count in (1, 2, 19, 20, 21, 99, 100, 101):
        ordered = [v * MS for v in range(1, count + 1)]
        assert measured.percentile_ms(ordered, 0.95) == math.ceil(round(0.95 * count, 9))


def test_a_good_run_passes_and_no_knee_is_reached() -> None:
    rates = profile("step", 100, 10)
    tally = Tally(rates)
    tally.add(answers(rates, 3 * MS))
    report = measured.report(tally, LIMITS, batches=[1])
    assert report["passed"] is True
    assert report["success"] == 100.0
    assert report["latency_ms"]["p99_9"] == 3.0
    assert report["requests"] == {
        "planned": 600, "sent": 600, "unsent": 0, "ok": 600, "failed": 0,
        "provider_faults": 0, "caller_faults": 0,
    }  # fmt: skip
    assert report["knee"] == {"rate": 100, "throughput": 100.0, "reached": False}
    assert [row["answered"] for row in report["seconds"]] == rates
    assert report["sentence"].startswith("Passed: 95 % of 600 requests")
    json.dumps(report)


def test_one_failure_in_a_thousand_is_a_failure_where_all_have_to_succeed() -> None:
    rates = [200] * 5
    tally = Tally(rates)
    tally.add(answers(rates, 3 * MS)[:-1])
    tally.add([(4_995_000, 4_995_000, 4_999_000, "http_503", 0)])
    tally.add_fault({"outcome": "http_503", "second": 4, "body": '{"code":"model_unavailable"}'})
    report = measured.report(tally, LIMITS, batches=[1])
    assert (report["passed"], report["success"]) == (False, 99.9)
    (error,) = report["errors"]
    assert (error["side"], error["count"], error["first_second"]) == ("provider", 1, 4)
    assert "model_unavailable" in error["first_body"]
    assert measured.report(tally, Limits(50, 99.9), batches=[1])["passed"] is True


def test_a_stall_counts_for_everybody_who_wanted_to_call_meanwhile() -> None:
    """One second's stall at 100/s: measured from sending, all but a few look quick."""
    rates = [100] * 5
    tally = Tally(rates)
    stalled = [
        (due, max(due, 3_000_000), max(due, 3_000_000) + 2 * MS, outcome, body)
        if 2_000_000 <= due < 3_000_000
        else (due, sent, ended, outcome, body)
        for due, sent, ended, outcome, body in answers(rates, 2 * MS)
    ]
    tally.add(stalled)
    report = measured.report(tally, LIMITS, batches=[1])
    assert report["from_sending_ms"]["p95"] == 2.0
    assert report["latency_ms"]["p95"] > 500
    assert report["passed"] is False


def test_the_knee_is_the_highest_step_below_the_first_that_does_not_hold() -> None:
    rates = profile("step", 100, 10)
    tally = Tally(rates)
    for answer in answers(rates, 4 * MS):
        due, sent, _, _, body = answer
        late = 900 * MS if rates[due // 1_000_000] >= 80 else 4 * MS
        tally.add([(due, sent, due + late, "ok", body)])
    report = measured.report(tally, LIMITS, batches=[1])
    assert report["knee"] == {"rate": 60, "throughput": 60.0, "reached": True}
    assert [level["holds"] for level in report["levels"]] == [True, True, True, False, False]
    slow = Tally([50] * 5)
    slow.add(answers([50] * 5, 80 * MS))
    assert measured.report(slow, LIMITS, batches=[1])["knee"]["rate"] is None


def test_a_run_without_any_answer_has_no_percentile_and_fails() -> None:
    report = measured.report(Tally([20] * 5), LIMITS, batches=[1])
    assert report["passed"] is False
    assert report["latency_ms"]["p95"] is None
    assert report["requests"]["unsent"] == 100
    assert "no request was answered" in report["sentence"]


@pytest.mark.parametrize(
    ("outcome", "side"),
    [
        ("http_422", "caller"), ("http_404", "caller"), ("http_429", "provider"),
        ("http_408", "provider"), ("http_503", "provider"), ("timeout", "provider"),
        ("connection", "provider"), ("not_the_version", "provider"), ("no_outputs", "provider"),
    ],
)  # fmt: skip
def test_whose_fault_it_is(outcome: str, side: str) -> None:
    assert measured.side_of(outcome) == side


def test_a_sample_is_sent_as_it_is_or_in_batches_within_the_model_s_own() -> None:
    (recorded,) = payloads(SAMPLE, pattern="step", max_batch=8)
    assert json.loads(recorded.body) == SAMPLE["request"]
    assert recorded.batch == 2
    made = payloads(SAMPLE, pattern="mixed", max_batch=5)
    assert [one.batch for one in made] == [1, 2, 4]
    assert [one.weight for one in made] == [1, 0.5, 0.25]
    first, _, four = (json.loads(one.body)["inputs"] for one in made)
    assert first[0] == {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
    assert (four[0]["shape"], len(four[0]["data"])) == ([4, 3], 12)
    assert four[1]["data"] == ["a", "b", "a", "b"]
    for most in (0, 1):
        assert len(payloads(SAMPLE, pattern="mixed", max_batch=most)) == 1


def test_a_large_row_is_sent_alone() -> None:
    image = {"name": "x", "datatype": "FP32", "shape": [1, 200_000], "data": [0.5] * 200_000}
    made = payloads({"request": {"inputs": [image]}}, pattern="mixed", max_batch=32)
    assert [one.batch for one in made] == [1]
    nested = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[0.5, 1]]}
    assert len(payloads({"inputs": [nested]}, pattern="mixed", max_batch=32)) == 1
    with pytest.raises(Conflict, match="no request"):
        payloads({"request": {}}, pattern="step", max_batch=1)


def run(**changes: object) -> GateRun:
    given: dict[str, object] = {
        "id": "1", "environment": "staging", "production": False, "rate": 40, "requests": 400,
        "p95_ms": 12.0, "success": 100.0, "onnx": "a", "config": "b",
        "ended_at": datetime(2026, 1, 1, tzinfo=UTC),
    }  # fmt: skip
    return GateRun(**{**given, **changes})  # type: ignore[arg-type]


def ask(*runs: GateRun, required: bool = True, limits: Limits = LIMITS):  # type: ignore[no-untyped-def]
    return gate(
        version="m v1", environment="production", required=required, limits=limits,
        onnx="a", config="b", runs=runs,
    )  # fmt: skip


def test_a_gate_opens_for_a_run_with_these_bytes_elsewhere_within_the_limits() -> None:
    assert ask(run()).open
    assert ask(required=False).open
    assert not ask().open
    assert "There is none yet" in ask().sentence
    assert "covenant load-test" in ask().hint


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"onnx": "other"}, "other files"),
        ({"config": "other"}, "other files"),
        ({"environment": "production"}, "no place to find out"),
        ({"environment": "eu", "production": True}, "no place to find out"),
        ({"p95_ms": 50.1}, "p95 was 50.1 ms"),
        ({"success": 99.99}, "99.99 % succeeded"),
        ({"p95_ms": None, "success": 0.0}, "no answer came"),
    ],
)
def test_what_does_not_count_is_told(changes: dict[str, object], words: str) -> None:
    found = ask(run(**changes))
    assert not found.open
    assert words in found.sentence


def test_an_older_run_that_counts_is_enough() -> None:
    later = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=1)
    found = ask(run(), run(id="2", p95_ms=90.0, ended_at=later))
    assert found.run is not None
    assert found.run.id == "1"
    assert not ask(run(), limits=Limits(10.0, 100.0)).open
