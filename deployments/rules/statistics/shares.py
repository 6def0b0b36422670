"""How several collectors divide what there is to read: each about as much as the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Division:
    """What one collector should let go, and what it may take: at most `room` of `candidates`."""

    give: tuple[str, ...]
    candidates: tuple[str, ...]
    room: int


def divide(wanted: Collection[str], held: Collection[str], collectors: int) -> Division:
    """How one of `collectors` that holds `held` comes to its part of what is wanted.

    Nobody keeps more than the share that all have at most, so a collector that comes anew finds
    something to take; and whoever has less takes what is free, so nothing is left over when one
    goes. What is held stays where it is as long as that holds.
    """
    sources = set(wanted)
    ours = sorted(sources & set(held))
    most = -(-len(sources) // max(collectors, 1))
    return Division(
        give=(*sorted(set(held) - sources), *ours[most:]),
        candidates=tuple(sorted(sources - set(held))),
        room=max(most - len(ours), 0),
    )
