"""Counting: readings, roll-ups, the live window, and the grid of a chart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.rules.gateways.snapshots import ClusterKey
from deployments.rules.statistics import charts
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.live_window import LiveWindow, Second, from_point, to_point
from deployments.rules.statistics.readings import Reader, Reading
from deployments.rules.statistics.rollups import (
    Traffic,
    Work,
    add_counts,
    counted_version,
    merge_any,
    traffic_of,
)

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
BOUNDS = (1.0, 10.0)


def reading(count: int, buckets: tuple[int, ...] = ()) -> Reading:
    return Reading({"n": count}, Histogram(BOUNDS, buckets) if buckets else None)


def test_what_was_there_before_the_first_reading_is_not_counted() -> None:
    reader = Reader()
    assert reader.read(100.0, {"a": reading(7, (7, 0, 0))})["a"] == reading(0, (0, 0, 0))
    assert reader.read(100.4, {"a": reading(9, (8, 1, 0))})["a"] == reading(2, (1, 1, 0))


def test_a_new_series_of_a_known_process_began_at_zero() -> None:
    reader = Reader(known=True, epoch=100.0)
    assert reader.read(100.0, {"b": reading(4, (4, 0, 0))})["b"] == reading(4, (4, 0, 0))


def test_a_restarted_process_counts_from_zero_even_past_the_old_value() -> None:
    reader = Reader(known=True, epoch=100.0, last={"a": reading(5, (5, 0, 0))})
    grown = reader.read(500.0, {"a": reading(6, (6, 0, 0))})
    assert grown["a"] == reading(6, (6, 0, 0))
    assert reader.epoch == 500.0


def test_a_counter_that_fell_was_reset() -> None:
    reader = Reader(known=True, last={"a": reading(5)})
    assert reader.read(0.0, {"a": reading(2)})["a"] == reading(2)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30))
def test_growth_is_counted_once_whatever_restarts(steps: list[tuple[int, bool]]) -> None:
    reader, total, value, epoch, seen = Reader(known=True), 0, 0, 0.0, 0
    for grown, restarted in steps:
        if restarted:
            value, epoch = 0, epoch + 60
        value += grown
        seen += grown
        total += reader.read(epoch, {"a": reading(value)})["a"].counts["n"]
    assert total == seen


def test_a_reading_survives_its_storage() -> None:
    for one in (reading(3), reading(3, (1, 2, 0))):
        assert Reading.from_json(one.to_json()) == one


def test_who_is_to_blame_for_an_answer() -> None:
    key = ClusterKey.parse("production/fraud_detector/3")
    assert key is not None
    grown = {"ok_2xx": 5, "client_4xx": 2, "server_5xx": 3, "timeout": 1, "total": 11}
    found = traffic_of(key, grown, Histogram(BOUNDS, (10, 0, 0)))
    assert (found.requests, found.caller_faults, found.provider_faults) == (10, 2, 3)
    assert found.statuses == {"2xx": 5, "4xx": 2, "5xx": 3, "timeout": 1}
    assert counted_version(key) == 3
    fallback = ClusterKey.parse("production/fraud_detector/fallback")
    shadow = ClusterKey.parse("production/fraud_detector/3/shadow")
    assert fallback is not None
    assert shadow is not None
    assert counted_version(fallback) == 0
    assert traffic_of(fallback, {"ok_2xx": 4}, Histogram((), (4,))).statuses["fallback"] == 4
    assert counted_version(shadow) is None


histograms = st.sampled_from([(1.0, 10.0), (1.0, 5.0, 10.0), (10.0,), ()]).flatmap(
    lambda bounds: st.lists(
        st.integers(0, 100), min_size=len(bounds) + 1, max_size=len(bounds) + 1
    ).map(lambda counts: Histogram(bounds, tuple(counts)))
)


@given(histograms, histograms)
def test_merging_loses_no_value(left: Histogram, right: Histogram) -> None:
    merged = merge_any(left, right)
    assert merged is not None
    assert merged.total == left.total + right.total


def test_a_histogram_without_values_takes_no_sharpness_away() -> None:
    sharp = Histogram((1.0, 80.0), (3, 1, 0))
    assert merge_any(Histogram((), (0,)), sharp) == sharp
    assert merge_any(sharp, Histogram((), (0,))) == sharp
    assert merge_any(None, None) is None


def test_counts_add_up_without_zeros() -> None:
    assert add_counts({"2xx": 1, "5xx": 0}, {"2xx": 2, "4xx": 3}) == {"2xx": 3, "4xx": 3}


def second(at: float, requests: int, faults: int = 0) -> Second:
    traffic = Traffic(requests, 0, faults, {}, Histogram(BOUNDS, (requests, 0, 0)))
    return Second(at, {1: traffic, 0: Traffic()}, {1: Work(requests, 1, 2_000_000, 8_000_000)})


def test_live_numbers_are_of_the_last_half_minute() -> None:
    window = LiveWindow()
    assert window.numbers() == {}
    for index in range(40):
        window.add(second(float(index), 10, faults=1))
    numbers = window.numbers()
    assert numbers["requests_per_second"] == 10
    assert numbers["provider_share"] == 0.1
    assert numbers["p50_ms"] == 0.5
    assert numbers["versions"]["1"]["queue_ms"] == 0.2
    assert numbers["versions"]["1"]["batch_size"] == 10
    assert numbers["versions"]["0"]["provider_share"] is None
    assert not window.idle
    for index in range(40, 80):
        window.add(second(float(index), 0))
    assert window.idle
    assert window.numbers()["p99_ms"] is None
    assert window.numbers()["requests_per_second"] == 0


def test_a_second_survives_the_ring() -> None:
    one = second(5.0, 3, faults=1)
    found = from_point(to_point(one), BOUNDS)
    assert found.traffic[1] == one.traffic[1]
    assert found.work == one.work
    assert found.traffic[0].requests == 0


def test_a_grid_is_aligned_and_its_steps_fit_the_span() -> None:
    grid = charts.grid(NOON - timedelta(minutes=15), NOON, step=5, finest=1)
    assert (len(grid.times), grid.step) == (180, 5)
    assert grid.slot(NOON - timedelta(seconds=3)) == NOON - timedelta(seconds=5)
    assert grid.slot(NOON) is None
    month = charts.grid(NOON - timedelta(days=28), NOON)
    assert month.step == 14400
    assert len(month.times) <= 240
    for start, step in ((NOON, 0), (NOON - timedelta(days=28), 60), (NOON - timedelta(hours=1), 7)):
        with pytest.raises(Invalid):
            charts.grid(start, NOON, step=step)


def test_what_was_not_observed_is_a_gap() -> None:
    grid = charts.grid(NOON, NOON + timedelta(minutes=3), step=60)
    line = charts.series("v3", grid, {NOON: 5, NOON + timedelta(minutes=2): 0}, float, version=3)
    assert line == {
        "name": "v3",
        "version": 3,
        "x": ["2026-01-31T12:00:00Z", "2026-01-31T12:01:00Z", "2026-01-31T12:02:00Z"],
        "y": [5.0, None, 0.0],
    }
    document = charts.chart([line], limit=(80, "contract"), markers=[(NOON, "95/5")])
    assert document["limit"] == {"value": 80, "label": "contract"}
    assert document["markers"] == [{"t": "2026-01-31T12:00:00Z", "label": "95/5"}]


@pytest.mark.parametrize("text", ["", "m", "0m", "15", "-1h", "1y"])
def test_spans_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        charts.parse_span(text)
    assert charts.parse_span("90m") == timedelta(hours=1, minutes=30)
