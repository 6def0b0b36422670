"""The only legal moves of placements, splits and rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from console.errors import Conflict


class PlacementState(StrEnum):
    """One release on one node."""

    PENDING = "pending"
    PLACING = "placing"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    UNLOADED = "unloaded"
    FAILED = "failed"


class SplitState(StrEnum):
    """One numbered revision of an endpoint's split; an applied one is superseded by the next."""

    PENDING = "pending"
    APPLIED = "applied"
    REFUSED = "refused"
    SUPERSEDED = "superseded"


class RolloutState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    PROMOTED = "promoted"
    ABORTED = "aborted"
    ROLLED_BACK = "rolled_back"


_P, _S, _R = PlacementState, SplitState, RolloutState
_ENDINGS = frozenset({_R.PROMOTED, _R.ABORTED, _R.ROLLED_BACK})

PLACEMENT_MOVES: Mapping[PlacementState, frozenset[PlacementState]] = {
    _P.PENDING: frozenset({_P.PLACING, _P.FAILED}),
    _P.PLACING: frozenset({_P.LOADING, _P.FAILED}),
    _P.LOADING: frozenset({_P.READY, _P.FAILED}),
    _P.READY: frozenset({_P.DRAINING, _P.FAILED}),
    _P.DRAINING: frozenset({_P.UNLOADED, _P.FAILED}),
    _P.UNLOADED: frozenset(),
    _P.FAILED: frozenset(),
}

SPLIT_MOVES: Mapping[SplitState, frozenset[SplitState]] = {
    _S.PENDING: frozenset({_S.APPLIED, _S.REFUSED, _S.SUPERSEDED}),
    _S.APPLIED: frozenset({_S.SUPERSEDED}),
    _S.REFUSED: frozenset(),
    _S.SUPERSEDED: frozenset(),
}

ROLLOUT_MOVES: Mapping[RolloutState, frozenset[RolloutState]] = {
    _R.RUNNING: _ENDINGS | {_R.PAUSED},
    _R.PAUSED: _ENDINGS | {_R.RUNNING},
    _R.PROMOTED: frozenset(),
    _R.ABORTED: frozenset(),
    _R.ROLLED_BACK: frozenset(),
}

State = TypeVar("State", bound=StrEnum)


def may_move(moves: Mapping[State, frozenset[State]], before: State, after: State) -> bool:
    """Whether the table allows this move; staying where one is is no move."""
    return after in moves[before]


def is_final(moves: Mapping[State, frozenset[State]], state: State) -> bool:
    """Whether nothing can follow this state."""
    return not moves[state]


def check_move(
    moves: Mapping[State, frozenset[State]], before: State, after: State, *, subject: str
) -> None:
    """Refuse a move that the table does not allow. Raises Conflict that names the subject."""
    if may_move(moves, before, after):
        return
    choices = ", ".join(sorted(moves[before])) or "nothing, it has ended"
    raise Conflict(
        f"{subject} is {before} and cannot become {after}.",
        code="illegal_move",
        hint=f"What can follow {before}: {choices}.",
    )
