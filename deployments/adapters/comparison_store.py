"""Compared answers in Redis: a ring of the last minutes for each endpoint, second by second.

As all live numbers they may be lost: the minutes in Postgres are the record. Reading without
Redis gives nothing, never an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import redis

from console import live

RING_LENGTH = 900
RING_SECONDS = 1800

log = logging.getLogger(__name__)

JSON = dict[str, Any]


def store(points: Mapping[str, Sequence[JSON]]) -> None:
    """Append each endpoint's ("env/model") points. Raises redis.RedisError."""
    pipe = live.connection().pipeline(transaction=False)
    for key, new in points.items():
        ring = f"covenant:compared:{key}"
        pipe.rpush(ring, *(json.dumps(point, separators=(",", ":")) for point in new))
        pipe.ltrim(ring, -RING_LENGTH, -1)
        pipe.expire(ring, RING_SECONDS)
    pipe.execute()


def ring(key: str, *, last: int = RING_LENGTH) -> list[JSON]:
    """An endpoint's newest points, oldest first."""
    try:
        found = live.connection().lrange(f"covenant:compared:{key}", -last, -1)
    except redis.RedisError as error:
        log.warning("no compared answers: %s", error)
        return []
    return [json.loads(point) for point in found] if isinstance(found, list) else []


def rings(keys: Iterable[str], *, last: int) -> dict[str, list[JSON]]:
    """The newest `last` points of many endpoints, oldest first; one round trip."""
    names = list(keys)
    if not names:
        return {}
    try:
        pipe = live.connection().pipeline(transaction=False)
        for name in names:
            pipe.lrange(f"covenant:compared:{name}", -last, -1)
        raw = pipe.execute()
    except redis.RedisError as error:
        log.warning("no compared answers: %s", error)
        return {}
    return {
        name: json.loads(f"[{','.join(points)}]")
        for name, points in zip(names, raw, strict=True)
        if points
    }
