"""Windows over the live ring: what analyses, escalations and the compare view are made of."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.adapters import live_store
from deployments.rules.statistics import histograms
from deployments.rules.statistics.live_window import Second, to_point
from deployments.rules.statistics.rollups import Traffic
from deployments.rules.statistics.traffic_windows import (
    WindowNumbers,
    nested_windows,
    window_numbers,
)
from deployments.selectors.statistics.analysis_windows import live_rings, traffic_windows

BOUNDS = (1.0, 10.0, 80.0, 100.0)
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def second(ago: float, **versions: tuple[int, int, int, list[int]]) -> dict[str, object]:
    """A point `ago` seconds before NOW; v4=(requests, caller faults, provider faults, buckets)."""
    traffic = {
        int(name[1:]): Traffic(
            requests, caller, provider, {}, histograms.Histogram(BOUNDS, tuple(counts))
        )
        for name, (requests, caller, provider, counts) in versions.items()
    }
    return to_point(Second(NOW.timestamp() - ago, traffic, {}))


def test_only_what_lies_within_the_window_counts() -> None:
    points = [
        second(10.0, v4=(100, 0, 100, [0, 0, 0, 0, 100])),
        second(3.0, v4=(10, 1, 2, [5, 5, 0, 0, 0]), v3=(90, 0, 0, [90, 0, 0, 0, 0])),
        second(1.0, v4=(10, 0, 1, [0, 0, 10, 0, 0])),
    ]
    now = NOW.timestamp()
    found = window_numbers(points, BOUNDS, since=now - 5, now=now)
    assert (found[4].requests, found[4].provider_faults, found[4].caller_faults) == (20, 3, 1)
    assert found[4].error_share == pytest.approx(0.15)
    assert found[3].requests == 90
    assert found[4].p50_ms == pytest.approx(10.0)
    assert found[4].age_s == pytest.approx(1.0, abs=0.01)


def test_nobody_called_and_nothing_measured_are_told_apart() -> None:
    now = NOW.timestamp()
    assert window_numbers([], BOUNDS, since=now - 5, now=now) == {}
    quiet = window_numbers([second(1.0)], BOUNDS, since=now - 5, now=now)
    assert list(quiet) == [0]
    assert quiet[0].requests == 0


def test_slower_blames_only_what_is_certain() -> None:
    numbers = WindowNumbers(requests=10, bounds=BOUNDS, buckets={2: 4, 3: 3, 4: 3})
    assert numbers.slower_than(80.0) == 6
    assert numbers.slower_than(90.0) == 3, "the bucket of 80 to 100 may lie below 90"
    assert numbers.slower_than(1000.0) == 0
    unknown = WindowNumbers(requests=10, bounds=(), buckets={2: 10})
    assert unknown.slower_than(80.0) == 0, "without bounds nothing is certain"


@given(st.lists(st.tuples(st.floats(0.0, 60.0), st.integers(0, 50)), max_size=40))
def test_the_parts_of_a_window_add_up(counts: list[tuple[float, int]]) -> None:
    points = [
        second(ago, v1=(n, 0, n // 2, [n, 0, 0, 0, 0])) for ago, n in sorted(counts, reverse=True)
    ]
    now = NOW.timestamp()
    whole = window_numbers(points, BOUNDS, since=now - 61, now=now).get(1, WindowNumbers())
    older = window_numbers(points, BOUNDS, since=now - 61, now=now - 20).get(1, WindowNumbers())
    newer = window_numbers(points, BOUNDS, since=now - 20, now=now).get(1, WindowNumbers())
    both = older + newer
    assert (both.requests, both.provider_faults) == (whole.requests, whole.provider_faults)
    assert sum(both.buckets.values()) == sum(whole.buckets.values())


def test_windows_within_each_other_are_what_each_is_alone() -> None:
    points = [second(ago, v4=(int(ago), 0, 1, [int(ago), 0, 0, 0, 0])) for ago in (29.0, 9.0, 2.0)]
    now = NOW.timestamp()
    nested = nested_windows(points, BOUNDS, version=4, lengths=(3.0, 10.0, 30.0), now=now)
    for length, numbers in nested.items():
        alone = window_numbers(points, BOUNDS, since=now - length, now=now)[4]
        assert (numbers.requests, numbers.provider_faults, numbers.buckets) == (
            alone.requests,
            alone.provider_faults,
            alone.buckets,
        )
    quiet = nested_windows(points, BOUNDS, version=9, lengths=(3.0,), now=now)
    assert quiet[3.0].requests == 0


@pytest.mark.django_db
def test_many_rings_are_read_at_once() -> None:
    points = {f"production/windows_{n}": second(1.0, v1=(n, 0, 0, [n, 0, 0, 0, 0])) for n in (1, 2)}
    live_store.store({}, points, BOUNDS)
    rings = live_rings([*points, "production/windows_none"], seconds=5)
    assert [rings.window(key, seconds=5, now=NOW)[1].requests for key in points] == [1, 2]
    assert rings.window("production/windows_none", seconds=5, now=NOW) == {}
    assert traffic_windows("production", "windows_2", seconds=5, now=NOW)[1].requests == 2


def test_a_gateway_that_has_just_begun_takes_no_measurement_from_the_points_before() -> None:
    live_store.store({}, {"production/m": second(2, v4=(3, 0, 0, [1, 2, 0, 0, 0]))}, BOUNDS)
    live_store.store({}, {"production/m": to_point(Second(NOW.timestamp() - 1, {}, {}))}, ())
    assert live_store.ring("production/m")[1] == BOUNDS


def test_what_the_baseline_answered_for_a_version_was_asked_of_that_version() -> None:
    points = [
        # requests, caller faults, provider faults, buckets, rescued, time-outs, without a node
        {"t": 100.0, "v": {"1": [90, 0, 0, {}, 0, 0, 0], "2": [0, 0, 0, {}, 30, 7, 5]}, "w": {}},
        {"t": 101.0, "v": {"2": [10, 0, 0, {}, 0, 0, 0]}, "w": {}},
    ]
    found = window_numbers(points, (), since=90.0, now=102.0)
    assert (found[2].requests, found[2].provider_faults, found[2].error_share) == (40, 30, 0.75)
    nested = nested_windows(points, (), version=2, lengths=[1.5, 10.0], now=102.0)
    assert [(one.requests, one.provider_faults) for one in nested.values()] == [(10, 0), (40, 30)]
