"""Gateways that we go to: each has a loop of its own that applies, waits, and tries again.

What is wanted of a gateway replaces what was wanted before; a gateway that is away, slow or says no
holds up no other. The products' own parts are `Line`s.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from console.errors import CovenantError, Unavailable
from deployments.adapters.gateway import (
    Acked,
    Connected,
    Disconnected,
    GatewayAdapter,
    Nacked,
    Registration,
    Word,
)
from deployments.rules.gateways.snapshots import Snapshot

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0

log = logging.getLogger(__name__)


class Refused(Exception):
    """A gateway says no to a part of what it should have, in its own words."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}")
        self.part = part
        self.reason = reason


class _Replaced(Exception):
    """Something else is wanted of the gateway by now."""


class NotYet(Exception):
    """A gateway took everything and has not said yet that it acts on it."""


class Line(Protocol):
    """How one gateway of a product is reached. Every call may be made again."""

    async def probe(self) -> str:
        """The version of its program. Raises Unavailable."""
        ...

    async def apply(self, snapshot: Snapshot) -> bool:
        """Have the gateway do this, and say whether anything had to change.

        Raises Unavailable (it is away), Refused (it says no), NotYet.
        """
        ...

    async def close(self) -> None:
        """Hang up."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a gateway is looked at, in seconds."""

    look_s: float = 2.0
    resync_s: float = 30.0
    again_s: float = 15.0


@dataclass(slots=True)
class _Held:
    """One gateway: what is wanted of it, what it said last, and the loop that serves it."""

    registration: Registration
    line: Line
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    wanted: Snapshot | None = None
    wanted_at: float = 0.0
    acked: str = ""
    refused: tuple[str, str] = ("", "")
    applied_at: float = 0.0
    connected: bool = False
    pause_s: float = FIRST_PAUSE_S
    task: asyncio.Task[None] | None = None


class ReachingAdapter(GatewayAdapter):
    """Control of the gateways of a product that are reached at their `admin_url`.

    `hear` is called in the event loop with each word and must not block.
    """

    def __init__(
        self,
        connect: Callable[[Registration], Line],
        hear: Callable[[Word], None],
        pace: Pace | None = None,
    ) -> None:
        self._connect = connect
        self._hear = hear
        self._pace = pace or Pace()
        self._held: dict[str, _Held] = {}

    async def start(self, address: str) -> int:
        """Nothing is listened on: these gateways are gone to."""
        return 0

    async def stop(self) -> None:
        """End every loop."""
        tasks = [held.task for held in self._held.values() if held.task]
        self._held.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def register(self, gateways: Iterable[Registration]) -> None:
        """Begin with new gateways, begin anew with changed ones, and let go of the others."""
        wanted = {one.name: one for one in gateways}
        for name, held in list(self._held.items()):
            if wanted.get(name) != held.registration:
                self._let_go(name)
        for name, registration in wanted.items():
            if name not in self._held:
                held = _Held(registration, self._connect(registration))
                held.task = asyncio.create_task(self._serve(held), name=f"gateway {name}")
                self._held[name] = held

    def set_snapshot(self, node_id: str, snapshot: Snapshot) -> None:
        """Say what a gateway should have; the same again is not news."""
        held = self._held.get(node_id)
        if held is None or (held.wanted and held.wanted.version == snapshot.version):
            return
        held.wanted, held.wanted_at = snapshot, _now()
        held.wake.set()

    def connected(self) -> frozenset[str]:
        """Names of the gateways that answered when they were last asked."""
        return frozenset(name for name, held in self._held.items() if held.connected)

    def _let_go(self, name: str) -> None:
        held = self._held.pop(name)
        if held.task:
            held.task.cancel()
        if held.connected:
            self._hear(Disconnected(name))

    async def _serve(self, held: _Held) -> None:
        try:
            while True:
                held.wake.clear()
                await self._attempt(held)
                try:
                    await asyncio.wait_for(held.wake.wait(), self._until_next(held))
                except TimeoutError:
                    continue
        finally:
            await held.line.close()

    def _until_next(self, held: _Held) -> float:
        if held.pause_s > FIRST_PAUSE_S:
            return held.pause_s * random.uniform(0.7, 1.0)  # noqa: S311 - spreads tries, no secret
        return self._pace.look_s

    async def _attempt(self, held: _Held) -> None:
        """Look whether the gateway is there, and have it do what is wanted if that is due."""
        name = held.registration.name
        try:
            build = await held.line.probe()
            if not held.connected:
                held.connected, held.acked, held.wanted_at = True, "", _now()
                self._hear(Connected(name, held.registration.admin_url, build))
            if held.wanted is not None and self._is_due(held, held.wanted):
                await self._apply(held, held.wanted)
            held.pause_s = FIRST_PAUSE_S
        except NotYet as silence:
            log.info("gateway %s: %s", name, silence)
            held.pause_s = min(held.pause_s * 2, self._pace.look_s)
        except Unavailable as fault:
            if held.connected:
                log.warning("gateway %s is away: %s", name, fault.message)
                held.connected = False
                self._hear(Disconnected(name))
            held.pause_s = min(held.pause_s * 2, LONGEST_PAUSE_S)
        except CovenantError as fault:
            self._refuse(held, Refused("registration", fault.message))
        except Exception:
            # One gateway's loop must not end by a fault of ours: nobody would begin it again.
            log.exception("gateway %s could not be served", name)
            held.pause_s = LONGEST_PAUSE_S

    def _is_due(self, held: _Held, wanted: Snapshot) -> bool:
        since = _now() - held.applied_at
        if held.acked == wanted.version:
            return since >= self._pace.resync_s
        return held.refused[0] != wanted.version or since >= self._pace.again_s

    async def _apply(self, held: _Held, snapshot: Snapshot) -> None:
        try:
            changed = await self._unless_replaced(held, snapshot)
        except _Replaced:
            return
        except Refused as refusal:
            held.applied_at = _now()
            self._refuse(held, refusal, snapshot)
            return
        held.applied_at, held.refused = _now(), ("", "")
        if held.acked == snapshot.version:
            if changed:
                log.warning("gateway %s had been changed by somebody else", held.registration.name)
            return
        held.acked = snapshot.version
        took = round((_now() - held.wanted_at) * 1000, 3)
        self._hear(Acked(held.registration.name, snapshot, took))

    async def _unless_replaced(self, held: _Held, snapshot: Snapshot) -> bool:
        """Apply, and give it up for what is wanted instead: a rollback waits for no other change.

        Raises _Replaced, and what the line raises.
        """
        work = asyncio.create_task(held.line.apply(snapshot))
        try:
            while not work.done():
                news = asyncio.create_task(held.wake.wait())
                await asyncio.wait({work, news}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if not work.done() and held.wanted is not snapshot:
                    raise _Replaced
                if not work.done():
                    held.wake.clear()
            return work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def _refuse(self, held: _Held, refusal: Refused, snapshot: Snapshot | None = None) -> None:
        """Tell a refusal once, not each time that the same is tried again."""
        said = (snapshot.version if snapshot else "", refusal.reason)
        held.acked = ""
        if snapshot is not None and said != held.refused:
            self._hear(Nacked(held.registration.name, snapshot, refusal.part, refusal.reason))
        elif snapshot is None:
            log.warning("gateway %s: %s", held.registration.name, refusal)
            held.pause_s = LONGEST_PAUSE_S
        held.refused = said


def _now() -> float:
    return asyncio.get_running_loop().time()
