"""When a group of alerts is told of: not each by itself, and not again at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

GROUP_WAIT = timedelta(seconds=10)
"""What goes wrong together is found within some seconds: the first waits for the others."""
GROUP_INTERVAL = timedelta(seconds=60)
"""A group that was told of just now says what is new after a minute."""
REMIND_AFTER = timedelta(hours=4)
"""An alert that nobody acknowledged is said again."""
URGENT = "P1"


@dataclass(frozen=True, slots=True)
class Waiting:
    """An alert that fires and that nobody was told of yet."""

    group: str
    severity: str
    fired_at: datetime


def groups_to_tell(
    waiting: Iterable[Waiting], told: Mapping[str, datetime], now: datetime
) -> set[str]:
    """The groups whose waiting alerts are told of now; `told` is when each was told of last.

    A P1 waits for nobody.
    """
    oldest: dict[str, datetime] = {}
    urgent = set()
    for one in waiting:
        oldest[one.group] = min(oldest.get(one.group, one.fired_at), one.fired_at)
        if one.severity == URGENT:
            urgent.add(one.group)
    return {
        group
        for group, since in oldest.items()
        if group in urgent
        or (
            now - since >= GROUP_WAIT and (group not in told or now - told[group] >= GROUP_INTERVAL)
        )
    }
