"""Two reports side by side: what is better, worse, or only noise."""

from __future__ import annotations

from typing import Any

from models_registry.rules.report_diff import diff
from tests.models_registry.reports import check, report_of


def changed(report: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**report, **changes}


def test_checks_are_compared_by_their_verdicts() -> None:
    before = report_of("passed", check("finite"), check("gone"), check("varies", "warning"))
    after = report_of(
        "failed", check("finite", "failed", fix="Mend it."), check("varies"), check("new")
    )
    found = diff(before, after)
    assert (found.before, found.after, found.effect) == ("passed", "failed", "worse")
    assert [(one.id, one.before, one.after, one.effect) for one in found.checks] == [
        ("finite", "passed", "failed", "worse"),
        ("varies", "warning", "passed", "better"),
        ("new", None, "passed", "neutral"),
        ("gone", "passed", None, "neutral"),
    ]
    assert found.checks[0].fix == "Mend it."
    assert diff(before, before).effect == "same"
    assert {one.effect for one in diff(before, before).checks} == {"same"}


def test_figures_tell_noise_from_a_difference() -> None:
    before = report_of()
    rows = [{**row} for row in before["latency"]]
    rows[0]["p95_ms"] *= 1.2
    rows[1]["p95_ms"] *= 2
    rows.append({"batch": 32, "p50_ms": 9.0, "p95_ms": 9.5})
    (output,) = before["equivalence"]["outputs"]
    after = changed(
        before,
        latency=rows,
        equivalence={**before["equivalence"], "outputs": [{**output, "max_abs": 1e-9}]},
        model={"flops": 100, "parameters": 12},
    )
    effects = {one.figure: one.effect for one in diff(before, after).figures}
    assert effects["latency.1.p95_ms"] == "neutral"
    assert effects["latency.8.p95_ms"] == "worse"
    assert effects["latency.32.p95_ms"] == "neutral"
    assert effects["latency.8.p50_ms"] == "same"
    assert effects["equivalence.risk_score.max_abs"] == "better"
    assert effects["model.flops"] == "neutral"
    titles = {one.figure: (one.title, one.unit) for one in diff(before, after).figures}
    assert titles["latency.8.p95_ms"] == ("P95 at batch 8", "ms")
    assert titles["equivalence.risk_score.max_abs"] == ("Largest error of “risk_score”", "")


def test_a_report_against_none_has_only_one_side() -> None:
    found = diff({}, report_of()).to_json()
    assert found["verdict"] == {"before": None, "after": "passed", "effect": "neutral"}
    assert {one["before"] for one in found["figures"]} == {None}
    assert found["checks"][0]["id"] == "onnx_checker"
