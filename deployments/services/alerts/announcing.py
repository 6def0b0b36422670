"""Telling of alerts: who hears of them, and where."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from deployments.models import Alert


def announce(alerts: Sequence[Alert], what: str, *, now: datetime) -> None:
    """Tell of alerts that belong together: `what` is "firing", "reminder" or "resolved".

    Belongs inside the transaction of what it tells of; messages are jobs of their own. The same
    alerts are told of once for each `what` (reminders: once a minute).
    """
