"""How long ago somebody proved who they are, as their session remembers it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol

# Keys of the session's data; both hold seconds since 1970.
SIGNED_IN_AT = "signed_in_at"
CONFIRMED_AT = "confirmed_at"

FRESH_FOR = timedelta(minutes=10)


class SessionData(Protocol):
    """What is read of a session."""

    def get(self, key: str, default: Any) -> Any:
        """The value of a key."""


def is_fresh(session: SessionData | None, now: datetime) -> bool:
    """Whether the person of this session signed in, or proved it again, within ten minutes.

    A time that lies ahead (a clock was set back) proves nothing.
    """
    if session is None:
        return False
    times = (session.get(SIGNED_IN_AT, 0.0), session.get(CONFIRMED_AT, 0.0))
    latest = max((float(at) for at in times if isinstance(at, (int, float))), default=0.0)
    age = now.timestamp() - latest
    return 0 <= age <= FRESH_FOR.total_seconds()
