"""How long a link shows a promise, and which month a report is about."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from deployments.rules.objectives.sla_months import month_before, month_of
from deployments.rules.objectives.slo import month_bounds

FEWEST_DAYS, MOST_DAYS, USUAL_DAYS = 1, 90, 30

# Counts of the last minutes of a month are booked within seconds, at the latest when a collector
# that was away comes back: half an hour is left for that.
SETTLED_AFTER = timedelta(minutes=30)


def share_state(*, now: datetime, expires_at: datetime, revoked_at: datetime | None) -> str:
    """`open`, `expired` or `revoked`."""
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at <= now else "open"


def month_to_report(now: datetime) -> date | None:
    """The month whose reports are due, as its first day; None while its counts may still settle."""
    this = month_of(now)
    if now < month_bounds(this)[0] + SETTLED_AFTER:
        return None
    return month_before(this)


def is_due(*, since: datetime, now: datetime) -> bool:
    """Whether a subscription made at `since` gets the report that is due: the first one that it
    gets is about the month in which it was made."""
    return since < month_bounds(month_of(now))[0]
