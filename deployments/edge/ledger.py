"""Counts on their way into the database: added up in memory, booked once, kept while it is away."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from django.conf import settings

from deployments.processes.database import DatabaseThread
from deployments.services.statistics.bookings import Entry

K = TypeVar("K")
V = TypeVar("V", bound=Any)


class Ledger(Generic[K, V]):
    """Values that add up, by slot; `zero` is what a slot begins with."""

    def __init__(self, kind: str, zero: V) -> None:
        self._kind = kind
        self._zero = zero
        self._epoch = uuid.uuid4().hex
        self._number = 0
        self._pending: dict[K, V] = {}
        self._sent: dict[K, V] = {}

    def add(self, slot: K, value: V) -> None:
        self._pending[slot] = self._pending.get(slot, self._zero) + value

    async def book(
        self, database: DatabaseThread, write: Callable[[Entry, Mapping[K, V]], None]
    ) -> None:
        """Hand everything to `write`. Raises one of AWAY; the next call then tries again.

        What was sent before keeps its number until it is known to be written: `write` sees by it
        whether that happened already.
        """
        if not self._sent:
            if not self._pending:
                return
            self._sent, self._pending = self._pending, {}
            self._number += 1
        entry = Entry(_source(), self._kind, self._epoch, self._number, datetime.now(UTC))
        await database.run(write, entry, self._sent)
        self._sent = {}


def minute_of(at: float) -> datetime:
    """The minute that a moment (epoch seconds) lies in."""
    return datetime.fromtimestamp(at // 60 * 60, UTC)


def _source() -> str:
    """One name for each edge of an installation, the same after a restart."""
    return f"edge:{socket.gethostname()[:60]}:{settings.CONFIG.ports.edge}"
