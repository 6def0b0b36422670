"""The collector: reads gateways and nodes; keeps live numbers and minute roll-ups.

Several may run: each reads the gateways and nodes whose leases it holds (see `shares`), and one of
them tells the live numbers of all. What is booked is exact whoever reads: a booking goes on from
the cursors that the last one left, or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import httpx

from console.errors import Conflict, Unavailable
from deployments.adapters.gateway import GatewaySample, Registration
from deployments.adapters.observing import GAUGES, observe
from deployments.processes.database import AWAY, DatabaseThread
from deployments.processes.machine_watch import MachineWatch
from deployments.processes.node_watch import NodeLook, NodeWatch
from deployments.processes.shares import Shares
from deployments.processes.sources import Source
from deployments.processes.teller import Part, Teller
from deployments.rules.gateways.snapshots import ClusterKey
from deployments.rules.statistics.answers import traffic_of_answers
from deployments.rules.statistics.latency_bounds import kept
from deployments.rules.statistics.readings import Reading
from deployments.rules.statistics.rollups import (
    GATEWAY_ITSELF,
    Traffic,
    Work,
    beside_answers,
    counted_version,
    traffic_of,
)
from deployments.selectors.statistics.watching import NOTHING_PROMISED, Watched, watched
from deployments.services.statistics import gaps
from deployments.services.statistics import rollups as statistics
from deployments.services.statistics.rollups import Booking, EndpointKey

LOOK_S = 1.0
BOOK_S = 5.0
WATCHED_S = 3.0
SHARE_S = 1.0
_CALLERS = "callers:"

log = logging.getLogger(__name__)


class Collector:
    """Runs until it is told to stop; goes on without Redis, and books later without Postgres."""

    def __init__(self) -> None:
        self._database = DatabaseThread()
        self._watched = Watched()
        self._shares = Shares()
        self._settling = asyncio.Lock()
        self._mine: frozenset[str] = frozenset()
        self._sources: dict[str, Source] = {}
        self._part = Part()
        self._teller = Teller()
        self._nodes = NodeWatch(self._database, self._hear_node)
        self._machine_database = DatabaseThread()
        self._machines = MachineWatch(self._machine_database)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then book what is left."""
        async with httpx.AsyncClient(timeout=httpx.Timeout(2.0)) as client:
            loops = [
                asyncio.create_task(self._every(WATCHED_S, self._look_what_is_watched)),
                asyncio.create_task(self._every(SHARE_S, self._settle)),
                asyncio.create_task(self._every(LOOK_S, lambda: self._look(client))),
                asyncio.create_task(self._every(BOOK_S, self._book_all)),
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
                await self._close()

    async def _close(self) -> None:
        with suppress(*AWAY):
            await self._book_all()
        with suppress(*AWAY):
            await self._machines.book()
        await self._shares.close()
        self._machines.close()
        self._nodes.close()
        self._machine_database.close()
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
        known = self._watched.sources
        self._watched = await self._database.run(watched)
        if self._watched.sources != known:
            await self._settle()
        self._watch_nodes()

    def _watch_nodes(self) -> None:
        nodes = tuple(one for one in self._watched.nodes if f"node:{one.name}" in self._mine)
        self._nodes.watch(nodes)
        self._machines.watch(nodes)

    async def _settle(self) -> None:
        """Take and give leases; what is given is booked first, so that the next goes on there."""
        async with self._settling:
            await self._settle_alone()

    async def _settle_alone(self) -> None:
        change = await self._shares.settle(self._watched.sources)
        for name in change.lost | change.gained:
            # Somebody else may have booked since: its cursors say how far.
            self._sources.pop(name, None)
        self._mine = self._shares.held - change.surplus
        for name in sorted(change.surplus):
            source = self._sources.pop(name, None)
            if source is not None:
                with suppress(*AWAY):
                    await self._book(source)
        await self._shares.give(change.surplus)
        if change.gained or change.lost or change.surplus:
            log.info("%d of %d sources are ours", len(self._mine), len(self._watched.sources))
            self._watch_nodes()

    async def _look(self, client: httpx.AsyncClient) -> None:
        """Read every gateway of ours, and tell what the last second brought."""
        gateways = [one for one in self._watched.gateways if f"gateway:{one.name}" in self._mine]
        samples = await asyncio.gather(
            *(observe(client, gateway) for gateway in gateways), return_exceptions=True
        )
        now = time.time()
        for gateway, sample in zip(gateways, samples, strict=True):
            if isinstance(sample, GatewaySample):
                await self._take(sample, now)
            elif isinstance(sample, Unavailable):
                await self._miss(gateway, now, sample)
            elif isinstance(sample, BaseException):
                raise sample
        part, self._part = self._part, Part()
        await self._teller.tell(part, at=now, bounds=self._watched.bounds, tells=self._shares.tells)

    async def _miss(self, gateway: Registration, now: float, fault: Unavailable) -> None:
        source = await self._source(f"gateway:{gateway.name}")
        source.failed(datetime.fromtimestamp(now, UTC), fault.message)

    async def _take(self, sample: GatewaySample, now: float) -> None:
        source = await self._source(f"gateway:{sample.gateway}")
        at = datetime.fromtimestamp(now, UTC)
        epoch = source.epoch_of(at, sample.started_at, sample.uptime_s)
        source.read(at, epoch)
        grown = source.reader.read(epoch, _readings(sample))
        minute = _minute(now)
        for name, reading in grown.items():
            if any(reading.counts.values()) or (reading.latency and reading.latency.total):
                source.changed.add(name)
            if name.startswith(_CALLERS):
                environment, _, model = name.removeprefix(_CALLERS).partition("/")
                self._take_answers(source, (environment, model), minute, reading)
            elif (key := ClusterKey.parse(name)) is not None:
                self._take_cluster(source, key, minute, reading)

    def _take_answers(
        self, source: Source, endpoint: EndpointKey, minute: datetime, grown: Reading
    ) -> None:
        """What callers got: this alone is the number of requests."""
        promised = self._watched.promised.get(endpoint, NOTHING_PROMISED)
        for version, traffic in traffic_of_answers(grown.counts, promised.meanings).items():
            self._part.add_traffic(endpoint, version, traffic)
            source.booking.add_traffic(endpoint, version, minute, traffic)

    def _take_cluster(
        self, source: Source, key: ClusterKey, minute: datetime, grown: Reading
    ) -> None:
        """How long it took, what went wrong on the way, and what mirrors answered for nobody."""
        if grown.latency is None:
            return
        endpoint = (key.environment, key.model)
        promised = self._watched.promised.get(endpoint, NOTHING_PROMISED)
        latency = kept(grown.latency, self._watched.bounds)
        own = kept(grown.latency, promised.bounds)
        version = counted_version(key)
        if version is None:
            traffic = traffic_of(key, grown.counts, latency)
            self._part.add_mirrored(endpoint, key.version or 0, traffic)
            if traffic.requests:
                booked = traffic_of(key, grown.counts, own)
                source.booking.add_mirrored(endpoint, key.version or 0, minute, booked)
            return
        beside = beside_answers(key, grown.counts, latency)
        self._part.add_traffic(endpoint, version, beside)
        if beside.statuses or own.total:
            booked = beside_answers(key, grown.counts, own)
            source.booking.add_traffic(endpoint, version, minute, booked)
        # Even a silent minute has a row: it was observed, and nobody called.
        source.booking.add_traffic(endpoint, GATEWAY_ITSELF, minute, Traffic())

    async def _hear_node(self, look: NodeLook) -> None:
        """Book what a node's Triton did, at every endpoint whose version it holds."""
        if f"node:{look.node}" not in self._mine:
            return
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
                self._part.add_work(endpoint, slot[1], work)

    async def _source(self, name: str) -> Source:
        if name not in self._sources:
            reader, booked_at = await self._database.run(statistics.load_reader, name)
            self._sources[name] = Source(name, reader, booked_at, read_at=booked_at)
        return self._sources[name]

    async def _book_all(self) -> None:
        for source in list(self._sources.values()):
            await self._book(source)

    async def _book(self, source: Source) -> None:
        """Write what a source grew by. Raises one of AWAY, and keeps it then."""
        at = datetime.now(UTC)
        await self._note_gaps(source)
        if not source.due(at):
            return
        booking, changed = source.booking, source.changed
        source.booking, source.changed = Booking(), set()
        try:
            await self._database.run(
                statistics.book,
                source.name,
                booking,
                # As it is now: what is read while this is written belongs to the next booking, and
                # a cursor that is ahead of what was booked would lose it with this process.
                reader=replace(source.reader, last=dict(source.reader.last)),
                changed=changed | source.first_booking(),
                before=source.booked_at,
                at=at,
            )
        except Conflict as error:
            # Another collector, or a commit of ours whose answer was lost: begin from there.
            log.warning("%s", error.message)
            self._sources.pop(source.name, None)
        except AWAY:
            source.put_back(booking, changed)
            raise
        else:
            source.booked_at = at

    async def _note_gaps(self, source: Source) -> None:
        if source.gaps:
            found, source.gaps = source.gaps, []
            try:
                await self._database.run(gaps.note, found)
            except AWAY:
                source.gaps = [*found, *source.gaps]
                raise


def _readings(sample: GatewaySample) -> dict[str, Reading]:
    """Everything that a gateway counted, by series."""
    readings = {
        name: Reading(
            {n: count for n, count in cluster.counters.items() if n not in GAUGES},
            cluster.latency,
        )
        for name, cluster in sample.clusters.items()
    }
    for (environment, model), counts in sample.callers.items():
        readings[f"{_CALLERS}{environment}/{model}"] = Reading(counts)
    return readings


def _minute(at: float) -> datetime:
    return datetime.fromtimestamp(at // 60 * 60, UTC)
