"""Which rule answered how many rows, in Redis: one hash a minute for each endpoint.

Everything here can be lost; what answers does not depend on it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import redis

from console import live

KEPT_S = 3900
MINUTES = 60
FIXED = "="
"""In the place of a rule's name: the fixed response. No rule can be called so."""

log = logging.getLogger(__name__)

Counts = Mapping[tuple[str, str, str], int]
"""Rows by endpoint ("env/model"), what happened (answered, unjudged) and the rule's name."""


def add(counts: Counts) -> None:
    """Count rows in this minute. Raises redis.RedisError."""
    minute = int(time.time() // 60)
    pipe = live.connection().pipeline(transaction=False)
    for (endpoint, what, rule), rows in counts.items():
        key = f"covenant:rules:{endpoint}:{minute}"
        pipe.hincrby(key, f"{what}:{rule}", rows)
        pipe.expire(key, KEPT_S)
    pipe.execute()


def last_hour(endpoint: str) -> dict[tuple[str, str], int]:
    """Rows of the last hour by what happened and the rule's name; empty without Redis."""
    now = int(time.time() // 60)
    try:
        pipe = live.connection().pipeline(transaction=False)
        for minute in range(now - MINUTES + 1, now + 1):
            pipe.hgetall(f"covenant:rules:{endpoint}:{minute}")
        found: dict[tuple[str, str], int] = {}
        for counts in pipe.execute():
            for field, rows in counts.items():
                what, _, rule = field.partition(":")
                found[what, rule] = found.get((what, rule), 0) + int(rows)
    except redis.RedisError as error:
        log.warning("no counts of rules: %s", error)
        return {}
    return found
