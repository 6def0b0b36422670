"""Burn-rate alerts against the SRE Workbook's tables and properties.

Figures of the Workbook (chapter 5, tables 5-2 and 5-8) are written out here, not computed by what
is tested: 99.9 % over 30 days pages at 14.4 (1 h and 5 min) and 6 (6 h and 30 min) and makes a
ticket at 1 (3 days and 6 h), which is 2 %, 5 % and 10 % of the budget.
"""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.objectives.burn_rates import (
    LEAST_BAD,
    POLICIES,
    SPANS,
    BurnPolicy,
    factor,
    judge,
)
from deployments.rules.objectives.slo import Attainment, Objective

PAGE, PAGE_SLOWLY, TICKET = POLICIES
MONTHLY = Objective("availability", 99.9, 30)


def counted(bad: float, valid: int, target: float = 99.9) -> Attainment:
    return Attainment(valid - bad, valid, target)


@pytest.mark.parametrize(
    ("policy", "long", "short", "workbook"),
    [
        (PAGE, timedelta(hours=1), timedelta(minutes=5), 14.4),
        (PAGE_SLOWLY, timedelta(hours=6), timedelta(minutes=30), 6.0),
        (TICKET, timedelta(days=3), timedelta(hours=6), 1.0),
    ],
)
def test_a_month_of_thirty_days_has_the_factors_of_the_workbook(
    policy: BurnPolicy, long: timedelta, short: timedelta, workbook: float
) -> None:
    assert (policy.long, policy.short) == (long, short)
    assert factor(policy, MONTHLY) == workbook
    assert factor(policy, Objective("availability", 99.9, None)) == workbook


@pytest.mark.parametrize(
    ("days", "factors"),
    # By hand: 0.02 * days * 24 h / 1 h; 0.05 * days * 24 h / 6 h; 0.1 * days / 3, and at least 1.
    [(28, (13.44, 5.6, 1.0)), (7, (3.36, 1.4, 1.0)), (90, (43.2, 18.0, 3.0))],
)
def test_other_windows_keep_the_share_of_the_budget(
    days: int, factors: tuple[float, float, float]
) -> None:
    objective = Objective("availability", 99.9, days)
    assert tuple(factor(policy, objective) for policy in POLICIES) == pytest.approx(factors)


def test_a_low_target_can_still_call_somebody() -> None:
    # 95 % leaves 5 %: all requests bad is a burn of 20, and 14.4 of that would be 72 % bad.
    objective = Objective("availability", 95.0, 30)
    assert factor(PAGE, objective) == 10.0
    half, more = counted(500, 1000, 95.0), counted(501, 1000, 95.0)
    assert not judge(PAGE, objective, half, half).firing
    assert judge(PAGE, objective, more, more).firing


@pytest.mark.parametrize(
    ("rate", "hours", "spent"),
    # Table 5-2 turned round: so much of the 30 days' budget is gone after the window at the rate.
    [(14.4, 1, 0.02), (6.0, 6, 0.05), (1.0, 72, 0.10), (1.0, 720, 1.0), (1000.0, 0.72, 1.0)],
)
def test_a_rate_kept_up_spends_what_the_workbook_says(
    rate: float, hours: float, spent: float
) -> None:
    per_hour = 1_000_000
    month = counted(rate * 0.001 * per_hour * hours, per_hour * 720)
    assert month.bad / month.budget_total == pytest.approx(spent)


def test_the_short_window_ends_it_soon_after_the_cause_is_gone() -> None:
    long = counted(200, 10_000)
    assert judge(PAGE, MONTHLY, long, counted(20, 800)).firing
    assert not judge(PAGE, MONTHLY, long, counted(0, 800)).firing
    assert not judge(PAGE, MONTHLY, long, counted(0, 0)).firing


def test_exactly_the_factor_fires_not() -> None:
    at, above = counted(144, 10_000), counted(145, 10_000)
    assert at.burn_rate == pytest.approx(14.4)
    assert not judge(PAGE, MONTHLY, at, at).firing
    assert judge(PAGE, MONTHLY, above, above).firing


def test_few_bad_requests_say_nothing_yet() -> None:
    # One bad of ten burns a hundred times too fast, and is one request.
    few = judge(PAGE, MONTHLY, counted(1, 10), counted(1, 2))
    assert (few.firing, few.too_few, few.long_rate) == (False, True, pytest.approx(100))
    enough = judge(PAGE, MONTHLY, counted(LEAST_BAD, 50), counted(1, 2))
    assert (enough.firing, enough.too_few) == (True, False)


def test_the_shortest_stretch_comes_first_and_each_once() -> None:
    minutes = [int(span.total_seconds() // 60) for span in SPANS]
    assert minutes == [5, 30, 60, 360, 4320]


TARGETS = st.integers(min_value=5000, max_value=9999).map(lambda n: n / 100)
DAYS = st.one_of(st.none(), st.integers(min_value=1, max_value=366))


@given(st.sampled_from(POLICIES), TARGETS, DAYS)
def test_a_factor_lies_between_the_even_pace_and_half_of_everything_bad(
    policy: BurnPolicy, target: float, days: int | None
) -> None:
    found = factor(policy, Objective("availability", target, days))
    share_bad = Fraction(found) * (100 - Fraction(str(target))) / 100
    assert found >= 1
    assert share_bad <= Fraction(1, 2) + Fraction(1, 10**9) or found == 1


@given(st.sampled_from(POLICIES), TARGETS, DAYS, st.integers(10, 10**9))
def test_all_bad_always_fires_and_none_bad_never(
    policy: BurnPolicy, target: float, days: int | None, valid: int
) -> None:
    objective = Objective("availability", target, days)
    wholly, not_at_all = counted(valid, valid, target), counted(0, valid, target)
    assert judge(policy, objective, wholly, wholly).firing
    assert not judge(policy, objective, not_at_all, not_at_all).firing


@given(
    st.sampled_from(POLICIES),
    TARGETS,
    DAYS,
    st.integers(1, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_more_bad_requests_never_end_an_alert(
    policy: BurnPolicy, target: float, days: int | None, valid: int, one: int, other: int
) -> None:
    objective = Objective("availability", target, days)
    fewer, more = sorted((min(one, valid), min(other, valid)))
    before = counted(fewer, valid, target)
    after = counted(more, valid, target)
    if judge(policy, objective, before, before).firing:
        assert judge(policy, objective, after, after).firing
