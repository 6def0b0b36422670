"""Whom an answer counts against, and under which bounds latencies are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.statistics.answers import (
    Answer,
    Meanings,
    against,
    by_class,
    meanings_of,
    traffic_of_answers,
)
from deployments.rules.statistics.histograms import Histogram, coarsen, count_at_most
from deployments.rules.statistics.latency_bounds import (
    EDGES_MS,
    STANDARD_MS,
    bounds_for,
    from_bins,
    is_exact,
    kept,
    to_bins,
    upper_edge,
)
from deployments.rules.statistics.live_window import Second, from_point, rebased, to_point
from deployments.rules.statistics.rollups import Traffic
from deployments.rules.statistics.shares import divide

VERSION = "production/fraud/3"


def counts(*answers: tuple[int, str, str, int]) -> dict[str, int]:
    return {Answer(status, cluster, version).name: n for status, cluster, version, n in answers}


def test_each_answer_is_counted_once_under_whom_it_came_from() -> None:
    grown = counts(
        (200, VERSION, "3", 90),
        (400, VERSION, "3", 4),
        (500, VERSION, "3", 3),
        (504, VERSION, "", 2),
        (401, VERSION, "", 5),
        (405, "", "", 1),
        (0, VERSION, "", 7),
        (200, "production/fraud/fallback", "fallback", 6),
        (503, "production/fraud/open", "", 8),
    )
    found = traffic_of_answers(grown, {})
    assert sum(one.requests for one in found.values()) == sum(grown.values())
    version, gateway = found[3], found[0]
    assert (version.requests, version.caller_faults, version.provider_faults) == (106, 11, 5)
    assert version.statuses == {"200": 90, "400": 4, "500": 3, "504": 2, "caller_left": 7}
    assert (gateway.requests, gateway.caller_faults, gateway.provider_faults) == (20, 6, 8)
    assert gateway.statuses == {
        "refused_401": 5,
        "refused_405": 1,
        "200": 6,
        "503": 8,
        "fallback": 6,
        "open": 8,
    }


def test_the_contract_says_whom_a_status_counts_against() -> None:
    meanings = meanings_of([(429, "provider"), (429, "caller"), (422, "caller"), (503, "none")])
    assert meanings == {429: "provider", 422: "caller", 503: "none"}
    grown = counts((429, VERSION, "", 2), (503, "production/fraud/open", "", 3), (502, "", "", 1))
    found = traffic_of_answers(grown, meanings)[0]
    # What counts against nobody is neither good nor bad.
    assert (found.provider_faults, found.caller_faults) == (3, 3)
    assert found.statuses["unblamed"] == 3


@pytest.mark.parametrize(
    ("status", "blamed"),
    [(200, None), (302, None), (400, "caller"), (499, "caller"), (500, "provider"), (0, "caller")],
)
def test_what_no_contract_names(status: int, blamed: str | None) -> None:
    assert against(status, {}) == blamed


@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from([0, 200, 302, 400, 401, 422, 429, 500, 503, 504]),
            st.sampled_from(["", VERSION, "production/fraud/4/retried", "production/fraud/open"]),
            st.sampled_from(["", "3"]),
        ),
        st.integers(0, 10**6),
    ),
    st.dictionaries(
        st.sampled_from([400, 429, 500, 503]), st.sampled_from(["caller", "provider", "none"])
    ),
)
def test_no_answer_is_lost_or_blamed_twice(
    answers: dict[tuple[int, str, str], int], meanings: Meanings
) -> None:
    grown = {Answer(*answer).name: n for answer, n in answers.items()}
    total = sum(traffic_of_answers(grown, meanings).values(), Traffic())
    assert total.requests == sum(grown.values())
    assert total.caller_faults + total.provider_faults <= total.requests
    codes = {n: c for n, c in by_class(total.statuses).items() if n.endswith("xx")}
    assert sum(codes.values()) + total.statuses.get("caller_left", 0) == total.requests


def test_statuses_by_class() -> None:
    statuses = {"200": 5, "204": 1, "2xx": 3, "refused_401": 2, "400": 1, "timeout": 4}
    assert by_class(statuses) == {"2xx": 9, "4xx": 3, "timeout": 4}


@given(st.lists(st.integers(0, 120_000), max_size=60), st.integers(1, 12_000))
def test_a_threshold_at_an_edge_is_counted_exactly(values: list[int], threshold: int) -> None:
    """As Envoy keeps them: whole milliseconds in bins of two significant digits."""

    def bin_of(ms: int) -> float:
        width = 1
        while ms >= 100 * width:
            width *= 10
        return upper_edge(ms // width * width, width)

    latency = from_bins((bin_of(ms), 1) for ms in values)
    assert latency.total == len(values)
    assert from_bins(to_bins(latency)) == latency
    if is_exact(threshold):
        bounds = bounds_for([threshold])
        faster = sum(ms < threshold for ms in values)
        assert count_at_most(kept(latency, bounds), threshold) == faster


def test_thresholds_inside_a_bin_are_no_bounds() -> None:
    assert 80.0 in bounds_for([80.0])
    assert 85.0 in bounds_for([85.0])
    assert bounds_for([125.0]) == STANDARD_MS
    assert not is_exact(0.5)
    assert set(STANDARD_MS) <= set(EDGES_MS)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=20))
def test_live_points_keep_their_meaning_under_new_bounds(values: list[int]) -> None:
    before, after = bounds_for([]), bounds_for([35.0, 85.0])
    latency = coarsen(from_bins((upper_edge(ms, 1), 1) for ms in values if ms < 100), before)
    point = to_point(Second(1.0, {1: Traffic(len(values), latency=latency)}, {}), before)
    moved = from_point(rebased(point, before, after), after).traffic[1].latency
    assert moved is not None
    assert (moved.total, moved.bounds) == (latency.total, after)
    for bound in before:
        assert count_at_most(moved, bound) == count_at_most(latency, bound)


def test_a_point_is_written_under_the_bounds_of_all() -> None:
    latency = Histogram((40.0, 80.0), (3, 2, 1))
    point = to_point(Second(1.0, {1: Traffic(6, latency=latency)}, {}), (20.0, 40.0, 80.0))
    assert point["v"]["1"][3] == {"1": 3, "2": 2, "3": 1}


@given(st.integers(0, 30), st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_collectors_come_to_share_what_there_is(
    sources: int, events: list[bool], first: int
) -> None:
    """Whoever comes or goes, after a few looks each source has one reader, and shares are even."""
    wanted = {f"gateway:{n}" for n in range(sources)}
    held: list[set[str]] = [set() for _ in range(first)]

    def look() -> None:
        for mine in held:
            division = divide(wanted, mine, len(held))
            mine -= set(division.give)
            free = wanted - set().union(*held)
            mine |= set([name for name in division.candidates if name in free][: division.room])

    for comes in events:
        held = [*held, set()] if comes or len(held) == 1 else held[1:]
        look()
    for _ in range(3):
        look()
    assert set().union(*held) == wanted
    assert sum(map(len, held)) == sources
    assert max(map(len, held)) <= -(-sources // len(held))
