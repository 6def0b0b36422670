"""Live events: one Redis stream that every web process reads and fans out to its viewers.

An event only says that something changed; the state is in Postgres. So an event may be lost
with Redis and nothing is lost but freshness.
"""

from __future__ import annotations

import json
import logging
import time
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

STREAM = "covenant:events"
STREAM_LENGTH = 20_000
# After a time-out nothing is sent for so long: a Redis that hangs must not slow every write.
PAUSE_SECONDS = 2.0

log = logging.getLogger(__name__)
_paused_until = 0.0


@cache
def connection() -> redis.Redis:
    """This process's Redis connection pool, with short time-outs: it must never hold up work."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=1.0, decode_responses=True
    )


def publish(topic: str, event: str, data: dict[str, Any] | None = None) -> None:
    """Tell viewers of `topic` after the transaction commits (at once outside of one).

    Topics: `job:ID`, `jobs`, `subject:…`, `model:NAME`, `version:NAME/N`, `contract:NAME/REV`,
    `release:ID`, `endpoint:ENV/MODEL`, `node:NAME`, `inbox:USERNAME` (which only that person
    may listen to). `event` is what happened, `job.changed` and the like; `data` is JSON.
    """
    transaction.on_commit(lambda: publish_now(topic, event, data))


def publish_now(topic: str, event: str, data: dict[str, Any] | None = None) -> None:
    """Append the event to the stream; a missing Redis is logged, never raised."""
    global _paused_until  # noqa: PLW0603 - one pause per process
    if time.monotonic() < _paused_until:
        return
    try:
        connection().xadd(
            STREAM,
            {"topic": topic, "event": event, "data": json.dumps(data or {})},
            maxlen=STREAM_LENGTH,
            approximate=True,
        )
    except redis.RedisError as error:
        if isinstance(error, redis.TimeoutError):
            _paused_until = time.monotonic() + PAUSE_SECONDS
        log.warning("event %s on %s was not published: %s", event, topic, error)
