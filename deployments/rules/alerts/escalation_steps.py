"""When the next step of an escalation is due."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

SHORTEST_ROUND = timedelta(minutes=5)


def due_at(
    started_at: datetime, after_minutes: Sequence[int], repeats: int, step: int
) -> datetime | None:
    """When step number `step` (0, 1, 2 … through all rounds) is due; None when there is no more.

    A round lasts until its last step and as long again as its first one waits, at least five
    minutes, so that a step never falls onto the one before it.
    """
    steps = sorted(after_minutes)
    if not steps or step >= len(steps) * (repeats + 1):
        return None
    length = timedelta(minutes=steps[-1]) + max(SHORTEST_ROUND, timedelta(minutes=steps[0]))
    number, place = divmod(step, len(steps))
    return started_at + number * length + timedelta(minutes=steps[place])
