"""Live numbers in Redis: the newest of each endpoint and node, and a ring of the last minutes.

Everything here can be lost: roll-ups in Postgres are the record. Reading without Redis gives
nothing, never an error.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import redis

from console import live
from deployments.rules.statistics.live_window import rebased

RING_LENGTH = 900
RING_SECONDS = 1800
FRESH_SECONDS = 60
MOST_PARTS = 120
PART_SECONDS = 30
_BOUNDS = "covenant:bounds"
_PARTS = "covenant:parts"

log = logging.getLogger(__name__)

JSON = dict[str, Any]


def store(numbers: Mapping[str, JSON], points: Mapping[str, JSON], bounds: Iterable[float]) -> None:
    """Keep the newest numbers and one point more of each endpoint ("env/model").

    Raises redis.RedisError when that is not possible.
    """
    pipe = live.connection().pipeline(transaction=False)
    mark = {}
    # Whoever knows no bounds has no latencies; the points before need theirs.
    if edges := list(bounds):
        mark = {"b": _name_of(edges)}
        # First: whoever finds a point finds what its buckets mean.
        pipe.set(f"{_BOUNDS}:{mark['b']}", json.dumps(edges), ex=RING_SECONDS)
        pipe.set(_BOUNDS, json.dumps(edges), ex=RING_SECONDS)
    for key, point in points.items():
        ring = f"covenant:ring:{key}"
        pipe.rpush(ring, json.dumps({**point, **mark}, separators=(",", ":")))
        pipe.ltrim(ring, -RING_LENGTH, -1)
        pipe.expire(ring, RING_SECONDS)
    # Last, so that whoever sees these numbers finds their points in the ring.
    for key, values in numbers.items():
        pipe.set(f"covenant:latest:{key}", json.dumps(values), ex=FRESH_SECONDS)
    pipe.execute()


def pass_on(part: JSON) -> None:
    """Leave a part of a second for the collector that tells. Raises redis.RedisError."""
    pipe = live.connection().pipeline(transaction=False)
    pipe.rpush(_PARTS, json.dumps(part, separators=(",", ":")))
    pipe.ltrim(_PARTS, -MOST_PARTS, -1)
    pipe.expire(_PARTS, PART_SECONDS)
    pipe.execute()


def take_parts() -> list[JSON]:
    """What other collectors left, oldest first; each part is given once. Raises RedisError."""
    pipe = live.connection().pipeline(transaction=True)
    pipe.lrange(_PARTS, 0, -1)
    pipe.delete(_PARTS)
    parts, _ = pipe.execute()
    return [json.loads(part) for part in parts]


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
        pipe.get(_BOUNDS)
        raw, bounds = pipe.execute()
        edges = tuple(json.loads(bounds)) if bounds else ()
        return _under([json.loads(point) for point in raw], edges, {}), edges
    except redis.RedisError as error:
        log.warning("no live numbers: %s", error)
        return [], ()


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
        pipe.get(_BOUNDS)
        *raw, bounds = pipe.execute()
        edges, others = tuple(json.loads(bounds)) if bounds else (), dict[str, Any]()
        # One document for all points of an endpoint is read in half the time of one by one.
        found = {
            name: _under(json.loads(f"[{','.join(points)}]"), edges, others)
            for name, points in zip(names, raw, strict=True)
            if points
        }
    except redis.RedisError as error:
        log.warning("no live numbers: %s", error)
        return {}, ()
    return found, edges


def _under(points: list[Any], edges: tuple[float, ...], others: dict[str, Any]) -> list[Any]:
    """Points as they are but for those of a while ago, when other bounds were kept."""
    name = _name_of(edges)
    if all(point.get("b", name) == name for point in points):
        return points
    return [
        point
        if point.get("b", name) == name
        else rebased(point, _edges_named(point["b"], others), edges)
        for point in points
    ]


def _edges_named(name: str, others: dict[str, Any]) -> tuple[float, ...]:
    if name not in others:
        stored = live.connection().get(f"{_BOUNDS}:{name}")
        others[name] = tuple(json.loads(str(stored))) if stored else ()
    found: tuple[float, ...] = others[name]
    return found


def _name_of(edges: Iterable[float]) -> str:
    return f"{zlib.crc32(json.dumps(list(edges)).encode()):08x}"


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
