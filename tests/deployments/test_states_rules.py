"""Every legal move is legal, and every other move is refused."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from console.errors import Conflict
from deployments.rules.states import (
    PLACEMENT_MOVES,
    ROLLOUT_MOVES,
    SPLIT_MOVES,
    check_move,
    is_final,
    may_move,
)

LEGAL = {
    "placement": (
        PLACEMENT_MOVES,
        "pending>placing placing>loading loading>ready ready>draining draining>unloaded "
        "pending>failed placing>failed loading>failed ready>failed draining>failed",
        "unloaded failed",
    ),
    "split": (
        SPLIT_MOVES,
        "pending>applied pending>refused pending>superseded applied>superseded",
        "refused superseded",
    ),
    "rollout": (
        ROLLOUT_MOVES,
        "running>paused paused>running running>promoted running>aborted running>rolled_back "
        "paused>promoted paused>aborted paused>rolled_back",
        "promoted aborted rolled_back",
    ),
}


def every_move() -> list[Any]:
    found = []
    for name, (moves, legal, _) in LEGAL.items():
        wanted = set(legal.split())
        for before in moves:
            for after in moves:
                move = f"{before}>{after}"
                found.append(
                    pytest.param(moves, before, after, move in wanted, id=f"{name} {move}")
                )
    return found


@pytest.mark.parametrize(("moves", "before", "after", "legal"), every_move())
def test_move(
    moves: Mapping[StrEnum, frozenset[StrEnum]], before: StrEnum, after: StrEnum, legal: bool
) -> None:
    assert may_move(moves, before, after) is legal
    if legal:
        check_move(moves, before, after, subject="It")
        return
    with pytest.raises(Conflict, match=f"It is {before} and cannot become {after}") as caught:
        check_move(moves, before, after, subject="It")
    assert caught.value.code == "illegal_move"
    assert caught.value.hint


@pytest.mark.parametrize("name", LEGAL)
def test_endings_are_final(name: str) -> None:
    moves, _, endings = LEGAL[name]
    assert {str(state) for state in moves if is_final(moves, state)} == set(endings.split())
