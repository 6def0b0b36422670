from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.rules.objectives import slo
from deployments.rules.objectives.slo import Attainment, Objective, Promise
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Traffic

AVAILABILITY = Objective("availability", 99.9, 28)
LATENCY = Objective("latency", 99.0, 28, threshold_ms=80.0)
NOW = datetime(2026, 2, 14, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("bad", "left", "state"),
    [
        (0, 100.0, Promise.KEPT),
        (50, 50.0, Promise.KEPT),
        (80, 20.0, Promise.AT_RISK),
        (100, 0.0, Promise.AT_RISK),
        (101, -1.0, Promise.BROKEN),
    ],
)
def test_the_budget_is_what_may_still_go_wrong(bad: int, left: float, state: Promise) -> None:
    found = slo.attain(AVAILABILITY, Traffic(100_000, provider_faults=bad))
    assert found.budget_total == pytest.approx(100)
    assert found.budget_left == pytest.approx(left)
    assert found.promise is state
    assert found.attained == pytest.approx(100 - bad / 1000)


def test_without_requests_nothing_is_known() -> None:
    found = slo.attain(AVAILABILITY, Traffic())
    assert (found.attained, found.burn_rate, found.budget_left_share) == (None, None, None)
    assert found.promise is Promise.NO_DATA
    assert slo.attain(LATENCY, Traffic(5)).promise is Promise.NO_DATA


def test_the_callers_own_faults_count_for_nobody() -> None:
    found = slo.attain(AVAILABILITY, Traffic(1000, caller_faults=400, provider_faults=6))
    assert (found.valid, found.good) == (600, 594)


def test_latency_is_exact_at_a_bound_and_says_so_when_it_is_not() -> None:
    latency = Histogram((40.0, 80.0), (90, 9, 1))
    found = slo.attain(LATENCY, Traffic(100, latency=latency))
    assert (found.good, found.valid, found.exact) == (99, 100, True)
    assert found.promise is Promise.AT_RISK
    between = slo.attain(Objective("latency", 99, 28, 60.0), Traffic(100, latency=latency))
    assert (between.good, between.exact) == (94.5, False)


def test_a_target_of_all_has_no_budget() -> None:
    assert Attainment(10, 10, 100).promise is Promise.KEPT
    assert Attainment(9, 10, 100).promise is Promise.BROKEN
    assert Attainment(9, 10, 100).burn_rate == float("inf")


@given(valid=st.integers(1, 10**9), share=st.floats(0, 1), target=st.floats(50, 99.999))
def test_burn_rate_and_budget_say_the_same(valid: int, share: float, target: float) -> None:
    good = round(valid * share)
    found = Attainment(good, valid, target)
    assert found.burn_rate is not None
    assert found.budget_left_share is not None
    assert found.burn_rate >= 0
    assert found.budget_left_share == pytest.approx(1 - found.burn_rate, rel=1e-6, abs=1e-6)
    assert found.budget_left <= found.budget_total
    if found.promise is Promise.BROKEN:
        assert found.attained is not None
        assert found.attained < target


@given(st.lists(st.sampled_from(list(Promise))))
def test_the_worst_known_promise_speaks_for_all(promises: list[Promise]) -> None:
    found = slo.worst(promises)
    known = [one for one in promises if one is not Promise.NO_DATA]
    assert (found in known) if known else found is Promise.NO_DATA
    assert found is Promise.BROKEN or Promise.BROKEN not in known


def test_months_and_windows() -> None:
    assert slo.parse_month("", NOW) == date(2026, 2, 1)
    start, end = slo.month_bounds(slo.parse_month("2026-02", NOW))
    assert (start, end) == (datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    assert slo.window_start(AVAILABILITY, NOW) == datetime(2026, 1, 17, 12, 0, tzinfo=UTC)
    assert slo.window_start(Objective("a", 99, None), NOW) == start
    for text in ("2026", "2026-13", "x", "2026-02-01", "9999-12", "0001-01"):
        with pytest.raises(Invalid):
            slo.parse_month(text, NOW)
