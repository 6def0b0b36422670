"""The watch over machines: GPUs, hosts and Triton's own numbers, every two seconds.

Values go into minutes of measured series (`services/statistics/measurements.py`), the newest and a
ring of them to Redis. One source that does not answer stops none of the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

import httpx
import redis
from django.db import IntegrityError

from deployments.adapters import hosts, machine_store
from deployments.processes.database import AWAY, DatabaseThread
from deployments.processes.machine_sources import Faults, MachineSources, client
from deployments.rules.fleet import gpus as gpu_rules
from deployments.rules.fleet import hosts as host_rules
from deployments.rules.fleet import triton_numbers
from deployments.rules.fleet.catalogue import unit_of
from deployments.rules.fleet.gpus import Gpu
from deployments.rules.fleet.hosts import Host
from deployments.rules.fleet.triton_numbers import Slot, TritonNumbers, TritonVersion
from deployments.rules.statistics.measurements import (
    Quantity,
    Subject,
    Summary,
    minute_of,
    summed,
)
from deployments.selectors.fleet.machines import Machine, machines
from deployments.services.statistics import measurements

LOOK_S = 2.0
BOOK_S = 5.0
FACTS_S = 3.0
MOST_AT_ONCE = 2000
"""Minutes that are booked in one go: others use the same connection."""
MOST_KEPT = 200_000
"""Minutes that are kept while the database is away; then the oldest are given up, and said so."""

log = logging.getLogger(__name__)

T = TypeVar("T")
Minutes = dict[tuple[Quantity, datetime], Summary]


class Named(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(slots=True)
class _Last(Generic[T]):
    """The reading before this one of each thing, and when that was (monotonic seconds)."""

    readings: dict[Any, tuple[T, float]] = field(default_factory=dict)

    def turn(self, key: Any, now: T, at: float) -> tuple[T | None, float]:
        """The reading before and the seconds since; (None, 0) for the first one."""
        before = self.readings.get(key)
        self.readings[key] = (now, at)
        return (None, 0.0) if before is None else (before[0], at - before[1])


@dataclass(slots=True)
class _State:
    """What is known of a machine from look to look."""

    own: bool
    gpus: _Last[Gpu] = field(default_factory=_Last)
    host: _Last[Host] = field(default_factory=_Last)
    versions: _Last[TritonVersion] = field(default_factory=_Last)
    faults: Faults = field(default_factory=dict)


class MachineWatch:
    """Reads every machine that it is told to; goes on without Redis, and books late without
    Postgres."""

    def __init__(self, database: DatabaseThread) -> None:
        self._database = database
        self._names: frozenset[str] = frozenset()
        self._machines: list[Machine] = []
        self._facts_at = float("-inf")
        self._states: dict[str, _State] = {}
        self._minutes: Minutes = {}
        self._booked_at = time.monotonic()
        self._sources = MachineSources()

    def watch(self, nodes: Iterable[Named]) -> None:
        """Watch the machines of these nodes from now on."""
        names = frozenset(node.name for node in nodes)
        if names != self._names:
            self._names, self._facts_at = names, float("-inf")

    async def run(self) -> None:
        """Look until cancelled."""
        async with client() as http:
            while True:
                started = time.monotonic()
                if started - self._facts_at >= FACTS_S:
                    await self._try(self.refresh)
                await self.look(http)
                if time.monotonic() - self._booked_at >= BOOK_S:
                    self._booked_at = time.monotonic()
                    await self._try(self.book)
                await asyncio.sleep(max(started + LOOK_S - time.monotonic(), 0.05))

    @staticmethod
    async def _try(work: Callable[[], Awaitable[None]]) -> None:
        """Do what needs the database; while that is away, what was known goes on."""
        try:
            await work()
        except AWAY as error:
            log.warning("the database is away: %s", error)

    async def look(self, http: httpx.AsyncClient) -> None:
        """Look once at every machine."""
        await asyncio.gather(*(self._look(http, one) for one in self._machines))

    async def book(self) -> None:
        """Write what has been read. Raises one of AWAY, and keeps it then."""
        while self._minutes:
            some = dict(list(self._minutes.items())[:MOST_AT_ONCE])
            for key in some:
                del self._minutes[key]
            try:
                await self._database.run(measurements.record_minutes, self._of_known(some))
            except IntegrityError as error:
                # A node or an endpoint went away in between; the others' next values are booked.
                log.warning("%d minutes are given up: %s", len(some), error)
            except AWAY:
                for key, summary in some.items():
                    self._add(key, summary)
                raise

    def close(self) -> None:
        """Give what was opened back."""
        self._sources.close()

    async def refresh(self) -> None:
        """Ask anew for addresses, and for what lies where. Raises one of AWAY."""
        self._machines = await self._database.run(machines, self._names)
        self._facts_at = time.monotonic()
        here = {one.name for one in self._machines}
        self._states = {name: state for name, state in self._states.items() if name in here}

    async def _look(self, http: httpx.AsyncClient, machine: Machine) -> None:
        state = self._states.get(machine.name)
        if state is None:
            state = self._states[machine.name] = _State(hosts.is_own(machine.grpc_address))
        look = await self._sources.read(http, machine, own=state.own, faults=state.faults)
        at, now = datetime.now(UTC), time.monotonic()
        facts: dict[str, Any] = {
            "at": at.timestamp(),
            "gpu_source": look.gpu_source,
            "host_source": look.host_source,
            "faults": dict(state.faults),
            "why_no_gpus": self._sources.why_no_nvml if state.own and not look.gpus else "",
            "triton": self._take_triton(machine, state, look.triton, at, now),
            "gpus": [self._take_gpu(machine, state, gpu, at, now) for gpu in look.gpus],
        }
        host = {}
        if look.host is not None:
            before, seconds = state.host.turn("host", look.host, now)
            host = host_rules.values_of(look.host, before, seconds)
            self._note(Subject(node=machine.pk), host, at)
            facts |= {"host": host, "cores": look.host.cores}
        versions = facts["triton"]["versions"]
        point = {
            "t": at.timestamp(),
            "h": host,
            "g": {gpu["device"]: gpu["values"] for gpu in facts["gpus"]},
            "v": {f"{one['model']}/{one['version']}": one["values"] for one in versions},
        }
        try:
            await asyncio.to_thread(machine_store.store, machine.name, facts, point)
        except redis.RedisError as error:
            log.warning("numbers of machines are not kept, Redis is away: %s", error)

    def _take_triton(
        self, machine: Machine, state: _State, found: TritonNumbers, at: datetime, now: float
    ) -> dict[str, Any]:
        """Each version's values, at every endpoint that it serves from this node."""
        versions = []
        for slot, version in sorted(found.versions.items()):
            before, seconds = state.versions.turn(slot, version, now)
            values = triton_numbers.values_of(version, before, seconds)
            for endpoint in machine.endpoints.get(slot, ()):
                subject = Subject(node=machine.pk, endpoint=endpoint, version=slot[1])
                self._note(subject, values, at)
            versions.append({"model": slot[0], "version": slot[1], "values": values})
        self._forget(state, found.versions)
        told: dict[str, Any] = {"versions": versions}
        if found.pinned_total and found.pinned_used is not None:
            share = found.pinned_used / found.pinned_total * 100
            told["pinned"] = share
            self._note(Subject(node=machine.pk), {"triton_pinned_memory_used_percent": share}, at)
        return told

    @staticmethod
    def _forget(state: _State, here: Mapping[Slot, TritonVersion]) -> None:
        """A version that was unloaded begins anew when it comes back."""
        if here:
            last = state.versions.readings
            state.versions.readings = {slot: last[slot] for slot in last if slot in here}

    def _take_gpu(
        self, machine: Machine, state: _State, gpu: Gpu, at: datetime, now: float
    ) -> dict[str, Any]:
        before, seconds = state.gpus.turn(gpu.device, gpu, now)
        values = gpu_rules.values_of(gpu, before, seconds)
        self._note(Subject(node=machine.pk, device=gpu.device), values, at)
        return {
            "device": gpu.device,
            "uuid": gpu.uuid,
            "model": gpu.model,
            "driver": gpu.driver,
            "values": values,
        }

    def _note(self, subject: Subject, values: Mapping[str, float], at: datetime) -> None:
        for name, value in values.items():
            quantity = Quantity(subject, name, unit=unit_of(name))
            self._add((quantity, minute_of(at)), summed(value, at))

    def _add(self, key: tuple[Quantity, datetime], summary: Summary) -> None:
        known = self._minutes.get(key)
        self._minutes[key] = summary if known is None else known + summary
        if len(self._minutes) > MOST_KEPT:
            oldest = next(iter(self._minutes))
            del self._minutes[oldest]
            log.warning("a minute of %s is given up: the database is away", oldest[0].name)

    def _of_known(self, minutes: Minutes) -> Minutes:
        """Without those of nodes that are gone: their series cannot be written."""
        here = {machine.pk for machine in self._machines}
        return {key: one for key, one in minutes.items() if key[0].subject.node in here}
