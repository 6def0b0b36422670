"""The form of a new rollout: what it holds, and the plan that it stands for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.rollouts.drafts import Approval, draft_of, plan_document, shares
from deployments.rules.rollouts.plan import default_plan, parse_plan
from deployments.rules.rollouts.types import Pause, SetWeight
from models_registry.rules.contract_types import Rollout as Clause
from models_registry.rules.contract_types import RolloutAnalysis

clauses = st.builds(
    Clause,
    start=st.integers(1, 100).map(float),
    step=st.integers(1, 100).map(float),
    every_seconds=st.integers(1, 86400),
    analysis=st.builds(
        RolloutAnalysis,
        max_error_rate=st.integers(0, 100).map(float),
        max_p99_ms=st.integers(1, 1000).map(float),
        min_requests=st.integers(1, 10_000),
    ),
)


@given(clauses)
def test_an_untouched_form_is_the_plan_that_the_contract_asks_for(clause: Clause) -> None:
    assert parse_plan(plan_document(draft_of(clause)), clause) == default_plan(clause)


@given(clauses, st.sampled_from(Approval))
def test_weights_rise_to_everything_and_every_plan_can_be_read(
    clause: Clause, approval: Approval
) -> None:
    draft = replace(draft_of(clause), approval=approval)
    weights = shares(draft)
    assert weights == sorted(set(weights))
    assert weights[-1] == 100
    if len(weights) <= 60:
        plan = parse_plan(plan_document(draft), clause)
        given_weights = [one.points for one in plan.steps if isinstance(one, SetWeight)]
        assert given_weights == [round(share * 100) for share in weights]


@pytest.mark.parametrize(
    ("approval", "waits"), [("never", 0), ("first", 1), ("last", 1), ("each", 3)]
)
def test_a_person_is_asked_where_the_form_says(approval: str, waits: int) -> None:
    draft = replace(draft_of(Clause(start=25.0, step=25.0)), approval=Approval(approval))
    steps = parse_plan(plan_document(draft)).steps
    asked = [i for i, one in enumerate(steps) if isinstance(one, Pause) and one.seconds is None]
    assert len(asked) == waits
    if approval == "first":
        assert asked == [2]
    if approval == "last":
        assert steps[asked[0] + 1] == SetWeight(10_000)


def test_limits_that_are_left_out_are_not_looked_at() -> None:
    draft = replace(
        draft_of(Clause()), max_error_rate=None, max_p99_ms=None, fast=False, days=("monday",)
    )
    plan = parse_plan(plan_document(draft))
    assert (plan.background, plan.fast) == ((), None)
    assert plan.windows[0].days == {0}


def test_the_baseline_is_compared_with_where_that_is_asked_for() -> None:
    draft = replace(draft_of(Clause()), max_p99_ratio=1.2, max_output_difference=0.5)
    names = {one.name: str(one.success) for one in parse_plan(plan_document(draft)).background}
    assert names == {
        "error_rate": "<= 1",
        "p99_ms": "<= 80",
        "p99_against_baseline": "<= baseline * 1.2",
        "output_difference": "<= 0.5",
    }
