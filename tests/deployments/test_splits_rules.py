"""Weights are exact: nothing is lost or invented, however they are moved."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Conflict, Invalid
from deployments.rules.traffic.splits import (
    WHOLE,
    Change,
    check_ready,
    diff,
    parse_weights,
    redistribute,
    set_share,
    to_percent,
)


@st.composite
def splits(draw: st.DrawFn, least: int = 1) -> dict[int, int]:
    """Basis points that sum to 10000, for one to six versions; some may be 0."""
    versions = draw(st.lists(st.integers(1, 40), min_size=least, max_size=6, unique=True))
    cuts = sorted(
        draw(
            st.lists(st.integers(0, WHOLE), min_size=len(versions) - 1, max_size=len(versions) - 1)
        )
    )
    edges = [0, *cuts, WHOLE]
    return {v: edges[i + 1] - edges[i] for i, v in enumerate(sorted(versions))}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"3": 95, "4": 5}, {3: 9500, 4: 500}),
        ({"4": "0.01", "3": "99.99"}, {3: 9999, 4: 1}),
        ({1: 33.33, 2: 33.33, 3: 33.34}, {1: 3333, 2: 3333, 3: 3334}),
        ({7: Decimal("100.00"), 8: 0}, {7: 10000, 8: 0}),
    ],
)
def test_percent_becomes_basis_points(raw: dict[str, object], expected: dict[int, int]) -> None:
    weights = parse_weights(raw)
    assert weights == expected
    assert list(weights) == sorted(weights)


@pytest.mark.parametrize(
    ("raw", "code", "pointer", "words"),
    [
        ({"3": 95, "4": 4}, "weights_not_100", "/weights", "99 %"),
        ({"3": 95, "4": 5.5}, "weights_not_100", "/weights", "100.5 %"),
        ({}, "weights_not_100", "/weights", "0 %"),
        ({"3": 99.999, "4": 0.001}, "invalid_weights", "/weights/3", "two decimals"),
        ({"3": -1, "4": 101}, "invalid_weights", "/weights/3", "between 0 and 100"),
        ({"3": "many"}, "invalid_weights", "/weights/3", "number"),
        ({"3": True}, "invalid_weights", "/weights/3", "number"),
        ({"3": float("nan")}, "invalid_weights", "/weights/3", "between 0 and 100"),
        ({"3": None}, "invalid_weights", "/weights/3", "number"),
        ({"v3": 100}, "invalid_weights", "/weights/v3", "whole number"),
        ({"0": 100}, "invalid_weights", "/weights/0", "whole number"),
        ({"²": 100}, "invalid_weights", "/weights/²", "whole number"),
        ({"9" * 5000: 100}, "invalid_weights", f"/weights/{'9' * 5000}", "whole number"),
        ({"3": 50, 3: 50}, "invalid_weights", "/weights/3", "twice"),
    ],
)
def test_bad_weights_are_told_with_their_place(
    raw: dict[str, object], code: str, pointer: str, words: str
) -> None:
    with pytest.raises(Invalid) as caught:
        parse_weights(raw)
    assert caught.value.code == code
    assert caught.value.errors[0].pointer == pointer
    assert words in caught.value.errors[0].detail


@given(splits())
def test_percent_and_back_is_the_same(weights: dict[int, int]) -> None:
    assert parse_weights(to_percent(weights)) == weights


def test_weight_needs_a_ready_version() -> None:
    check_ready({3: 9500, 4: 500, 5: 0}, ready={3, 4})
    with pytest.raises(Conflict, match="v4, v5") as caught:
        check_ready({3: 9000, 4: 500, 5: 500}, ready=[3])
    assert caught.value.code == "not_ready"
    assert caught.value.status == 409


def test_the_share_of_the_gone_goes_to_the_others_in_proportion() -> None:
    assert redistribute({1: 6000, 2: 3000, 3: 1000}, {3}) == {1: 6667, 2: 3333}
    assert redistribute({1: 9500, 2: 500}, {1}) == {2: 10000}
    assert redistribute({1: 9500, 2: 500}, {1, 2}) == {}
    assert redistribute({1: 10000, 2: 0}, {1}) == {}


@given(splits(), st.sets(st.integers(1, 40)))
def test_redistribution_keeps_the_whole_and_the_order(
    weights: dict[int, int], gone: set[int]
) -> None:
    after = redistribute(weights, gone)
    if after:
        assert sum(after.values()) == WHOLE
        assert not set(after) & gone
    left = [v for v in weights if v not in gone]
    for one in left:
        for other in left:
            if after and weights[one] < weights[other]:
                assert after[one] <= after[other]


def test_one_slider_moves_the_others_in_proportion() -> None:
    assert set_share({1: 9000, 2: 500, 3: 500}, 1, 5000) == {1: 5000, 2: 2500, 3: 2500}
    assert set_share({1: 10000}, 2, 500) == {1: 9500, 2: 500}
    assert set_share({1: 0, 2: 10000}, 2, 4000) == {1: 6000, 2: 4000}
    assert set_share({1: 10000}, 1, 10000) == {1: 10000}


@pytest.mark.parametrize(
    ("weights", "version", "share"), [({1: 10000}, 1, 9000), ({1: 9, 2: 1}, 1, -1)]
)
def test_an_impossible_share_is_refused(weights: dict[int, int], version: int, share: int) -> None:
    with pytest.raises(Invalid):
        set_share(weights, version, share)


@given(splits(least=2), st.data())
def test_a_moved_slider_keeps_the_whole(weights: dict[int, int], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(sorted(weights)))
    share = data.draw(st.integers(0, WHOLE))
    after = set_share(weights, version, share)
    assert sum(after.values()) == WHOLE
    assert after[version] == share
    assert min(after.values()) >= 0


def test_differences_are_listed_by_version() -> None:
    assert diff({1: 9500, 2: 500}, {2: 500, 3: 9500}) == (Change(1, 9500, 0), Change(3, 0, 9500))
    assert diff({1: 10000}, {1: 10000, 2: 0}) == ()
