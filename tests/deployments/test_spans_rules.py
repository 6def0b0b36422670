from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.objectives.spans import (
    MINUTE,
    Span,
    ceil_minute,
    clip,
    floor_minute,
    left_over,
    minutes_of,
    union,
)

ZERO = datetime(2026, 3, 1, tzinfo=UTC)


def span(start: int, end: int) -> Span:
    return Span(ZERO + start * MINUTE, ZERO + end * MINUTE)


def covered(spans: list[Span]) -> set[int]:
    """Every minute's number, counted one by one."""
    return {
        minute
        for one in spans
        for minute in range((one.start - ZERO) // MINUTE, (one.end - ZERO) // MINUTE)
    }


SPANS = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 100)).map(lambda two: span(*sorted(two))),
    max_size=8,
)


@given(SPANS)
def test_a_union_covers_the_same_minutes_once_and_in_order(spans: list[Span]) -> None:
    found = union(spans)
    assert covered(found) == covered(spans)
    assert minutes_of(spans) == len(covered(spans))
    assert all(a.end < b.start for a, b in itertools.pairwise(found))


@given(SPANS, st.integers(0, 50), st.integers(51, 100))
def test_what_is_left_over_and_what_was_taken_out_are_the_whole(
    spans: list[Span], start: int, end: int
) -> None:
    within = span(start, end)
    left = left_over(within, spans)
    taken = [part for one in union(spans) if (part := clip(one, within)) is not None]
    assert covered(left).isdisjoint(covered(taken))
    assert covered(left) | covered(taken) == covered([within])
    assert all(one.start < one.end for one in left)


def test_moments_are_rounded_to_whole_minutes() -> None:
    moment = ZERO + timedelta(seconds=61)
    assert floor_minute(moment) == ZERO + MINUTE
    assert ceil_minute(moment) == ZERO + 2 * MINUTE
    assert ceil_minute(ZERO) == floor_minute(ZERO) == ZERO
    assert not span(0, 5).meets(span(5, 9))
    assert span(0, 6).meets(span(5, 9))
