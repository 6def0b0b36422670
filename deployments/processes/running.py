"""Running an asyncio process until it is asked to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run `work(stop)`; SIGTERM and SIGINT set `stop`."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await work(stop)

    asyncio.run(main())
