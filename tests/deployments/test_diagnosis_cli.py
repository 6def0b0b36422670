"""What the commands of diagnosis print, from answers as the API gives them."""

from __future__ import annotations

from deployments.cli import batching, diagnosing, slow


def test_a_diagnosis_is_told_step_by_step() -> None:
    finding = {
        "code": "operator_unknown",
        "verdict": "bad",
        "title": "This node does not know it.",
        "mend": "Replace it.",
        "evidence": "line 1\nline 2",
    }
    words = diagnosing._words(
        {
            "model": "fraud",
            "version": 3,
            "node": "local",
            "state": "found",
            "steps": [{"title": "Server log at the error", "findings": [finding]}],
        }
    )
    assert words.splitlines() == [
        "fraud v3 on local: found",
        "1. Server log at the error",
        "   ✗ This node does not know it.",
        "     → Replace it.",
        "       line 1",
        "       line 2",
    ]


def test_slow_requests_are_told_by_stage() -> None:
    found = {
        "requests": 2,
        "start": "a",
        "end": "b",
        "logs": [{"gateway": "edge-2", "missing": True}],
        "percentiles": [
            {"percent": 99.9, "value_ms": 812.5, "share": 0.9, "main": "model", "words": "So.",
             "stages": {"wait": 12.5, "model": 800.0, "send": 0.001}},
        ],
        "worst": [
            {"total_ms": 812.5, "x_request_id": "r-1", "status": 200, "version": 1,
             "main": "model", "at": "c"},
        ],
        "stage_names": {"wait": "At the gateway", "model": "At the node, beyond the mean"},
    }  # fmt: skip
    words = slow._words(found)
    assert "The access log of edge-2 is not seen by the server." in words
    assert "P99.9: 812.50 ms. So.\n     800.00 ms  At the node, beyond the mean\n" in words
    assert "812.50 ms  r-1  200 v1, mostly “At the node, beyond the mean”, c" in words
    assert "mostly model" not in words
    assert "send" not in words
    assert "The slowest" not in slow._words({**found, "requests": 0})


def test_advice_is_told_with_its_change() -> None:
    advice = {"title": "Wait", "why": "Because.", "effect": "Then.", "setting": "queue_delay_us",
              "now": "100", "wanted": "1200"}  # fmt: skip
    one = {"version": 1, "requests_per_second": 300.0, "batch_efficiency": 1.05, "load": 3.0,
           "queue_ms": 8.0, "compute_ms": 2.0, "advice": [advice]}  # fmt: skip
    words = batching._words({"versions": [one]})
    assert "Wait (queue_delay_us: 100 → 1200)" in words
    assert "Why: Because." in words
    assert batching._words({"versions": []}) == "No version was asked in this span."
