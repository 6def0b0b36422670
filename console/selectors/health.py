"""What the console cannot do without, checked quickly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import redis
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from console import live


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is needed; `detail` says what is wrong with it, or that it is not."""

    name: str
    ok: bool
    detail: str


def check_database() -> Part:
    """Whether a query is answered, over this process's own pool."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select 1")
    except DatabaseError as error:
        return Part("database", ok=False, detail=_one_line(error))
    return Part("database", ok=True, detail="answers")


def check_redis() -> Part:
    """Whether Redis answers a ping."""
    try:
        live.connection().ping()
    except redis.RedisError as error:
        return Part("redis", ok=False, detail=_one_line(error))
    return Part("redis", ok=True, detail="answers")


def check_migrations() -> Part:
    """Whether every migration of this code is in the database."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except DatabaseError as error:
        return Part("migrations", ok=False, detail=_one_line(error))
    missing = sorted(_on_disk() - applied.keys())
    if missing:
        names = ", ".join(".".join(key) for key in missing[:3])
        return Part("migrations", ok=False, detail=f"{len(missing)} not applied: {names}")
    return Part("migrations", ok=True, detail="all applied")


@cache
def _on_disk() -> frozenset[tuple[str, str]]:
    loader = MigrationLoader(None, load=False)
    loader.load_disk()
    return frozenset(loader.disk_migrations)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or error.__class__.__name__
