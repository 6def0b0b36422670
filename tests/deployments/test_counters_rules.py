"""Counters never give a negative growth, whatever restarted in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.statistics.counters import delta, deltas

COUNTS = st.integers(0, 10**12)
SETS = st.dictionaries(st.sampled_from(["total", "ok_2xx", "server_5xx", "timeout"]), COUNTS)


@pytest.mark.parametrize(
    ("later", "earlier", "restarted", "growth"),
    [
        (15, 10, False, 5),
        (10, 10, False, 0),
        (3, 10, False, 3),
        (15, 10, True, 15),
        (15, None, False, 0),
        (15, 0, False, 15),
    ],
)
def test_growth(later: int, earlier: int | None, restarted: bool, growth: int) -> None:
    assert delta(later, earlier, restarted=restarted) == growth


def test_a_counter_that_fell_began_anew_by_itself() -> None:
    """As Envoy counts when a cluster is told anew: 66 rescued requests are not rescued twice."""
    earlier = {"total": 125, "ok_2xx": 125, "retried_5xx": 66}
    later = {"total": 126, "ok_2xx": 1, "retried_5xx": 66}
    assert deltas(later, earlier) == {"total": 1, "ok_2xx": 1, "retried_5xx": 0}
    assert deltas(later, earlier, restarted=True) == later


def test_a_set_never_seen_tells_nothing_and_a_new_counter_began_at_zero() -> None:
    assert deltas({"total": 7}, None) == {"total": 0}
    assert deltas({"total": 9, "timeout": 2}, {"total": 7}) == {"total": 2, "timeout": 2}


@given(SETS, st.none() | SETS, st.booleans())
def test_growth_is_never_negative_nor_more_than_the_count(
    later: dict[str, int], earlier: dict[str, int] | None, restarted: bool
) -> None:
    grown = deltas(later, earlier, restarted=restarted)
    assert set(grown) == set(later)
    assert all(0 <= grown[name] <= later[name] for name in later)


@given(st.lists(st.tuples(COUNTS, st.booleans()), min_size=1, max_size=20))
def test_growths_add_up_across_restarts(steps: list[tuple[int, bool]]) -> None:
    value, seen, total = 0, 0, 0
    for step, restart in steps:
        value = step if restart else value + step
        total += step
        seen += delta(value, value - step if not restart else 0, restarted=restart)
    assert seen == total
