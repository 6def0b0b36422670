"""A lease in Postgres: held by one connection, and gone with it, whatever ends its process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

LOOK_TIMEOUT_S = 5


class Lease:
    """One advisory lock on a connection of its own (a pooled one would be handed on with it)."""

    def __init__(self, parameters: Mapping[str, Any], number: int) -> None:
        self._parameters = dict(parameters)
        self._number = number
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def take(self) -> bool:
        """Whether the lease is ours now. Raises psycopg.Error when the database is away."""
        await self.give_back()
        held = await psycopg.AsyncConnection.connect(
            **self._parameters,
            autocommit=True,
            options=f"-c statement_timeout={LOOK_TIMEOUT_S * 1000}",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
        found = await held.execute("select pg_try_advisory_lock(%s)", [self._number])
        row = await found.fetchone()
        if not row or not row[0]:
            await held.close()
            return False
        self._connection = held
        return True

    async def holds(self) -> bool:
        """Whether the connection, and with it the lease, is still there."""
        if self._connection is None:
            return False
        try:
            await self._connection.execute("select 1")
        except psycopg.Error:
            await self.give_back()
            return False
        return True

    async def give_back(self) -> None:
        """Let somebody else have it."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
