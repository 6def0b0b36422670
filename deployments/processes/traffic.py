"""The traffic control: whatever moves traffic by itself, looked at each second by one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from deployments.adapters.lease import Lease
from deployments.processes.database import AWAY, DatabaseThread, connection_parameters
from deployments.services.access import token_issuers
from deployments.services.alerts import escalating
from deployments.services.alerts.engine import AlertEngine
from deployments.services.experiments import acts as experiments
from deployments.services.gateways import certificate_watch
from deployments.services.incidents import escalations, redeploys
from deployments.services.incidents import records as incidents
from deployments.services.rollouts import engine as rollout_engine

LEASE = 0x434F_5654
"""Number of the Postgres advisory lock that the one active process holds."""
RETRY_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tick:
    """Something that is done again and again; `act(now)` may run twice for one moment."""

    name: str
    act: Callable[[datetime], object]
    every_s: float = 1.0


TICKS: tuple[Tick, ...] = (
    Tick("rollouts", rollout_engine.RolloutWatch()),
    Tick("rollback levels", escalations.EndpointWatch()),
    Tick("deploys of what a rollback goes to", redeploys.finish_redeploys),
    Tick("incidents that are over", incidents.end_settled, every_s=2),
    Tick("experiments", experiments.take_off_worse, every_s=5),
    Tick("alerts", AlertEngine(), every_s=5),
    Tick("alerts on burns and leaks", AlertEngine(slow=True), every_s=15),
    Tick("escalation of alerts", escalating.escalate_due, every_s=10),
    Tick("token issuers", token_issuers.refresh_due, every_s=20),
    Tick("certificates", certificate_watch.warn_of_certificates, every_s=600),
)


class TrafficControl:
    """Runs every tick while it holds the lease; others wait, and take over when it is gone.

    Each tick has a thread and a connection of its own, so that a slow one holds up nobody. What a
    tick did is in the database: a new holder goes on from there.
    """

    def __init__(self, ticks: tuple[Tick, ...] = TICKS) -> None:
        self._ticks = ticks
        self._lease = Lease(connection_parameters(), LEASE)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                if not await self._take_lease():
                    await asyncio.wait([stopped], timeout=RETRY_S)
                    continue
                log.info("the traffic control is active")
                await self._work(stopped)
        finally:
            stopped.cancel()
            await self._lease.give_back()

    async def _work(self, stopped: asyncio.Task[bool]) -> None:
        """Run the ticks until told to stop, or until the lease is lost."""
        loops = [asyncio.create_task(self._loop(tick)) for tick in self._ticks]
        keeper = asyncio.create_task(self._keep_lease())
        try:
            done, _ = await asyncio.wait([*loops, keeper, stopped], return_when="FIRST_COMPLETED")
            for task in done - {stopped}:
                task.result()
        finally:
            for task in [*loops, keeper]:
                task.cancel()
            await asyncio.gather(*loops, keeper, return_exceptions=True)

    async def _loop(self, tick: Tick) -> None:
        database = DatabaseThread()
        try:
            while True:
                try:
                    await database.run(tick.act, datetime.now(UTC))
                except AWAY as error:
                    log.warning("%s: waiting for the database: %s", tick.name, error)
                except Exception:
                    # What one row does to one tick must not stop the others, or this one for good.
                    log.exception("%s could not be done", tick.name)
                await asyncio.sleep(tick.every_s)
        finally:
            database.close()

    async def _take_lease(self) -> bool:
        try:
            return await self._lease.take()
        except psycopg.Error as error:
            log.warning("waiting for the database: %s", error)
            return False

    async def _keep_lease(self) -> None:
        """Return when the connection that held the lease is gone, and with it the lease."""
        while True:
            if not await self._lease.holds():
                log.warning("the lease is lost")
                return
            await asyncio.sleep(RETRY_S)
