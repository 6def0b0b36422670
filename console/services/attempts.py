"""How often something was tried lately: counted in the cache, in this process when that is away."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass

import redis
from django.core.cache import cache

from console.errors import TooMany

MOST_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `attempts` within `seconds`, counted from the first."""

    attempts: int
    seconds: int


_lock = threading.Lock()
_counts: dict[str, tuple[int, float]] = {}


def count_attempt(name: str, limit: Limit) -> None:
    """Count one attempt before it is made; raises TooMany when it is one too many.

    Counted first and forgiven after (`forget_attempts`), so that many at once cannot slip through.
    """
    key = _key(name)
    try:
        count = _count_in_cache(key, limit)
    except (redis.RedisError, OSError):
        count = _count_here(key, limit)
    if count > limit.attempts:
        minutes = max(1, limit.seconds // 60)
        raise TooMany(
            f"There were more than {limit.attempts} attempts within {minutes} minutes.",
            retry_after=limit.seconds,
            hint=f"Wait {minutes} minutes, or ask a platform admin for a new password.",
        )


def forget_attempts(name: str) -> None:
    """Start counting anew, since one attempt was right."""
    key = _key(name)
    with _lock:
        _counts.pop(key, None)
    try:
        cache.delete(key)
    except (redis.RedisError, OSError):
        return


def _count_in_cache(key: str, limit: Limit) -> int:
    if cache.add(key, 1, limit.seconds):
        return 1
    try:
        return int(cache.incr(key))
    except ValueError:
        # It ran out between the two calls.
        cache.set(key, 1, limit.seconds)
        return 1


def _count_here(key: str, limit: Limit) -> int:
    now = time.monotonic()
    with _lock:
        if len(_counts) >= MOST_KEPT:
            for old in [k for k, (_, until) in _counts.items() if until < now]:
                del _counts[old]
            if len(_counts) >= MOST_KEPT:
                _counts.clear()
        count, until = _counts.get(key, (0, now + limit.seconds))
        if until < now:
            count, until = 0, now + limit.seconds
        _counts[key] = (count + 1, until)
        return count + 1


def _key(name: str) -> str:
    # Hashed: names come from outside and may hold anything.
    return "attempts:" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
