"""Django's ORM for an asyncio process: one thread of its own, and a database that may be away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from django.db import Error as DatabaseError
from django.db import close_old_connections, connections
from psycopg_pool import PoolTimeout

P = ParamSpec("P")
T = TypeVar("T")

AWAY = (DatabaseError, PoolTimeout)
"""What is raised while the database cannot be used; trying again later is right."""

_PARAMETERS = ("dbname", "user", "password", "host", "port", "sslmode", "connect_timeout")

log = logging.getLogger(__name__)


class DatabaseThread:
    """Runs functions that use the ORM one after another, each on a connection that works."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="database")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result. Raises one of AWAY when the database cannot be used."""

        def call() -> T:
            close_old_connections()
            return function(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        """Give the connection back and end the thread."""
        self._executor.submit(connections.close_all).result(timeout=10)
        self._executor.shutdown()


def connection_parameters() -> dict[str, Any]:
    """How to reach the default database outside the ORM."""
    given = connections["default"].get_connection_params()
    return {name: given[name] for name in _PARAMETERS if given.get(name) not in (None, "")}
