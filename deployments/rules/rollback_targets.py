"""Which version a rollback goes to when nobody names one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

Weights = Mapping[int, int]


def suspect(current: Weights, previous: Weights) -> int | None:
    """The version that the last move favoured most: the one to get away from.

    The one whose share grew most from the previous split; with a tie the newest. None when nobody
    has traffic.
    """
    carrying = [version for version, points in current.items() if points]
    if not carrying:
        return None
    return max(carrying, key=lambda version: (current[version] - previous.get(version, 0), version))


def last_good(current: Weights, earlier: Sequence[Weights], ready: Collection[int]) -> int | None:
    """The version that led the traffic before the suspect came, and that is ready to take it back.

    `earlier` are the applied splits before the current one, newest first. None when there is none.
    """
    bad = suspect(current, earlier[0] if earlier else {})
    for weights in (*earlier, current):
        others = {
            version: points
            for version, points in weights.items()
            if points and version != bad and version in ready
        }
        if others:
            return max(others, key=lambda version: (others[version], -version))
    return None


def left_behind(history: Sequence[tuple[Weights, bool]]) -> set[int]:
    """Versions that somebody got away from and that have had no traffic since.

    `history` are splits, newest first, each with whether it was written to get away from
    something.
    """
    left: set[int] = set()
    since: set[int] = set()
    for (weights, flees), (before, _) in pairwise(history):
        since |= _carrying(weights)
        if flees:
            left |= _carrying(before) - since
    return left


def good_before(
    current: Weights, earlier: Sequence[Weights], avoid: Collection[int] = ()
) -> list[int]:
    """Every version that led or shared the traffic but `avoid`, the likeliest to be good first.

    Those that share it now come first, then those of earlier splits, newest first.
    """
    found: dict[int, None] = {}
    for weights in (current, *earlier):
        carrying = [version for version, points in weights.items() if points]
        for version in sorted(carrying, key=lambda version: (-weights[version], version)):
            found.setdefault(version)
    return [version for version in found if version not in avoid]


def _carrying(weights: Weights) -> set[int]:
    return {version for version, points in weights.items() if points}
