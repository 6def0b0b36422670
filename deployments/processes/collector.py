"""The collector: reads gateways and nodes; keeps live numbers and minute roll-ups."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import redis

from console import live
from console.errors import Conflict, Unavailable
from deployments.adapters import live_store
from deployments.adapters.gateway import GatewaySample
from deployments.adapters.observing import GAUGES, observe
from deployments.processes.database import AWAY, DatabaseThread
from deployments.processes.machine_watch import MachineWatch
from deployments.processes.node_watch import NodeLook, NodeWatch
from deployments.rules.gateways.snapshots import ClusterKey
from deployments.rules.statistics.live_window import LiveWindow, Second, to_point
from deployments.rules.statistics.readings import Reader, Reading
from deployments.rules.statistics.rollups import (
    GATEWAY_ITSELF,
    Traffic,
    Work,
    counted_version,
    traffic_of,
)
from deployments.selectors.statistics.watching import Watched, watched
from deployments.services.statistics import rollups as statistics
from deployments.services.statistics.rollups import Booking, EndpointKey

LOOK_S = 1.0
BOOK_S = 5.0
WATCHED_S = 3.0
IDLE_EVERY = 5

log = logging.getLogger(__name__)

Added = dict[EndpointKey, dict[int, Traffic]]


@dataclass(slots=True)
class Source:
    """One gateway or node: how far it was read, how far booked, and what lies between."""

    name: str
    reader: Reader
    booked_at: datetime | None
    booking: Booking = field(default_factory=Booking)
    changed: set[str] = field(default_factory=set)


class Collector:
    """Runs until it is told to stop; goes on without Redis, and books later without Postgres."""

    def __init__(self) -> None:
        self._database = DatabaseThread()
        self._watched = Watched()
        self._sources: dict[str, Source] = {}
        self._windows: dict[EndpointKey, LiveWindow] = {}
        self._work: dict[EndpointKey, dict[int, Work]] = {}
        self._mirrored: Added = {}
        self._nodes = NodeWatch(self._database, self._hear_node)
        self._machines = MachineWatch(self._database)
        self._ticks = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then book what is left."""
        async with httpx.AsyncClient(timeout=httpx.Timeout(2.0)) as client:
            loops = [
                asyncio.create_task(self._every(WATCHED_S, self._look_what_is_watched)),
                asyncio.create_task(self._every(LOOK_S, lambda: self._look(client))),
                asyncio.create_task(self._every(BOOK_S, self._book)),
                asyncio.create_task(self._nodes.run()),
                asyncio.create_task(self._machines.run()),
            ]
            stopped = asyncio.create_task(stop.wait())
            log.info("the collector reads gateways and nodes")
            try:
                # A loop ends only by an error that is ours: then the process ends too, and says so.
                done, _ = await asyncio.wait([*loops, stopped], return_when="FIRST_COMPLETED")
                for task in done - {stopped}:
                    task.result()
            finally:
                for task in [*loops, stopped]:
                    task.cancel()
                await asyncio.gather(*loops, stopped, return_exceptions=True)
                with suppress(*AWAY):
                    await self._book()
                    await self._machines.book()
                self._nodes.close()
                self._machines.close()
                self._database.close()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Run on a fixed beat; a beat that was missed is not made up for."""
        following = time.monotonic()
        while True:
            try:
                await work()
            except AWAY as error:
                log.warning("the database is away: %s", error)
            following = max(following + seconds, time.monotonic())
            await asyncio.sleep(following - time.monotonic())

    async def _look_what_is_watched(self) -> None:
        self._watched = await self._database.run(watched)
        self._nodes.watch(self._watched.nodes)
        self._machines.watch(self._watched.nodes)

    async def _look(self, client: httpx.AsyncClient) -> None:
        """Read every gateway, and tell what the last second brought."""
        samples = await asyncio.gather(
            *(observe(client, gateway) for gateway in self._watched.gateways),
            return_exceptions=True,
        )
        now = time.time()
        added: Added = {}
        bounds: tuple[float, ...] = ()
        for sample in samples:
            if isinstance(sample, GatewaySample):
                bounds = await self._take(sample, now, added) or bounds
            elif isinstance(sample, BaseException) and not isinstance(sample, Unavailable):
                raise sample
        self._ticks += 1
        if added:
            await self._tell(now, added, bounds)

    async def _take(self, sample: GatewaySample, now: float, added: Added) -> tuple[float, ...]:
        source = await self._source(f"gateway:{sample.gateway}")
        readings = {
            name: Reading(
                {n: c for n, c in cluster.counters.items() if n not in GAUGES},
                cluster.latency,
            )
            for name, cluster in sample.clusters.items()
        }
        minute = _minute(now)
        bounds: tuple[float, ...] = ()
        for name, grown in source.reader.read(sample.started_at, readings).items():
            key = ClusterKey.parse(name)
            if key is None or grown.latency is None:
                continue
            bounds = grown.latency.bounds
            endpoint = (key.environment, key.model)
            traffic = traffic_of(key, grown.counts, grown.latency)
            version = counted_version(key)
            if version is None:
                self._take_mirrored(source, name, endpoint, key.version or 0, traffic)
                continue
            versions = added.setdefault(endpoint, {GATEWAY_ITSELF: Traffic()})
            versions[version] = versions.get(version, Traffic()) + traffic
            if any(grown.counts.values()) or grown.latency.total:
                source.changed.add(name)
                source.booking.add_traffic(endpoint, version, minute, traffic)
            # Even a silent minute has a row: it was observed, and nobody called.
            source.booking.add_traffic(endpoint, GATEWAY_ITSELF, minute, Traffic())
        return bounds

    def _take_mirrored(
        self, source: Source, name: str, endpoint: EndpointKey, version: int, traffic: Traffic
    ) -> None:
        """Copies of requests are counted, and apart: no caller got their answers."""
        here = self._mirrored.setdefault(endpoint, {})
        here[version] = here.get(version, Traffic()) + traffic
        if traffic.requests:
            source.changed.add(name)
            source.booking.add_mirrored(endpoint, version, _minute(time.time()), traffic)

    async def _tell(self, now: float, added: Added, bounds: tuple[float, ...]) -> None:
        numbers, points = {}, {}
        for endpoint, traffic in added.items():
            second = Second(
                now, traffic, self._work.pop(endpoint, {}), self._mirrored.pop(endpoint, {})
            )
            window = self._windows.setdefault(endpoint, LiveWindow())
            window.add(second)
            key = "/".join(endpoint)
            points[key] = to_point(second)
            if not window.idle or self._ticks % IDLE_EVERY == 0:
                numbers[key] = window.numbers()
        try:
            await asyncio.to_thread(live_store.store, numbers, points, bounds)
        except redis.RedisError as error:
            log.warning("live numbers are not kept, Redis is away: %s", error)
            return
        for key, values in numbers.items():
            await asyncio.to_thread(live.publish_now, f"endpoint:{key}", "numbers", values)

    async def _hear_node(self, look: NodeLook) -> None:
        """Book what a node's Triton did, at every endpoint whose version it holds."""
        source = await self._source(f"node:{look.node}")
        minute = _minute(look.at)
        for name, grown in source.reader.read(0.0, look.readings).items():
            if not any(grown.counts.values()):
                continue
            source.changed.add(name)
            work = Work(**grown.counts)
            slot = look.slots[name]
            # Environments that share a version on a node share its Triton's numbers, too.
            for endpoint in self._watched.endpoints_of.get((look.node, *slot), ()):
                source.booking.add_work(endpoint, slot[1], minute, work)
                here = self._work.setdefault(endpoint, {})
                here[slot[1]] = here.get(slot[1], Work()) + work

    async def _source(self, name: str) -> Source:
        if name not in self._sources:
            reader, booked_at = await self._database.run(statistics.load_reader, name)
            self._sources[name] = Source(name, reader, booked_at)
        return self._sources[name]

    async def _book(self) -> None:
        for source in list(self._sources.values()):
            if not source.reader.known or not (source.changed or source.booking.traffic):
                continue
            booking, changed = source.booking, source.changed
            source.booking, source.changed = Booking(), set()
            at = datetime.now(UTC)
            try:
                await self._database.run(
                    statistics.book,
                    source.name,
                    booking,
                    reader=source.reader,
                    changed=changed | self._first_booking(source),
                    before=source.booked_at,
                    at=at,
                )
            except Conflict as error:
                # Another collector, or a commit of ours whose answer was lost: begin from there.
                log.warning("%s", error.message)
                del self._sources[source.name]
            except AWAY:
                _put_back(source, booking, changed)
                raise
            else:
                source.booked_at = at

    @staticmethod
    def _first_booking(source: Source) -> set[str]:
        """A source that is booked for the first time leaves a cursor for every series."""
        return set(source.reader.last) if source.booked_at is None else set()


def _put_back(source: Source, booking: Booking, changed: set[str]) -> None:
    for (key, version, minute), traffic in booking.traffic.items():
        source.booking.add_traffic(key, version, minute, traffic)
    for (key, version, minute), work in booking.work.items():
        source.booking.add_work(key, version, minute, work)
    for (key, version, minute), traffic in booking.mirrored.items():
        source.booking.add_mirrored(key, version, minute, traffic)
    source.changed |= changed


def _minute(at: float) -> datetime:
    return datetime.fromtimestamp(at // 60 * 60, UTC)
