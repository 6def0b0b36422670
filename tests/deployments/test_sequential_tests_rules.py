"""The intervals of an experiment hold however often one looks, and tell true drops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.experiments.sequential_tests import (
    Stratum,
    Verdict,
    conversion,
    difference,
    verdict,
)

MARGIN = 0.01


def looks(
    seed: int, *, base: float, drop: float = 0.0, a_minute: int = 200, minutes: int = 120,
    ramp: bool = False,
) -> list[tuple[float, float, Verdict]]:  # fmt: skip
    """The interval after each minute, and what it says."""
    chance = np.random.default_rng(seed)
    strata, found = [], []
    for minute in range(minutes):
        # With `ramp` the candidate's share grows while everybody buys less and less.
        share = min(0.05 + minute / 100, 0.5) if ramp else 0.5
        rate = base * (1.5 - minute / minutes) if ramp else base
        new = int(chance.binomial(a_minute, share))
        old = a_minute - new
        strata.append(
            Stratum(
                old,
                int(chance.binomial(old, rate)),
                new,
                int(chance.binomial(new, max(rate - drop, 0.0))),
            )
        )
        now = difference(strata, margin=MARGIN)
        if now is not None:
            found.append((now.low, now.high, verdict(now, MARGIN)))
    return found


@pytest.mark.parametrize(("base", "ramp"), [(0.02, False), (0.1, True), (0.5, False)])
def test_alike_versions_are_told_apart_in_at_most_5_percent_of_runs_under_constant_looking(
    base: float, ramp: bool
) -> None:
    runs = 200
    wrong = 0
    taken_off = 0
    for seed in range(runs):
        seen = looks(seed, base=base, ramp=ramp)
        wrong += any(low > 0 or high < 0 for low, high, _ in seen)
        taken_off += any(said is Verdict.WORSE for _, _, said in seen)
    assert wrong / runs <= 0.05
    assert taken_off / runs <= 0.01


def test_a_textbook_interval_that_is_looked_at_as_often_is_wrong_far_more_often() -> None:
    """What the boundary is for: the same looks at an interval made for one look."""
    wrong = 0
    for seed in range(100):
        chance = np.random.default_rng(seed)
        left = np.cumsum(chance.binomial(100, 0.1, 120))
        right = np.cumsum(chance.binomial(100, 0.1, 120))
        n = 100 * np.arange(1, 121)
        spread = np.sqrt((left / n * (1 - left / n) + right / n * (1 - right / n)) / n)
        wrong += bool((np.abs(left - right) / n > 1.96 * spread).any())
    assert wrong > 20


def test_a_true_drop_is_found_and_one_within_the_margin_is_not_called_worse() -> None:
    found = [
        any(said is Verdict.WORSE for _, _, said in looks(seed, base=0.1, drop=0.03, a_minute=400))
        for seed in range(30)
    ]
    assert sum(found) >= 28
    small = [
        any(said is Verdict.WORSE for _, _, said in looks(seed, base=0.1, drop=0.005))
        for seed in range(30)
    ]
    assert sum(small) <= 1


def test_a_candidate_that_came_at_a_bad_hour_is_compared_with_that_hour() -> None:
    """Pooled, the candidate seems to be far worse; in every minute both convert alike."""
    strata = [Stratum(9500, 1900, 500, 100), *[Stratum(500, 10, 9500, 190)] * 3]
    assert 1930 / 11000 - 670 / 29000 > 0.1
    found = difference(strata, margin=MARGIN)
    assert found is not None
    assert found.value == pytest.approx(0.0)
    assert verdict(found, MARGIN) is not Verdict.WORSE


def test_too_few_answers_or_outcomes_say_nothing() -> None:
    assert difference([Stratum(99, 50, 5000, 2500)], margin=MARGIN) is None
    assert difference([Stratum(5000, 9, 5000, 10)], margin=MARGIN) is None
    assert difference([], margin=MARGIN) is None
    assert verdict(None, MARGIN) is Verdict.TOO_FEW


def test_what_intervals_say() -> None:
    drop = difference([Stratum(50_000, 5000, 50_000, 3000)], margin=MARGIN)
    rise = difference([Stratum(50_000, 3000, 50_000, 5000)], margin=MARGIN)
    level = difference([Stratum(90_000, 9000, 90_000, 9000)], margin=MARGIN)
    assert [verdict(one, MARGIN) for one in (drop, rise, level)] == [
        Verdict.WORSE,
        Verdict.BETTER,
        Verdict.NOT_WORSE,
    ]


COUNTS = st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(COUNTS)
def test_a_conversion_lies_in_its_interval_and_more_confidence_widens_it(
    counts: tuple[int, int],
) -> None:
    found, wider = conversion(*counts), conversion(*counts, confidence=0.99)
    assert found is not None
    assert wider is not None
    assert 0 <= wider.low <= found.low <= found.value <= found.high <= wider.high <= 1


def test_the_conversion_of_a_version_holds_for_all_looks_together() -> None:
    wrong = 0
    for seed in range(200):
        converted = np.cumsum(np.random.default_rng(seed).binomial(20, 0.07, 100))
        seen = [conversion(20 * (i + 1), int(k)) for i, k in enumerate(converted)]
        wrong += any(one is not None and not one.low <= 0.07 <= one.high for one in seen)
    assert wrong / 200 <= 0.05


@given(COUNTS, COUNTS)
def test_exchanging_the_versions_turns_the_sign(
    left: tuple[int, int], right: tuple[int, int]
) -> None:
    here = difference([Stratum(*left, *right)], margin=MARGIN)
    there = difference([Stratum(*right, *left)], margin=MARGIN)
    assert (here is None) == (there is None)
    if here is not None and there is not None:
        assert math.isclose(here.value, -there.value, abs_tol=1e-12)
        assert math.isclose(here.high, -there.low, abs_tol=1e-9)
