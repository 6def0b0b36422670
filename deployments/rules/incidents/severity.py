"""What an incident may become, how bad it is, and when a new disturbance is the same one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

SAME_WITHIN = timedelta(minutes=15)
"""What returns so soon after callers were well again belongs to the disturbance before."""
HARDLY_WELL = timedelta(minutes=2)
"""So soon, whatever begins is the same disturbance: one fault shows itself in several ways."""

NORMAL, OTHER_VERSION, FALLBACK, OPEN = 0, 1, 2, 3
"""Rollback levels: none, the last good version, the contract's fallback, the circuit open."""


class IncidentState(StrEnum):
    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


_I = IncidentState

INCIDENT_MOVES: Mapping[IncidentState, frozenset[IncidentState]] = {
    _I.OPEN: frozenset({_I.ACKNOWLEDGED, _I.RESOLVED}),
    _I.ACKNOWLEDGED: frozenset({_I.RESOLVED}),
    _I.RESOLVED: frozenset(),
}


def level_of_mode(mode: str) -> int:
    """The level that a mode by itself stands for: fallback 2, open 3, normal 0."""
    return {"fallback": FALLBACK, "open": OPEN}.get(mode, NORMAL)


def severity_of(level: int) -> str:
    """P1 where callers are refused (level 3), P2 where they are answered."""
    return "P1" if level >= OPEN else "P2"


def worse(one: str, other: str) -> str:
    """The graver of two severities.

    >>> worse("P2", "P1")
    'P1'
    """
    return min(one, other)


def is_the_same(ended_at: datetime | None, at: datetime, *, same_cause: bool) -> bool:
    """Whether what begins `at` continues an unresolved incident whose callers were well since
    `ended_at` (None: they still are not).

    The same cause that flaps makes no flood of incidents; another cause is another incident.
    """
    if ended_at is None:
        return True
    return at - ended_at <= (SAME_WITHIN if same_cause else HARDLY_WELL)
