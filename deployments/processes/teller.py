"""Live numbers: what all collectors have read within a second, put together by one of them.

Each collector reads its share of the gateways and nodes. Who holds the teller's lease adds up the
parts, so that an endpoint behind several gateways has one window, one ring and one set of numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from console import live
from deployments.adapters import live_store
from deployments.rules.statistics.live_window import LiveWindow, Second, from_point, to_point
from deployments.rules.statistics.rollups import GATEWAY_ITSELF, Traffic, Work
from deployments.services.statistics.rollups import EndpointKey

IDLE_EVERY = 5
LATE_S = 10.0
"""Parts that are older were read while nobody told; they would show a burst that was none."""

log = logging.getLogger(__name__)

ByVersion = dict[EndpointKey, dict[int, Traffic]]


@dataclass(slots=True)
class Part:
    """What was read within a second. An endpoint of `traffic` was observed, if only silent."""

    traffic: ByVersion = field(default_factory=dict)
    mirrored: ByVersion = field(default_factory=dict)
    work: dict[EndpointKey, dict[int, Work]] = field(default_factory=dict)

    def add_traffic(self, key: EndpointKey, version: int, more: Traffic) -> None:
        here = self.traffic.setdefault(key, {GATEWAY_ITSELF: Traffic()})
        here[version] = here.get(version, Traffic()) + more

    def add_mirrored(self, key: EndpointKey, version: int, more: Traffic) -> None:
        here = self.mirrored.setdefault(key, {})
        here[version] = here.get(version, Traffic()) + more

    def add_work(self, key: EndpointKey, version: int, more: Work) -> None:
        here = self.work.setdefault(key, {})
        here[version] = here.get(version, Work()) + more

    def seconds(self, at: float) -> dict[EndpointKey, Second]:
        """The part of each endpoint."""
        return {
            key: Second(
                at,
                self.traffic.get(key, {}),
                self.work.get(key, {}),
                self.mirrored.get(key, {}),
            )
            for key in (*self.traffic, *(k for k in self.work if k not in self.traffic))
        }

    def add(self, key: EndpointKey, second: Second) -> None:
        """Add what another collector read."""
        for version, traffic in second.traffic.items():
            self.add_traffic(key, version, traffic)
        for version, traffic in second.mirrored.items():
            self.add_mirrored(key, version, traffic)
        for version, work in second.work.items():
            self.add_work(key, version, work)


class Teller:
    """Tells what was read, or passes it on to the one who tells."""

    def __init__(self) -> None:
        self._windows: dict[EndpointKey, LiveWindow] = {}
        self._ticks = 0

    async def tell(self, part: Part, *, at: float, bounds: tuple[float, ...], tells: bool) -> None:
        """Take over what one look brought; `bounds` are those of its latencies."""
        try:
            if tells:
                await self._store(part, at, bounds)
            else:
                self._windows.clear()
                await asyncio.to_thread(live_store.pass_on, _to_json(part, at, bounds))
        except redis.RedisError as error:
            log.warning("live numbers are not kept, Redis is away: %s", error)

    async def _store(self, part: Part, at: float, bounds: tuple[float, ...]) -> None:
        for one in await asyncio.to_thread(live_store.take_parts):
            if at - one["t"] <= LATE_S:
                _take_over(part, one)
        self._ticks += 1
        numbers, points = {}, {}
        for endpoint, second in part.seconds(at).items():
            # Work alone is told once a gateway says what it was for.
            if not second.traffic:
                continue
            window = self._windows.setdefault(endpoint, LiveWindow())
            window.add(second)
            key = "/".join(endpoint)
            points[key] = to_point(second, bounds)
            if not window.idle or self._ticks % IDLE_EVERY == 0:
                numbers[key] = window.numbers()
        if not points:
            return
        await asyncio.to_thread(live_store.store, numbers, points, bounds)
        for key, values in numbers.items():
            await asyncio.to_thread(live.publish_now, f"endpoint:{key}", "numbers", values)


def _to_json(part: Part, at: float, bounds: tuple[float, ...]) -> dict[str, Any]:
    points = {"/".join(key): to_point(second, bounds) for key, second in part.seconds(at).items()}
    return {"t": at, "b": list(bounds), "e": points}


def _take_over(part: Part, told: Mapping[str, Any]) -> None:
    bounds = tuple(float(bound) for bound in told["b"])
    for name, point in told["e"].items():
        environment, _, model = name.partition("/")
        part.add((environment, model), from_point(point, bounds))
