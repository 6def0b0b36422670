"""Two versions side by side: the arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.experiments.version_comparisons import (
    Verdict,
    compare_faults,
    compare_latencies,
    estimate,
    figures,
    needed_for,
    on_one_axis,
    shared_span,
    wilson,
)
from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Counted, Traffic

BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
counts = st.lists(st.integers(0, 3000), min_size=8, max_size=8).map(tuple)


def traffic(latency: tuple[int, ...] = (), *, requests: int = 0, faults: int = 0) -> Counted:
    histogram = Histogram(BOUNDS, latency) if latency else None
    return Counted(
        Traffic(requests=requests or sum(latency), provider_faults=faults, latency=histogram)
    )


@given(counts)
def test_a_quantile_lies_within_its_range(counted: tuple[int, ...]) -> None:
    for q in (0.5, 0.95, 0.99):
        found = estimate(Histogram(BOUNDS, counted), q)
        if sum(counted) < needed_for(q):
            assert found.range is None
        else:
            assert found.range is not None
            assert found.value is not None
            low, high = found.range
            assert low <= found.value <= high


@given(counts)
def test_a_version_is_never_told_apart_from_itself(counted: tuple[int, ...]) -> None:
    first, second = figures(1, traffic(counted)), figures(2, traffic(counted))
    assert compare_latencies(first, second).verdict in (Verdict.ALIKE, Verdict.UNKNOWN)


@given(counts, counts)
def test_changing_sides_changes_the_verdict_round(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    first, second = figures(1, traffic(one)), figures(2, traffic(other))
    there, back = compare_latencies(first, second), compare_latencies(second, first)
    opposite = {Verdict.WORSE: Verdict.BETTER, Verdict.BETTER: Verdict.WORSE}
    assert back.verdict == opposite.get(there.verdict, there.verdict)
    if there.difference_ms is not None and back.difference_ms is not None:
        assert there.difference_ms == pytest.approx(-back.difference_ms)


def test_a_slower_version_is_worse_and_says_by_how_much() -> None:
    quick = figures(1, traffic((0, 0, 4000, 200, 0, 0, 0, 0)))
    slow = figures(2, traffic((0, 0, 0, 4000, 200, 0, 0, 0)))
    found = compare_latencies(quick, slow)
    assert (found.verdict, found.quantile) == (Verdict.WORSE, "p99")
    assert found.difference_ms == pytest.approx(9.0, abs=1.0)


def test_few_requests_are_compared_by_a_lower_quantile_and_very_few_not_at_all() -> None:
    many = figures(1, traffic((0, 0, 4000, 200, 0, 0, 0, 0)))
    assert needed_for(0.99) == 382
    few = figures(2, traffic((0, 0, 0, 0, 100, 0, 0, 0)))
    assert compare_latencies(many, few).quantile == "p95"
    two = figures(2, traffic((0, 0, 0, 0, 2, 0, 0, 0)))
    assert compare_latencies(many, two).verdict is Verdict.UNKNOWN


@given(st.integers(1, 5000), st.integers(1, 5000), st.data())
def test_the_range_of_the_difference_of_faults_holds_the_difference(
    n: int, m: int, data: st.DataObject
) -> None:
    a = data.draw(st.integers(0, n))
    b = data.draw(st.integers(0, m))
    found = compare_faults(
        figures(1, traffic(requests=n, faults=a)), figures(2, traffic(requests=m, faults=b))
    )
    assert found.difference.value is not None
    assert found.difference.range is not None
    low, high = found.difference.range
    assert -1 <= low <= found.difference.value + 1e-9
    assert found.difference.value - 1e-9 <= high <= 1
    if a * m == b * n:
        assert found.verdict is Verdict.ALIKE


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    # As in Newcombe 1998, table 1, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)],
)
def test_wilson_gives_the_published_ranges(count: int, total: int, low: float, high: float) -> None:
    assert wilson(count, total) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_newcombes_published_difference() -> None:
    # Newcombe 1998, method 10, 56/70 against 48/80: 0.0524 to 0.3339.
    found = compare_faults(
        figures(1, traffic(requests=80, faults=48)), figures(2, traffic(requests=70, faults=56))
    )
    assert found.verdict is Verdict.WORSE
    assert found.difference.range == (
        pytest.approx(0.0524, abs=5e-5),
        pytest.approx(0.3339, abs=5e-5),
    )


def test_a_silent_version_is_not_judged() -> None:
    silent, busy = figures(1, Counted()), figures(2, traffic(requests=100, faults=1))
    assert compare_faults(silent, busy).verdict is Verdict.UNKNOWN
    assert compare_latencies(silent, busy).verdict is Verdict.UNKNOWN


def test_only_the_stretch_in_which_both_had_requests_is_shared() -> None:
    def minutes(version: int, first: int, last: int) -> list[tuple[datetime, int, int]]:
        return [(NOON + timedelta(minutes=n), version, 5) for n in range(first, last)]

    both = [*minutes(1, 0, 30), *minutes(2, 10, 40), (NOON + timedelta(minutes=50), 1, 0)]
    assert shared_span(both, 1, 2) == (
        NOON + timedelta(minutes=10),
        NOON + timedelta(minutes=29),
    )
    assert shared_span([*minutes(1, 0, 5), *minutes(2, 6, 9)], 1, 2) is None
    assert shared_span(minutes(1, 0, 5), 1, 2) is None


def test_one_axis_loses_no_value() -> None:
    fine = Histogram((1.0, 2.0, 5.0), (1, 2, 3, 4))
    coarse = Histogram((1.0, 5.0), (10, 20, 30))
    edges, (first, second) = on_one_axis(fine, coarse)
    assert edges == (1.0, 5.0)
    assert (first, second) == ((1, 5, 4), (10, 20, 30))
    assert on_one_axis(None, histograms.empty(BOUNDS)) == ((), ((), ()))
    assert on_one_axis(None, fine) == ((1.0, 2.0, 5.0), ((0, 0, 0, 0), (1, 2, 3, 4)))
    assert all(a < b for a, b in pairwise(edges))
