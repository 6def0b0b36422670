"""The watch over the nodes: who answers, what is loaded, and what its Triton counted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import redis
from django.conf import settings

from console.actors import Actor
from console.adapters.triton import Timeouts, TritonClient
from console.errors import CovenantError
from deployments.adapters import live_store
from deployments.models import Node
from deployments.processes.database import AWAY, DatabaseThread
from deployments.rules.statistics.readings import Reading
from deployments.selectors.statistics.watching import WatchedNode, wanted_on
from deployments.services.fleet import nodes as fleet
from deployments.services.fleet.reconciles import loaded_slots

PROBE_S = 1.0
LOST_AFTER_S = 3.0
STATISTICS_EVERY = 2
ASK_AGAIN_S = 10.0
SEEN_EVERY_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """What one look at a node's Triton read; `slots` says which version each series is of."""

    node: str
    at: float
    readings: dict[str, Reading]
    slots: dict[str, tuple[str, int]]


@dataclass(slots=True)
class _Watch:
    node: WatchedNode
    client: TritonClient
    looks: int = 0
    answered_at: float = field(default_factory=time.monotonic)
    seen_at: float = 0.0
    asked_at: float = float("-inf")
    version: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class _Facts:
    loaded: list[dict[str, Any]]
    ready: set[tuple[str, int]]
    look: NodeLook


class NodeWatch:
    """Probes every node each second; each look goes to `hear`."""

    def __init__(
        self, database: DatabaseThread, hear: Callable[[NodeLook], Awaitable[None]]
    ) -> None:
        self._database = database
        self._hear = hear
        self._watches: dict[str, _Watch] = {}
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="node")

    def watch(self, nodes: tuple[WatchedNode, ...]) -> None:
        """Watch these nodes from now on; what is known of those watched already stays."""
        names = {node.name for node in nodes}
        for name in set(self._watches) - names:
            self._watches.pop(name).client.close()
        for node in nodes:
            known = self._watches.get(node.name)
            if known is not None and known.node.grpc_address == node.grpc_address:
                known.node = node
                continue
            if known is not None:
                known.client.close()
            client = TritonClient(
                node.grpc_address,
                repository_key=settings.CONFIG.triton_repository_key,
                timeouts=Timeouts(control_s=1.0),
            )
            self._watches[node.name] = _Watch(node, client)

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            started = time.monotonic()
            found = await asyncio.gather(
                *(self._probe(watch) for watch in list(self._watches.values())),
                return_exceptions=True,
            )
            for error in found:
                if isinstance(error, AWAY):
                    log.warning("the database is away: %s", error)
                elif isinstance(error, BaseException):
                    raise error
            await asyncio.sleep(max(started + PROBE_S - time.monotonic(), 0.05))

    def close(self) -> None:
        """Close every connection."""
        for watch in self._watches.values():
            watch.client.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _probe(self, watch: _Watch) -> None:
        now = time.monotonic()
        watch.looks += 1
        if not await self._thread(watch.client.ready):
            # The age of its last answer decides, not a number of probes, which may be late.
            late = now - watch.answered_at >= LOST_AFTER_S and not watch.node.lost
            watch.silent = True
            if late:
                await self._lose(watch, "does not answer")
            return
        # Who was silent may have been restarted, and then has nothing loaded: look at once.
        look_now, watch.silent, watch.answered_at = watch.silent, False, now
        if watch.node.lost:
            await self._ask_for_restore(watch, now)
        if look_now or watch.looks % STATISTICS_EVERY == 0:
            await self._look(watch, now)

    async def _look(self, watch: _Watch, now: float) -> None:
        try:
            facts = await self._thread(self._read, watch)
        except CovenantError as error:
            log.warning("node %s: %s", watch.node.name, error.message)
            return
        await self._hear(facts.look)
        if watch.node.wanted - facts.ready and not watch.node.lost:
            await self._check_missing(watch, now)
        if now - watch.seen_at >= SEEN_EVERY_S:
            watch.seen_at = now
            await self._database.run(
                fleet.node_seen,
                watch.node.name,
                at=datetime.now(UTC),
                triton_version=watch.version,
            )
        facts_json = {"at": facts.look.at, "version": watch.version, "loaded": facts.loaded}
        try:
            await self._thread(live_store.store_node, watch.node.name, facts_json)
        except redis.RedisError as error:
            log.warning("node facts are not kept, Redis is away: %s", error)

    async def _check_missing(self, watch: _Watch, now: float) -> None:
        """Something seems to be missing: have it restored, if it really is.

        The rows are read first and Triton after them: what was ready then must be loaded now.
        """
        wanted = await self._database.run(wanted_on, watch.node.name)
        try:
            missing = wanted - await self._thread(loaded_slots, watch.client)
        except CovenantError:
            return
        if not missing:
            return
        if missing == wanted:
            await self._lose(watch, "has been restarted and serves nothing")
        await self._ask_for_restore(watch, now)

    async def _lose(self, watch: _Watch, why: str) -> None:
        if await self._database.run(fleet.node_lost, watch.node.name):
            log.warning("node %s is lost: it %s", watch.node.name, why)

    async def _ask_for_restore(self, watch: _Watch, now: float) -> None:
        if now - watch.asked_at < ASK_AGAIN_S:
            return
        watch.asked_at = now
        log.info("node %s: asking its worker to restore what it lacks", watch.node.name)
        await self._database.run(_reconcile, watch.node.name)

    async def _thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    @staticmethod
    def _read(watch: _Watch) -> _Facts:
        if not watch.version:
            watch.version = watch.client.metadata().version
        index = watch.client.index()
        readings, slots = {}, {}
        for one in watch.client.statistics():
            name = f"{one.model}/{one.version}"
            slots[name] = (one.model, one.version)
            compute = one.compute_input.ns + one.compute_infer.ns + one.compute_output.ns
            readings[name] = Reading(
                {
                    "inferences": one.inference_count,
                    "executions": one.execution_count,
                    "queue_ns": one.queue.ns,
                    "compute_ns": compute,
                    "failures": one.fail.count,
                }
            )
        return _Facts(
            loaded=[
                {"model": e.name, "version": e.version, "state": e.state, "reason": e.reason}
                for e in index
            ],
            ready={
                (e.name, int(e.version))
                for e in index
                if e.state == "READY" and e.version.isdecimal()
            },
            look=NodeLook(watch.node.name, time.time(), readings, slots),
        )


def _reconcile(name: str) -> None:
    node = Node.objects.filter(name=name).first()
    if node is not None:
        fleet.reconcile_node(node=node, actor=Actor.system("node watch"))
