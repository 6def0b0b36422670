"""API keys of callers: how they look, and what of one is kept.

A key is 192 random bits, so its plain SHA-256 is enough: nobody finds a key from the digest, and
the gateway can compute it for each request. The prefix is shown, so that people can tell keys
apart; it says nothing about the rest.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from console.errors import FieldError, Invalid

PREFIX_BYTES, SECRET_BYTES = 5, 24
LONGEST_LIFE = timedelta(days=2 * 366)
DEFAULT_DAYS = 365


@dataclass(frozen=True, slots=True)
class NewKey:
    """`key` is told once to who asked for it; `prefix` and `digest` are kept."""

    key: str
    prefix: str
    digest: str


def new_key(random_prefix: bytes, random_secret: bytes) -> NewKey:
    """The key made of fresh random bytes (`PREFIX_BYTES` and `SECRET_BYTES` of them).

    45 characters, so that hashing one is a single round.
    """
    if len(random_prefix) != PREFIX_BYTES or len(random_secret) != SECRET_BYTES:
        raise ValueError("a key is made of 5 and 24 random bytes")
    prefix = "cvk_" + base64.b32encode(random_prefix).decode().lower()
    key = f"{prefix}_{base64.urlsafe_b64encode(random_secret).decode()}"
    return NewKey(key, prefix, digest_of(key))


def digest_of(key: str) -> str:
    """What is stored of a key and sent to gateways: its SHA-256, in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def expiry(days: int | None, now: datetime) -> datetime | None:
    """When a key that lives so many days ends; None for one that does not. Raises Invalid."""
    if days is None:
        return None
    if not 1 <= days <= LONGEST_LIFE.days:
        raise Invalid(
            f"A key lives 1 to {LONGEST_LIFE.days} days, or without an end.",
            code="invalid_expiry",
            errors=(FieldError("/expires_in_days", f"From 1 to {LONGEST_LIFE.days}."),),
        )
    return now + timedelta(days=days)
