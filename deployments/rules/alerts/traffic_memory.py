"""Requests of many endpoints over sliding windows, kept as running sums.

Each look brings the few seconds since the last one; a window adds what is new and takes off what
is too old. So a look costs what happened since the last, whatever the windows' lengths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram

Point = Mapping[str, Any]
"""A point of the live ring: `t` (epoch seconds) and `v`, version → [requests, caller faults,
provider faults, {bucket: count}, rescued]."""


@dataclass(slots=True)
class Counts:
    """Requests of one version (or all) within a window.

    `rescued` are those that the version failed and whose callers got an answer all the same.
    """

    requests: int = 0
    caller_faults: int = 0
    provider_faults: int = 0
    rescued: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, counted: Sequence[Any], sign: int = 1) -> None:
        """Count the numbers of a point in, or with -1 out again."""
        requests, caller, provider, buckets, *rescued = counted
        self.requests += sign * requests
        self.caller_faults += sign * caller
        self.provider_faults += sign * provider
        self.rescued += sign * sum(rescued)
        for index, count in buckets.items():
            key = int(index)
            left = self.buckets.get(key, 0) + sign * count
            if left:
                self.buckets[key] = left
            else:
                self.buckets.pop(key, None)

    def __add__(self, other: Counts) -> Counts:
        buckets = dict(self.buckets)
        for index, count in other.buckets.items():
            buckets[index] = buckets.get(index, 0) + count
        return Counts(
            self.requests + other.requests,
            self.caller_faults + other.caller_faults,
            self.provider_faults + other.provider_faults,
            self.rescued + other.rescued,
            buckets,
        )

    def quantile(self, q: float, bounds: tuple[float, ...]) -> float | None:
        """The duration in ms that a share `q` did not exceed; None without any."""
        if not bounds or not self.buckets:
            return None
        counts = tuple(self.buckets.get(index, 0) for index in range(len(bounds) + 1))
        return histograms.quantile(Histogram(bounds, counts), q)


class Window:
    """One endpoint's last `seconds`, for each version."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._points: deque[Point] = deque()
        self._versions: dict[int, Counts] = {}

    def add(self, point: Point) -> None:
        """Count a point in."""
        self._points.append(point)
        for name, counted in point["v"].items():
            self._versions.setdefault(int(name), Counts()).add(counted)

    def versions(self, now: float) -> dict[int, Counts]:
        """What each version did up to `now`; 0 is the gateway itself."""
        while self._points and self._points[0]["t"] <= now - self._seconds:
            for name, counted in self._points.popleft()["v"].items():
                self._versions[int(name)].add(counted, -1)
        if not self._points:
            # So that versions that are gone are not kept for ever.
            self._versions.clear()
        return self._versions


class TrafficMemory:
    """The windows of every endpoint ("env/model"), in memory of one process.

    Losing it costs nothing but reading the ring anew: it is no record.
    """

    def __init__(self) -> None:
        self._lengths: tuple[float, ...] = ()
        self._windows: dict[str, dict[float, Window]] = {}
        self._heard: dict[str, float] = {}
        self.bounds: tuple[float, ...] = ()

    def keep(self, keys: Iterable[str], lengths: Iterable[float]) -> None:
        """From now on these endpoints over these windows; others are forgotten.

        A length that is new begins with nothing: everything is read anew then.
        """
        wanted = tuple(sorted(set(lengths)))
        if wanted != self._lengths:
            self._lengths = wanted
            self._windows, self._heard = {}, {}
        names = set(keys)
        for gone in self._windows.keys() - names:
            del self._windows[gone]
            self._heard.pop(gone, None)

    def missing_s(self, key: str, now: float) -> float:
        """How many seconds of points have to be read to know all of the windows."""
        longest = max(self._lengths, default=0.0)
        heard = self._heard.get(key)
        if heard is None or heard > now:
            return longest
        return min(now - heard, longest)

    def under(self, bounds: tuple[float, ...]) -> bool:
        """Whether all that is known was forgotten, since points have other bounds from now on.

        Counts by the index of a bound mean something else then; all has to be read anew.
        """
        if not bounds or bounds == self.bounds:
            return False
        forgotten = bool(self._windows)
        self.bounds = bounds
        self._windows, self._heard = {}, {}
        return forgotten

    def hear(self, key: str, points: Iterable[Point], bounds: tuple[float, ...]) -> None:
        """Take the points that are new, oldest first; those known already are passed over."""
        self.under(bounds)
        windows = self._windows.setdefault(key, {one: Window(one) for one in self._lengths})
        heard = self._heard.get(key)
        for point in points:
            if heard is not None and point["t"] <= heard:
                continue
            heard = float(point["t"])
            for window in windows.values():
                window.add(point)
        if heard is not None:
            self._heard[key] = heard

    def heard_at(self, key: str) -> float | None:
        """When its newest point was written (epoch seconds); None: nothing is known."""
        return self._heard.get(key)

    def versions(self, key: str, seconds: float, now: float) -> dict[int, Counts]:
        """What each version did within one of the windows."""
        windows = self._windows.get(key)
        return windows[seconds].versions(now) if windows and seconds in windows else {}
