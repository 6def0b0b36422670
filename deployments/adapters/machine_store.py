"""What was last read of machines, in Redis: the newest of each node, and a ring of ten minutes.

Everything here can be lost: the minutes in Postgres are the record. Reading without Redis gives
nothing, never an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

import redis

from console import live

RING_LENGTH = 300
RING_SECONDS = 900
FRESH_SECONDS = 30

log = logging.getLogger(__name__)

JSON = dict[str, Any]


def store(name: str, facts: JSON, point: JSON) -> None:
    """Keep the newest of a node and one point more. Raises redis.RedisError."""
    pipe = live.connection().pipeline(transaction=False)
    ring = f"covenant:machine-ring:{name}"
    pipe.rpush(ring, json.dumps(point, separators=(",", ":")))
    pipe.ltrim(ring, -RING_LENGTH, -1)
    pipe.expire(ring, RING_SECONDS)
    pipe.set(f"covenant:machine:{name}", json.dumps(facts), ex=FRESH_SECONDS)
    pipe.execute()


def latest(names: Iterable[str]) -> dict[str, JSON]:
    """What was last read of each node that was read within half a minute."""
    wanted = list(names)
    if not wanted:
        return {}
    try:
        found = live.connection().mget([f"covenant:machine:{name}" for name in wanted])
    except redis.RedisError as error:
        log.warning("no live numbers of machines: %s", error)
        return {}
    texts = found if isinstance(found, list) else []
    return {name: json.loads(text) for name, text in zip(wanted, texts, strict=False) if text}


def ring(name: str) -> list[JSON]:
    """The points of a node's last ten minutes, oldest first."""
    try:
        raw = live.connection().lrange(f"covenant:machine-ring:{name}", 0, -1)
    except redis.RedisError as error:
        log.warning("no live numbers of machines: %s", error)
        return []
    points = [str(point) for point in raw] if isinstance(raw, list) else []
    # One document for all points is read in half the time of one by one.
    found: list[JSON] = json.loads(f"[{','.join(points)}]")
    return found
