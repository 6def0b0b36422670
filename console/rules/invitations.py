"""How long an invitation opens its door."""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

FEWEST_DAYS, MOST_DAYS, USUAL_DAYS = 1, 30, 7


def invitation_state(
    *,
    now: datetime,
    expires_at: datetime,
    accepted_at: datetime | None,
    revoked_at: datetime | None,
) -> str:
    """`accepted`, `revoked`, `expired` or `open`."""
    if accepted_at is not None:
        return "accepted"
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at <= now else "open"


def username_from(email: str) -> str:
    """A user name made of the part before the @: letters, digits, hyphens; "" when none is left."""
    local = (
        unicodedata.normalize("NFKD", email.partition("@")[0]).encode("ascii", "ignore").decode()
    )
    return re.sub(r"[^a-z0-9_]+", "-", local.lower()).strip("-")[:64]
