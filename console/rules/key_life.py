"""How long a signing key lives, how it stands, and what its end does to what it signed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from console.errors import FieldError, Invalid

LIFETIME_DAYS = {"browser": 365, "cli": 730, "passkey": 730}
"""How long a key may live at most, by where it was made, and does when nothing else is said."""

WARN_DAYS = (30, 7)
"""So many days before its end its owner is told."""

KeyState = Literal["active", "expiring", "expired", "revoked"]
Outcome = Literal["stays_valid", "no_longer_counts"]


class KeyFacts(Protocol):
    """What is asked of a key's row."""

    @property
    def expires_at(self) -> datetime | None:
        """When it ends by itself."""

    @property
    def revoked_at(self) -> datetime | None:
        """When it was revoked."""


@dataclass(frozen=True, slots=True)
class KeyEffect:
    """One thing that a key signed, and what revoking the key does to it.

    `kind` says what it is: contract, release or live (a release that serves now).
    """

    kind: Literal["contract", "release", "live"]
    name: str
    url: str
    state: str
    signed_at: datetime
    outcome: Outcome


def expiry_of(*, origin: str, now: datetime, days: int | None = None) -> datetime:
    """When a key that is enrolled now ends; `days` may make it sooner, never later.

    Raises Invalid (`lifetime_too_long`).
    """
    most = LIFETIME_DAYS[origin]
    if days is not None and not 1 <= days <= most:
        raise Invalid(
            f"A key of this kind lives 1 to {most} days, not {days}.",
            code="lifetime_too_long",
            hint="Choose fewer days; before the end a new key can take its place.",
            errors=(FieldError("/days", f"is not from 1 to {most}"),),
        )
    return now + timedelta(days=most if days is None else days)


def state_of(key: KeyFacts, now: datetime) -> KeyState:
    """How the key stands now."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "active"
    if key.expires_at <= now:
        return "expired"
    return "expiring" if key.expires_at <= now + timedelta(days=max(WARN_DAYS)) else "active"


def warning_due(expires_at: datetime, now: datetime) -> int | None:
    """Which of `WARN_DAYS` its owner should have been told by now; None when none, or too late."""
    left = expires_at - now
    due = [days for days in WARN_DAYS if left <= timedelta(days=days)]
    return min(due) if due and left > timedelta() else None


def outcome_of(signed_at: datetime, doubted_from: datetime | None) -> Outcome:
    """Whether a signature made at `signed_at` still counts."""
    doubted = doubted_from is not None and signed_at >= doubted_from
    return "no_longer_counts" if doubted else "stays_valid"


def check_doubt(*, kind: str, doubted_from: datetime | None, now: datetime) -> None:
    """Raise Invalid (`doubted_from_missing`, `doubted_from_wrong`) unless time and kind agree."""
    if kind == "compromised" and doubted_from is None:
        raise Invalid(
            "Say since when somebody else may have had the key.",
            code="doubted_from_missing",
            hint="What it signed since then no longer counts; name the earliest time you cannot "
            "rule out.",
            errors=(FieldError("/doubted_from", "is needed for a compromised key"),),
        )
    if kind != "compromised" and doubted_from is not None:
        raise Invalid(
            "Only a compromised key casts doubt on what it signed before.",
            code="doubted_from_wrong",
            hint="Leave the time out, or say that the key was compromised.",
            errors=(FieldError("/doubted_from", "is for compromised keys only"),),
        )
    if doubted_from is not None and doubted_from > now:
        raise Invalid(
            "The key cannot be doubted from a time that has not come yet.",
            code="doubted_from_wrong",
            hint="Name a time that has passed.",
            errors=(FieldError("/doubted_from", "lies in the future"),),
        )


def fingerprint(key_id: str) -> str:
    """The key id in groups of four, as people compare it by eye."""
    return " ".join(key_id[at : at + 4] for at in range(0, len(key_id), 4))
