"""Which version a rollback goes to when nobody names one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
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

    `earlier` are the applied splits before the current one, newest first. One that never had more
    than a share on trial has not led. None when there is none.
    """
    bad = suspect(current, earlier[0] if earlier else {})
    for weights in earlier:
        most = max(weights.values(), default=0)
        leading = [v for v, points in weights.items() if points and points == most]
        if good := [version for version in leading if version != bad and version in ready]:
            return min(good)
    others = [v for v, points in current.items() if points and v != bad and v in ready]
    return max(others, key=lambda version: (current[version], -version), default=None)


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


def only_tried(version: int, since: datetime, history: Sequence[tuple[Weights, datetime]]) -> bool:
    """Whether a version never had most of the traffic before `since`, when its trial began.

    `history` are applied splits, each with when it was written.
    """
    return not any(
        weights.get(version, 0) and weights[version] == max(weights.values())
        for weights, at in history
        if at < since
    )


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
