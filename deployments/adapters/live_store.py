"""Live numbers in Redis: the newest of each endpoint and node, and a ring of the last minutes.

Everything here can be lost: roll-ups in Postgres are the record. Reading without Redis gives
nothing, never an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import redis

from console import live

RING_LENGTH = 900
RING_SECONDS = 1800
FRESH_SECONDS = 60

log = logging.getLogger(__name__)

JSON = dict[str, Any]


def store(numbers: Mapping[str, JSON], points: Mapping[str, JSON], bounds: Iterable[float]) -> None:
    """Keep the newest numbers and one point more of each endpoint ("env/model").

    Raises redis.RedisError when that is not possible.
    """
    pipe = live.connection().pipeline(transaction=False)
    for key, point in points.items():
        ring = f"covenant:ring:{key}"
        pipe.rpush(ring, json.dumps(point, separators=(",", ":")))
        pipe.ltrim(ring, -RING_LENGTH, -1)
        pipe.expire(ring, RING_SECONDS)
    # Last, so that whoever sees these numbers finds their points in the ring.
    for key, values in numbers.items():
        pipe.set(f"covenant:latest:{key}", json.dumps(values), ex=FRESH_SECONDS)
    # A gateway that has just begun has measured nothing yet; the points before it need theirs.
    if edges := list(bounds):
        pipe.set("covenant:bounds", json.dumps(edges), ex=RING_SECONDS)
    pipe.execute()


def store_node(name: str, facts: JSON) -> None:
    """Keep what the watch found on a node. Raises redis.RedisError."""
    live.connection().set(f"covenant:node:{name}", json.dumps(facts), ex=FRESH_SECONDS)


def latest(keys: Iterable[str]) -> dict[str, JSON]:
    """The newest numbers of each endpoint that has any."""
    return _many("covenant:latest:", list(keys))


def nodes(names: Iterable[str]) -> dict[str, JSON]:
    """What the watch last found on each node."""
    return _many("covenant:node:", list(names))


def ring(key: str) -> tuple[list[JSON], tuple[float, ...]]:
    """The points of an endpoint's last minutes, oldest first, and their histogram's bounds."""
    try:
        pipe = live.connection().pipeline(transaction=False)
        pipe.lrange(f"covenant:ring:{key}", 0, -1)
        pipe.get("covenant:bounds")
        raw, bounds = pipe.execute()
    except redis.RedisError as error:
        log.warning("no live numbers: %s", error)
        return [], ()
    return [json.loads(point) for point in raw], tuple(json.loads(bounds)) if bounds else ()


def rings(
    keys: Iterable[str], *, last: int
) -> tuple[dict[str, list[Mapping[str, Any]]], tuple[float, ...]]:
    """The newest `last` points of many endpoints, oldest first, and the bounds; one round trip."""
    names = list(keys)
    if not names:
        return {}, ()
    try:
        pipe = live.connection().pipeline(transaction=False)
        for name in names:
            pipe.lrange(f"covenant:ring:{name}", -last, -1)
        pipe.get("covenant:bounds")
        *raw, bounds = pipe.execute()
    except redis.RedisError as error:
        log.warning("no live numbers: %s", error)
        return {}, ()
    # One document for all points of an endpoint is read in half the time of one by one.
    found = {
        name: json.loads(f"[{','.join(points)}]")
        for name, points in zip(names, raw, strict=True)
        if points
    }
    return found, tuple(json.loads(bounds)) if bounds else ()


def _many(prefix: str, names: list[str]) -> dict[str, JSON]:
    if not names:
        return {}
    try:
        found = live.connection().mget([prefix + name for name in names])
    except redis.RedisError as error:
        log.warning("no live numbers: %s", error)
        return {}
    texts = found if isinstance(found, list) else []
    return {name: json.loads(text) for name, text in zip(names, texts, strict=False) if text}
