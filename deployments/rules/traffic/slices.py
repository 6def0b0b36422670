"""Which part of the line of callers' hashes each version holds, and moving as few as can be.

A gateway hashes a caller to a point in [0, 10000). A split laid out by version numbers moves
callers between two versions that neither grow nor shrink, only because a third one did. So the
layout is kept: pieces in order, and a change cuts off exactly what a version gives up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from deployments.rules.traffic.splits import WHOLE

Slices = tuple[tuple[int, int], ...]
"""(version, basis points) in the order in which they divide the line; they sum to 10000."""

MOST_SLICES = 64
"""More pieces than this are laid out anew, so that no table grows without end."""


def fresh(weights: Mapping[int, int]) -> Slices:
    """One piece for each version with weight, by number."""
    return tuple((version, points) for version, points in sorted(weights.items()) if points)


def of_split(stored: Iterable[Sequence[int]], weights: Mapping[int, int]) -> Slices:
    """The layout of a stored split; one from before layouts were kept is laid out by number."""
    return tuple((int(version), int(points)) for version, points in stored) or fresh(weights)


def weights_of(slices: Slices) -> dict[int, int]:
    """What each version holds of the line."""
    found: dict[int, int] = {}
    for version, points in slices:
        found[version] = found.get(version, 0) + points
    return dict(sorted(found.items()))


def moved_to(before: Slices, weights: Mapping[int, int]) -> Slices:
    """The layout for new weights that moves exactly the share that must move.

    That share is what growing versions gain (and shrinking ones lose); everybody else keeps their
    version. Growing versions take from pieces beside their own where they can, then whole pieces,
    and cut a piece only when nothing else is left. `weights` sum to 10000, or hold nothing.
    """
    if not before or not any(weights.values()):
        return fresh(weights)
    now = weights_of(before)
    pieces = [[version, points] for version, points in before]
    spare = {v: points - weights.get(v, 0) for v, points in now.items()}
    spare = {v: points for v, points in spare.items() if points > 0}
    for version, points in sorted(weights.items()):
        need = points - now.get(version, 0)
        while need > 0:
            need -= _take(pieces, version, need, spare)
            pieces = _joined(pieces)
    after = tuple((version, points) for version, points in pieces)
    return after if len(after) <= MOST_SLICES else fresh(weights)


def least_moved(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Basis points of callers that any layout has to move between these weights."""
    return sum(max(points - before.get(version, 0), 0) for version, points in after.items())


def share_moved(before: Slices, after: Slices) -> int:
    """Basis points of the sticky callers whose version changes; 0 when nobody had one before."""
    cuts = sorted({0, WHOLE, *_ends(before), *_ends(after)})
    owners = [
        (_owner(before, start), _owner(after, start), end - start) for start, end in pairwise(cuts)
    ]
    return sum(length for old, new, length in owners if None not in (old, new) and old != new)


def _take(pieces: list[list[int]], version: int, need: int, spare: dict[int, int]) -> int:
    """Move up to `need` points of one donor's piece to the version; gives how many."""
    for index, (owner, points) in enumerate(pieces):
        if owner not in spare:
            continue
        left = index > 0 and pieces[index - 1][0] == version
        right = index + 1 < len(pieces) and pieces[index + 1][0] == version
        if left or right:
            taken = min(need, points, spare[owner])
            pieces[index - 1 if left else index + 1][1] += taken
            _give_up(pieces, index, taken, spare)
            return taken
    donors = [(points, index) for index, (owner, points) in enumerate(pieces) if owner in spare]
    whole = [(p, i) for p, i in donors if p <= need and p <= spare[pieces[i][0]]]
    points, index = max(whole or donors)
    owner = pieces[index][0]
    taken = min(need, points, spare[owner])
    _give_up(pieces, index, taken, spare)
    pieces.insert(index + (pieces[index][1] > 0), [version, taken])
    return taken


def _give_up(pieces: list[list[int]], index: int, taken: int, spare: dict[int, int]) -> None:
    owner = pieces[index][0]
    pieces[index][1] -= taken
    spare[owner] -= taken
    if not spare[owner]:
        del spare[owner]


def _joined(pieces: list[list[int]]) -> list[list[int]]:
    joined: list[list[int]] = []
    for version, points in pieces:
        if not points:
            continue
        if joined and joined[-1][0] == version:
            joined[-1][1] += points
        else:
            joined.append([version, points])
    return joined


def _ends(slices: Slices) -> list[int]:
    ends, end = [], 0
    for _, points in slices:
        end += points
        ends.append(end)
    return ends


def _owner(slices: Slices, point: int) -> int | None:
    ends = _ends(slices)
    return next((v for (v, _), end in zip(slices, ends, strict=True) if point < end), None)
