"""Postgres' LISTEN/NOTIFY: being woken at once when something was committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import psycopg
from psycopg import sql

RECONNECT_AFTER_S = 0.5

log = logging.getLogger(__name__)


async def notifications(parameters: Mapping[str, Any], channel: str) -> AsyncIterator[str]:
    """Yield each notification's payload, forever; "" after each connection, as some may be lost.

    A database that is away is waited for.
    """
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(
                **parameters, autocommit=True
            ) as connection:
                await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
                yield ""
                async for notification in connection.notifies():
                    yield notification.payload
        except psycopg.Error as error:
            log.warning("not listening to the database: %s", error)
        await asyncio.sleep(RECONNECT_AFTER_S)
