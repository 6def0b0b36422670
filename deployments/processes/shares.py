"""Which gateways and nodes this collector reads: those whose leases it holds."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from deployments.adapters.leases import Leases
from deployments.processes.database import connection_parameters
from deployments.rules.statistics.shares import divide

GROUP = 0x434F_564C
"""Number of the group of advisory locks that collectors hold."""
TELLER = "teller"
"""The lease of the one collector that puts together what all have read, for live numbers."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """What became ours, what somebody else has, and what we should let go when it is booked."""

    gained: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    surplus: frozenset[str] = frozenset()


class Shares:
    """The leases of one collector."""

    def __init__(self) -> None:
        self._leases = Leases(connection_parameters(), GROUP)
        self.tells = False

    @property
    def held(self) -> frozenset[str]:
        return self._leases.held - {TELLER}

    async def settle(self, wanted: Collection[str]) -> Change:
        """Look who else collects, and take what is free up to our share.

        While the database is away nothing changes: nobody can take anything then. Raises nothing.
        """
        try:
            lost = await self._leases.keep()
            division = divide(wanted, self.held, await self._leases.holders())
            gained = await self._take(division.candidates, division.room)
            self.tells = TELLER in self._leases.held | await self._leases.take([TELLER])
        except psycopg.Error as error:
            log.warning("the leases cannot be looked at: %s", error)
            return Change()
        return Change(gained, lost - {TELLER}, frozenset(division.give))

    async def give(self, names: Collection[str]) -> None:
        """Let others have these; where the database is away, they will have them when it is not."""
        with suppress(psycopg.Error):
            await self._leases.give(names)

    async def close(self) -> None:
        """Let others have everything."""
        with suppress(psycopg.Error):
            await self._leases.close()

    async def _take(self, candidates: Sequence[str], room: int) -> frozenset[str]:
        gained: frozenset[str] = frozenset()
        for at in range(0, len(candidates), max(room, 1)):
            left = room - len(gained)
            if left <= 0:
                break
            # No more than there is room for: what was taken too much would be read by nobody.
            gained |= await self._leases.take(candidates[at : at + left])
        return gained
