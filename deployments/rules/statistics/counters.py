"""Differences of counters that only grow, until their process restarts and they begin at zero."""

from __future__ import annotations

from collections.abc import Mapping


def delta(later: int, earlier: int | None, *, restarted: bool = False) -> int:
    """How much a counter grew between two readings; never negative.

    `earlier` None means it was never read: the growth is unknown and counts as 0. Pass 0 for a
    counter that is new in a process already known. `restarted` says that the process began anew in
    between, which the numbers alone do not show once the counter has passed its old value.
    """
    if earlier is None:
        return 0
    if restarted or later < earlier:
        return max(later, 0)
    return later - earlier


def deltas(
    later: Mapping[str, int], earlier: Mapping[str, int] | None, *, restarted: bool = False
) -> dict[str, int]:
    """`delta` for each counter of one set.

    A counter that went backwards began anew by itself: a gateway that is told of a group of hosts
    anew forgets the counts by status code of the old one, and goes on with the others. A counter
    missing from a set that was read before began at 0.
    """
    if earlier is None:
        return dict.fromkeys(later, 0)
    return {
        name: delta(value, earlier.get(name, 0), restarted=restarted)
        for name, value in later.items()
    }
