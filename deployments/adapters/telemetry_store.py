"""The newest distributions of an endpoint's features in Redis, beside those of training.

As all live numbers they may be lost: the series in Postgres are the record, and the next
measurement writes them anew. Reading without Redis gives nothing, never an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import redis

from console import live

KEPT_SECONDS = 3600

log = logging.getLogger(__name__)

JSON = dict[str, Any]


def store(documents: Mapping[str, JSON]) -> None:
    """Keep each endpoint's ("env/model") newest document for an hour. Raises redis.RedisError."""
    pipe = live.connection().pipeline(transaction=False)
    for key, document in documents.items():
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        pipe.set(f"covenant:telemetry:{key}", text, ex=KEPT_SECONDS)
    pipe.execute()


def newest(key: str) -> JSON:
    """An endpoint's newest document; empty without one."""
    try:
        found = live.connection().get(f"covenant:telemetry:{key}")
    except redis.RedisError as error:
        log.warning("no distributions of features: %s", error)
        return {}
    if not isinstance(found, str | bytes):
        return {}
    document: JSON = json.loads(found)
    return document
