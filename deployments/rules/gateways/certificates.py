"""When people are told that a listener's certificate ends, and how that is said."""

from __future__ import annotations

from datetime import datetime, timedelta

WARN_DAYS = (30, 7)


def warning_due(not_after: datetime, now: datetime) -> int | None:
    """The shortest of `WARN_DAYS` that is due; 0 once it has ended, None while there is time."""
    if not_after <= now:
        return 0
    due = [days for days in WARN_DAYS if not_after - now <= timedelta(days=days)]
    return min(due) if due else None
