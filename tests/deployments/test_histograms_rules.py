"""Histograms add and subtract exactly; quantiles err by at most a bucket."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.statistics.histograms import (
    Histogram,
    coarsen,
    count_at_most,
    delta,
    empty,
    from_cumulative,
    merge,
    merge_all,
    quantile,
    share_at_most,
)

BOUNDS = (1.0, 5.0, 20.0, 80.0, 500.0)
VALUES = st.lists(st.floats(0, 1000, allow_nan=False), max_size=60)
COUNTS = st.lists(st.integers(0, 1000), min_size=len(BOUNDS) + 1, max_size=len(BOUNDS) + 1)
HISTOGRAMS = COUNTS.map(lambda counts: Histogram(BOUNDS, tuple(counts)))


def of(values: list[float]) -> Histogram:
    cumulative = [sum(value <= bound for value in values) for bound in BOUNDS]
    return from_cumulative(BOUNDS, cumulative, len(values))


def test_shape_is_checked() -> None:
    for bounds, counts in ((BOUNDS, (1,)), ((2.0, 1.0), (0, 0, 0)), ((1.0,), (0, -1))):
        with pytest.raises(ValueError, match="A histogram"):
            Histogram(bounds, counts)


def test_cumulative_counts_that_fall_or_overtake_the_total_stay_sane() -> None:
    assert from_cumulative((1.0, 2.0), (5, 4), 3) == Histogram((1.0, 2.0), (5, 0, 0))
    assert from_cumulative((1.0, 2.0), (5, 7), None).total == 7
    assert from_cumulative((1.0, 2.0), (5, 7), 9).counts == (5, 2, 2)


@given(VALUES, VALUES)
def test_merging_is_counting_all_values_at_once(left: list[float], right: list[float]) -> None:
    assert merge(of(left), of(right)) == of(left + right)
    assert merge_all([of(left), of(right), empty(BOUNDS)]) == of(left + right)
    assert merge_all([]) is None


@given(VALUES, VALUES)
def test_a_difference_is_what_came_in_between(before: list[float], more: list[float]) -> None:
    assert delta(of(before + more), of(before)) == of(more)


@given(HISTOGRAMS, HISTOGRAMS, st.booleans())
def test_a_difference_is_never_negative(
    later: Histogram, earlier: Histogram, restarted: bool
) -> None:
    grown = delta(later, earlier, restarted=restarted)
    assert all(0 <= a <= b for a, b in zip(grown.counts, later.counts, strict=True))
    if restarted or any(b < a for a, b in zip(earlier.counts, later.counts, strict=True)):
        assert grown == later


def test_the_first_reading_and_other_bounds_tell_what_they_can() -> None:
    later = of([1, 2, 3])
    assert delta(later, None) == empty(BOUNDS)
    # Under other bounds nothing is known but how many more there are.
    assert delta(later, Histogram((9.5,), (1, 0))) == Histogram((), (2,))


@given(VALUES.filter(bool), st.floats(0, 1))
def test_a_quantile_lies_in_the_true_values_bucket(values: list[float], q: float) -> None:
    true = sorted(values)[max(math.ceil(q * len(values)) - 1, 0)]
    found = quantile(of(values), q)
    assert found is not None
    edges = (0.0, *BOUNDS)
    bucket = next((i for i, bound in enumerate(BOUNDS) if true <= bound), None)
    if bucket is None:
        assert found == BOUNDS[-1]
    else:
        assert edges[bucket] - 1e-9 <= found <= edges[bucket + 1] + 1e-9


@given(VALUES.filter(bool), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise(values: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    first, second = quantile(of(values), low), quantile(of(values), high)
    assert first is not None
    assert second is not None
    assert first <= second + 1e-9


def test_quantiles_interpolate_as_prometheus_does() -> None:
    histogram = Histogram((10.0, 20.0), (50, 50, 0))
    assert quantile(histogram, 0.5) == 10.0
    assert quantile(histogram, 0.75) == 15.0
    assert quantile(histogram, 0.25) == 5.0
    assert quantile(empty(BOUNDS), 0.5) is None
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(histogram, 99)


@given(VALUES, st.sampled_from(BOUNDS))
def test_the_share_within_a_bound_is_exact(values: list[float], bound: float) -> None:
    within = sum(value <= bound for value in values)
    assert count_at_most(of(values), bound) == within
    share = share_at_most(of(values), bound)
    assert share == (within / len(values) if values else None)


@given(VALUES.filter(bool), st.floats(0, 2000))
def test_the_share_between_bounds_lies_between_theirs(
    values: list[float], threshold: float
) -> None:
    histogram = of(values)
    below = [b for b in (0.0, *BOUNDS) if b <= threshold][-1]
    above = next((b for b in BOUNDS if b >= threshold), BOUNDS[-1])
    found = count_at_most(histogram, threshold)
    low = count_at_most(histogram, below) if below else 0
    assert low - 1e-9 <= found <= count_at_most(histogram, above) + 1e-9


def test_values_beyond_every_bound_are_never_within() -> None:
    assert share_at_most(Histogram((10.0,), (1, 1)), 1e9) == 0.5


@given(HISTOGRAMS, st.sets(st.sampled_from(BOUNDS), min_size=1))
def test_fewer_bounds_keep_the_values(histogram: Histogram, chosen: set[float]) -> None:
    bounds = sorted(chosen)
    smaller = coarsen(histogram, bounds)
    assert smaller.total == histogram.total
    cumulative = list(accumulate(smaller.counts))
    expected = [count_at_most(histogram, bound) for bound in bounds]
    assert cumulative[:-1] == expected


def test_bounds_must_agree() -> None:
    with pytest.raises(ValueError, match="different bounds"):
        merge(empty(BOUNDS), empty((1.0,)))
    with pytest.raises(ValueError, match="no bound 7"):
        coarsen(empty(BOUNDS), (1.0, 7.0))
