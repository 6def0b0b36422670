"""Work that is done again and again in the edge, whatever becomes of the database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from deployments.processes.database import AWAY

log = logging.getLogger(__name__)


async def every(seconds: float, work: Callable[[], Awaitable[None]], name: str) -> None:
    """Run `work` with a pause in between until cancelled; a database that is away is waited for."""
    while True:
        try:
            await work()
        except AWAY as error:
            log.warning("%s: waiting for the database: %s", name, error)
        await asyncio.sleep(seconds)
