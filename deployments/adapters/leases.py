"""Leases by name in Postgres: many of them, held by one connection, and gone with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import psycopg

LOOK_TIMEOUT_S = 5
_OPTIONS = " ".join(
    f"-c {name}={value}"
    for name, value in (
        ("statement_timeout", LOOK_TIMEOUT_S * 1000),
        # The server, too, has to notice when the machine at the other end is gone.
        ("tcp_keepalives_idle", 5),
        ("tcp_keepalives_interval", 2),
        ("tcp_keepalives_count", 3),
    )
)
_HOLDERS = """
select count(distinct pid) from pg_locks
where locktype = 'advisory' and classid = %s and objsubid = 2 and granted
and database = (select oid from pg_database where datname = current_database())
"""


class Leases:
    """Advisory locks of one `group` (and of `group` + 1, by which holders are counted)."""

    def __init__(self, parameters: Mapping[str, Any], group: int) -> None:
        self._parameters = dict(parameters)
        self._group = group
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self.held: frozenset[str] = frozenset()

    async def keep(self) -> frozenset[str]:
        """See to the connection; gives what was held and is lost, because others have it now.

        Raises psycopg.Error when the database is away: what was held counts as held until it is
        back, since nobody else can take it meanwhile.
        """
        if self._connection is not None:
            try:
                await self._connection.execute("select 1")
                return frozenset()
            except psycopg.Error:
                await self._close()
        self._connection = await psycopg.AsyncConnection.connect(
            **self._parameters,
            autocommit=True,
            options=_OPTIONS,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
        await self._connection.execute(
            "select pg_advisory_lock(%s, pg_backend_pid())", [self._group + 1]
        )
        before, self.held = self.held, frozenset()
        await self.take(before)
        return before - self.held

    async def holders(self) -> int:
        """How many connections take leases of this group, ours among them."""
        found = await self._open.execute(_HOLDERS, [self._group + 1])
        row = await found.fetchone()
        return max(int(row[0]), 1) if row else 1

    async def take(self, names: Collection[str]) -> frozenset[str]:
        """Those of these that nobody else holds are ours now; gives the new ones."""
        wanted = sorted(set(names) - self.held)
        if not wanted:
            return frozenset()
        found = await self._open.execute(
            "select name, pg_try_advisory_lock(%s, hashtext(name)) from unnest(%s::text[]) as name",
            [self._group, wanted],
        )
        taken = frozenset(name for name, ours in await found.fetchall() if ours)
        self.held |= taken
        return taken

    async def give(self, names: Collection[str]) -> None:
        """Let others have these."""
        ours = sorted(set(names) & self.held)
        self.held -= set(ours)
        if ours and self._connection is not None:
            await self._connection.execute(
                "select pg_advisory_unlock(%s, hashtext(name)) from unnest(%s::text[]) as name",
                [self._group, ours],
            )

    async def close(self) -> None:
        """Let others have all of it."""
        self.held = frozenset()
        await self._close()

    @property
    def _open(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None:
            raise psycopg.OperationalError("The leases' connection is closed.")
        return self._connection

    async def _close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
