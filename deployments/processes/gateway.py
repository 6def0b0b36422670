"""The gateway control: rows become snapshots for gateways, and their words become rows."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from django.conf import settings

from console.errors import CovenantError
from deployments.adapters.envoy.ads import AdsServer
from deployments.adapters.gateway import (
    Acked,
    Connected,
    Disconnected,
    GatewayAdapter,
    Nacked,
    Word,
)
from deployments.adapters.gateway_products import reaching_adapters
from deployments.adapters.notifications import notifications
from deployments.processes.database import AWAY, DatabaseThread, connection_parameters
from deployments.selectors.gateways.registered import registrations
from deployments.services.gateways import desired as gateways

POLL_S = 1.0

log = logging.getLogger(__name__)


class GatewayControl:
    """Serves ADS on one address, and goes to the gateways that do not come, until told to stop.

    It is woken by Postgres when a change commits, and looks each second all the same. Without the
    database the gateways keep their last snapshots, and what they said is written down later.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._database = DatabaseThread()
        self._wake = asyncio.Event()
        # Whether the rows may have changed: after an acknowledgement alone they have not.
        self._stale = True
        self._words: deque[Word] = deque()
        self._ads = AdsServer(
            on_connect=self._hear, on_disconnect=self._hear, on_ack=self._hear, on_nack=self._hear
        )
        self._adapters: dict[str, GatewayAdapter] = {
            "envoy": self._ads,
            **reaching_adapters(self._hear, settings.CONFIG.gateway_secrets),
        }
        self.port = 0
        self.listening = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. Raises RuntimeError when the address is taken."""
        self.port = await self._ads.start(self._address)
        self.listening.set()
        log.info("gateway control listens on port %s", self.port)
        listener = asyncio.create_task(self._listen())
        stopper = asyncio.create_task(self._wake_on(stop))
        await self._start_anew()
        try:
            while not stop.is_set():
                await self._look()
                try:
                    await asyncio.wait_for(self._wake.wait(), POLL_S)
                except TimeoutError:
                    self._stale = True
                self._wake.clear()
        finally:
            listener.cancel()
            stopper.cancel()
            await asyncio.gather(*(adapter.stop() for adapter in self._adapters.values()))
            self._database.close()

    def _hear(self, word: Word) -> None:
        self._words.append(word)
        self._stale = self._stale or not isinstance(word, Acked)
        self._wake.set()

    async def _listen(self) -> None:
        async for _ in notifications(connection_parameters(), gateways.CHANNEL):
            self._stale = True
            self._wake.set()

    async def _wake_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _start_anew(self) -> None:
        while True:
            try:
                await self._database.run(gateways.record_none_connected)
            except AWAY as error:
                log.warning("waiting for the database: %s", error)
                await asyncio.sleep(POLL_S)
            else:
                return

    async def _look(self) -> None:
        """Write down what was said, then tell every gateway what it should have."""
        try:
            while self._words:
                await self._record(self._words[0])
                self._words.popleft()
            if self._stale:
                self._stale = False
                await self._tell()
        except AWAY as error:
            self._stale = True
            log.warning("the gateways keep what they have, the database is away: %s", error)
        except CovenantError:
            log.exception("no snapshot could be made")

    async def _tell(self) -> None:
        """Say to each product's adapter which gateways there are, and what they should have."""
        registered = await self._database.run(registrations)
        connected: set[str] = set()
        for product, adapter in self._adapters.items():
            own = [one for one in registered if one.product == product]
            adapter.register(own)
            connected |= adapter.connected() & {one.name for one in own}
        if not connected:
            return
        products = {one.name: one.product for one in registered}
        for desired in await self._database.run(gateways.desired_snapshots, connected):
            self._adapters[products[desired.gateway]].set_snapshot(
                desired.gateway, desired.snapshot
            )
            for state, reason in desired.refused:
                await self._database.run(
                    gateways.record_unrenderable, desired.gateway, state, reason
                )

    async def _record(self, word: Word) -> None:
        match word:
            case Connected(node_id=name):
                log.info("gateway %s connected from %s", name, word.peer)
                if not await self._database.run(gateways.record_connected, name):
                    log.warning("no gateway is registered as %s; it is told nothing", name)
            case Disconnected(node_id=name):
                log.info("gateway %s disconnected", name)
                if not any(name in adapter.connected() for adapter in self._adapters.values()):
                    await self._database.run(gateways.record_disconnected, name)
            case Acked(node_id=name, snapshot=snapshot):
                await self._database.run(gateways.record_ack, name, snapshot)
            case Nacked(node_id=name, snapshot=snapshot, reason=reason):
                log.warning("gateway %s refused %s: %s", name, word.resource_type, reason)
                await self._database.run(gateways.record_nack, name, snapshot, reason)
