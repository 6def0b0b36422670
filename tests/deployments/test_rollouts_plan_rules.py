"""Plans: what is read, what is refused and where, and what a contract's clause comes to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.rules.rollouts.conditions import Condition
from deployments.rules.rollouts.plan import default_plan, parse_plan, plan_json
from deployments.rules.rollouts.types import Analyse, MetricKind, Pause, SetWeight
from models_registry.rules.contract_types import Rollout, RolloutAnalysis

YAML = """
steps:
  - set_weight: 5
  - pause: {duration: 10m}
  - set_weight: 20.5
  - analyse:
      interval: 10s
      metrics:
        - {name: error_rate, count: 3, success_condition: "<= 1"}
        - name: slower
          metric: p99_ms
          count: 2
          success_condition: "<= baseline * 1.2"
          failure_condition: "> baseline * 2"
          dry_run: true
  - pause: {}
analysis:
  metrics:
    - name: queue
      prometheus: {address: "https://prometheus.example.com", query: 'up{model="{{model}}"}'}
      success_condition: ">= 1"
      interval: 1m
windows:
  - {days: [monday, tue], from: "09:00", to: "17:00", time_zone: Europe/Berlin}
fast_check: {max_p99_ms: null, max_error_rate: 2}
"""


def faults(document: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        parse_plan(document)
    assert refused.value.code == "invalid_rollout_plan"
    return {one.pointer: one.detail for one in refused.value.errors}


def test_a_contracts_clause_becomes_steps() -> None:
    plan = default_plan()
    weights = [one.points for one in plan.steps if isinstance(one, SetWeight)]
    assert weights == list(range(500, 10_001, 500))
    pauses = [one.seconds for one in plan.steps if isinstance(one, Pause)]
    assert pauses == [900.0] * 19
    assert [(one.kind, str(one.success), one.min_requests) for one in plan.background] == [
        (MetricKind.ERROR_RATE, "<= 1", 100),
        (MetricKind.P99, "<= 80", 100),
    ]
    assert plan.fast is not None
    assert (plan.fast.max_error_rate, plan.fast.max_p99_ms) == (1.0, 80.0)


@given(st.floats(0.001, 100), st.floats(0.001, 100), st.integers(1, 86400))
@settings(max_examples=50, deadline=None)
def test_any_clause_rises_to_all_traffic(start: float, step: float, every: int) -> None:
    clause = Rollout(start, step, every, RolloutAnalysis(0.5, 120.0, 7))
    plan = default_plan(clause)
    weights = [one.points for one in plan.steps if isinstance(one, SetWeight)]
    assert weights == sorted(set(weights))
    assert weights[-1] == 10_000
    assert len(plan.steps) <= 200
    assert parse_plan(plan_json(plan), clause) == plan


def test_a_document_is_read_and_written_again_without_loss() -> None:
    plan = parse_plan(YAML)
    assert plan.steps[2] == SetWeight(2050)
    analysis = plan.steps[3]
    assert isinstance(analysis, Analyse)
    assert [(one.interval_s, one.count, one.dry_run) for one in analysis.metrics] == [
        (10.0, 3, False),
        (10.0, 2, True),
    ]
    assert plan.steps[-1] == SetWeight(10_000), "a plan ends with all of the traffic"
    assert plan.fast is not None
    assert (plan.fast.max_error_rate, plan.fast.max_p99_ms) == (2.0, None)
    assert parse_plan(plan_json(plan)) == plan


def test_what_is_left_out_comes_from_the_contract() -> None:
    clause = Rollout(10, 30, 60, RolloutAnalysis(2.0, 50.0, 5))
    plan = parse_plan({"fast_check": False, "analysis": False}, clause)
    assert plan == replace(default_plan(clause), background=(), fast=None)


@pytest.mark.parametrize(
    ("document", "pointer", "detail"),
    [
        ({"stepps": []}, "/stepps", "is not a known field; did you mean steps?"),
        ({"steps": []}, "/steps", "has no step"),
        ({"steps": [{"pause": {}}]}, "/steps", "gives the version no weight"),
        ({"steps": [{"pause": {}}, {"set_weight": 5}]}, "/steps/0", "comes first"),
        ({"steps": [{"set_weight": 101}]}, "/steps/0/set_weight", "is not between 0.01 and 100"),
        ({"steps": [{"set_weight": 5.001}]}, "/steps/0/set_weight", "more than two decimals"),
        ({"steps": [{"set_weight": True}]}, "/steps/0/set_weight", "is not a number"),
        ({"steps": [{"set_weight": 5, "pause": {}}]}, "/steps/0", "is not one of"),
        (
            {"steps": [{"set_weight": 5}, {"pause": {"duration": "soon"}}]},
            "/steps/1/pause/duration",
            "is no duration",
        ),
        (
            {"steps": [{"set_weight": 5}, {"analyse": {"metrics": [{"name": "mood"}]}}]},
            "/steps/1/analyse/metrics/0/name",
            "is no built-in metric",
        ),
        (
            {"analysis": {"metrics": [{"name": "error_rate"}]}},
            "/analysis/metrics/0/success_condition",
            "is missing",
        ),
        (
            {"analysis": {"metrics": [{"name": "error_rate", "success_condition": "good"}]}},
            "/analysis/metrics/0/success_condition",
            "cannot be read",
        ),
        (
            {
                "steps": [
                    {"set_weight": 5},
                    {"analyse": [{"name": "p99_ms", "interval": "5s", "success_condition": "< 1"}]},
                ]
            },
            "/steps/1/analyse/metrics/0/count",
            "has an end",
        ),
        (
            {
                "analysis": [
                    {
                        "name": "q",
                        "prometheus": {"address": "ftp://x", "query": "up"},
                        "success_condition": "> 0",
                    }
                ]
            },
            "/analysis/metrics/0/prometheus/address",
            "is not accepted",
        ),
        (
            {"analysis": [{"name": "p50_ms", "success_condition": "< 1", "window": "1h"}]},
            "/analysis/metrics/0/window",
            "is not between 1s and 15m",
        ),
        ({"windows": [{"from": "9 o'clock"}]}, "/windows/0/from", "is no time of day"),
        ({"windows": [{"days": ["someday"]}]}, "/windows/0/days/0", "is no day"),
        ({"windows": [{"time_zone": "Moon/Base"}]}, "/windows/0/time_zone", "is no time zone"),
        ({"fast_check": {"max_error_rate": -1}}, "/fast_check/max_error_rate", "is not between"),
        ("just words", "", "is not an object"),
    ],
)
def test_faults_are_named_where_they_are(document: Any, pointer: str, detail: str) -> None:
    found = faults(document)
    assert pointer in found, found
    assert detail in found[pointer]


def test_two_metrics_of_one_name_are_refused() -> None:
    one = {"name": "error_rate", "success_condition": "< 1"}
    assert "/analysis/metrics/1/name" in faults({"analysis": [one, one]})


@pytest.mark.parametrize(
    ("text", "value", "baseline", "holds"),
    [
        ("<= 1", 1.0, None, True),
        ("result < 1.5e1", 15.0, None, False),
        (">= baseline", 2.0, 2.0, True),
        ("<= baseline * 1.2", 12.1, 10.0, False),
        ("<= baseline + 5", 14.9, 10.0, True),
        (">= baseline - 0.5", 9.4, 10.0, False),
        ("<= baseline * 1.2", 1.0, None, None),
        ("> -0.5", -0.4, None, True),
    ],
)
def test_conditions(text: str, value: float, baseline: float | None, holds: bool | None) -> None:
    condition = Condition.parse(text)
    assert condition.holds(value, baseline) is holds
    assert Condition.parse(str(condition)) == condition


def test_times_in_which_steps_may_begin() -> None:
    plan = parse_plan(YAML)
    monday_noon = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
    assert plan.opening(monday_noon) == monday_noon
    # 09:00 in Berlin is 08:00 UTC in winter.
    assert plan.opening(datetime(2026, 3, 1, 12, 0, tzinfo=UTC)) == datetime(
        2026, 3, 2, 8, 0, tzinfo=UTC
    )
    assert plan.opening(datetime(2026, 3, 4, 12, 0, tzinfo=UTC)) == datetime(
        2026, 3, 9, 8, 0, tzinfo=UTC
    )
    # In summer 07:00.
    assert plan.opening(datetime(2026, 7, 1, 12, 0, tzinfo=UTC)) == datetime(
        2026, 7, 6, 7, 0, tzinfo=UTC
    )


def test_a_window_over_midnight_is_open_on_both_sides() -> None:
    plan = parse_plan({"windows": [{"days": ["friday"], "from": "22:00", "to": "02:00"}]})
    friday = datetime(2026, 3, 6, tzinfo=UTC)
    for hours, is_open in ((21.9, False), (22, True), (25.9, True), (26, False)):
        at = friday + timedelta(hours=hours)
        opening = plan.opening(at)
        assert opening is not None
        assert (opening == at) is is_open, hours
