"""The edge in a thread of its own, as a server on a port."""

from __future__ import annotations

import asyncio
import threading

from deployments.processes.edge import server
from tests.deployments.waiting import eventually


class running_edge:
    """`with running_edge(port):` serves until the block ends."""

    def __init__(self, port: int) -> None:
        self._server = server("127.0.0.1", port)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        eventually(lambda: self._server.started)

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(15)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.run(self._server.serve())
