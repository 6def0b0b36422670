"""Moving weights moves just the callers that have to move, however often and among however many."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.rules.traffic.slices import (
    MOST_SLICES,
    fresh,
    least_moved,
    moved_to,
    of_split,
    share_moved,
    weights_of,
)
from deployments.rules.traffic.splits import WHOLE


@st.composite
def weights(draw: st.DrawFn) -> dict[int, int]:
    versions = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8, unique=True))
    least = len(versions) - 1
    cuts = sorted(draw(st.lists(st.integers(0, WHOLE), min_size=least, max_size=least)))
    edges = [0, *cuts, WHOLE]
    return {v: edges[i + 1] - edges[i] for i, v in enumerate(versions)}


@settings(max_examples=300)
@given(st.lists(weights(), min_size=2, max_size=25))
def test_only_those_move_who_must(path: list[dict[int, int]]) -> None:
    slices = fresh(path[0])
    for wanted in path[1:]:
        after = moved_to(slices, wanted)
        assert weights_of(after) == {v: p for v, p in sorted(wanted.items()) if p}
        assert all(points > 0 for _, points in after)
        assert share_moved(slices, after) == least_moved(weights_of(slices), wanted)
        assert len(after) <= MOST_SLICES
        slices = after


@given(weights())
def test_the_same_weights_move_nobody(wanted: dict[int, int]) -> None:
    assert moved_to(fresh(wanted), wanted) == fresh(wanted)


def test_a_rollout_moves_its_share_and_nobody_twice() -> None:
    slices, moved = fresh({3: WHOLE}), []
    for percent in (5, 10, 50, 100):
        after = moved_to(slices, {3: WHOLE - percent * 100, 4: percent * 100})
        moved.append(share_moved(slices, after))
        slices = after
    assert moved == [500, 500, 4000, 5000]
    assert slices == ((4, WHOLE),)


def test_a_layout_by_numbers_would_move_bystanders() -> None:
    before, after = {1: 3000, 2: 3500, 3: 3500}, {1: 5000, 2: 3500, 3: 1500}
    assert share_moved(fresh(before), fresh(after)) == 4000
    assert share_moved(fresh(before), moved_to(fresh(before), after)) == 2000


@pytest.mark.parametrize(
    ("stored", "expected"),
    [([], ((1, 9000), (2, 1000))), ([[2, 1000], [1, 9000]], ((2, 1000), (1, 9000)))],
)
def test_a_stored_layout_is_read(stored: list[list[int]], expected: object) -> None:
    assert of_split(stored, {2: 1000, 1: 9000}) == expected


def test_nobody_moves_who_had_no_version() -> None:
    assert share_moved((), fresh({1: WHOLE})) == 0
    assert moved_to((), {1: WHOLE}) == ((1, WHOLE),)
    assert moved_to(fresh({1: WHOLE}), {}) == ()
