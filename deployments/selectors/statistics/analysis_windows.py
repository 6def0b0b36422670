"""What versions did in the last seconds, from the live ring: what analyses are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from deployments.adapters import live_store
from deployments.rules.statistics.traffic_windows import Point, WindowNumbers, window_numbers

LONGEST_S = float(live_store.RING_LENGTH)
"""The ring holds as many seconds; a longer window would be cut short."""


@dataclass(frozen=True, slots=True)
class LiveRings:
    """The live points of many endpoints ("env/model"), read at once."""

    points: Mapping[str, list[Point]]
    bounds: tuple[float, ...]

    def window(self, key: str, *, seconds: float, now: datetime) -> dict[int, WindowNumbers]:
        """What each version of one endpoint did within the last seconds; {} when nobody knows."""
        at = now.timestamp()
        return window_numbers(self.points.get(key, ()), self.bounds, since=at - seconds, now=at)


def traffic_windows(
    environment: str, model: str, *, seconds: float, now: datetime
) -> dict[int, WindowNumbers]:
    """What each version did within the last seconds (15 minutes at most); version 0: the gateway.

    {} when nothing was measured or Redis is away. Look at `age_s` before relying on it.
    """
    key = f"{environment}/{model}"
    return live_rings([key], seconds=seconds).window(key, seconds=seconds, now=now)


def live_rings(keys: Iterable[str], *, seconds: float) -> LiveRings:
    """The newest points of each endpoint, enough for windows of so many seconds; one round trip."""
    # A point is written each second; two more, since their beat and ours are not the same.
    points, bounds = live_store.rings(keys, last=min(int(seconds) + 2, live_store.RING_LENGTH))
    return LiveRings(points, bounds)
