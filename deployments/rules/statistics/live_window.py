"""The last half minute of an endpoint, second by second, and the numbers that are called live."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Traffic, Work

WINDOW_S = 30
"""Faults and latencies are those of the last half minute: fewer seconds hold too few requests."""
BESIDE = ("rescued", "timeout", "no_node")
"""What went wrong on the way to an answer, by the names of a `Traffic`'s statuses."""
RATE_S = 5
"""Requests per second are a mean over five seconds."""


@dataclass(frozen=True, slots=True)
class Second:
    """What one look added, for each version (0: the gateway itself).

    `mirrored` are copies of requests whose answers nobody got: no live traffic.
    """

    at: float
    traffic: Mapping[int, Traffic]
    work: Mapping[int, Work]
    mirrored: Mapping[int, Traffic] = field(default_factory=dict)


class LiveWindow:
    """Seconds of one endpoint, at most `WINDOW_S` of them."""

    def __init__(self) -> None:
        self._seconds: deque[Second] = deque()

    def add(self, second: Second) -> None:
        """Append a second and forget those that are too old."""
        self._seconds.append(second)
        while self._seconds and self._seconds[0].at <= second.at - WINDOW_S:
            self._seconds.popleft()

    @property
    def idle(self) -> bool:
        """Whether nobody called within the window."""
        return not any(t.requests for second in self._seconds for t in second.traffic.values())

    def numbers(self) -> dict[str, Any]:
        """Live numbers as JSON: of all versions together, of each, and of mirrors apart."""
        if not self._seconds:
            return {}
        at = self._seconds[-1].at
        versions = sorted({v for second in self._seconds for v in (*second.traffic, *second.work)})
        each = {version: self._of(at, [version], own=True) for version in versions}
        mirrors = sorted({v for second in self._seconds for v in second.mirrored})
        return {
            "at": round(at, 3),
            **self._of(at, versions),
            "versions": {
                str(version): {**numbers, **self._work_of(version)}
                for version, numbers in each.items()
            },
            "shadow": {str(version): self._of(at, [version], mirrored=True) for version in mirrors},
        }

    def _of(
        self, at: float, versions: Iterable[int], *, mirrored: bool = False, own: bool = False
    ) -> dict[str, Any]:
        """`own`: the share of what the versions failed, whatever their callers noticed of it."""
        wanted = set(versions)
        total, recent, spans = Traffic(), 0, 0.0
        for second in self._seconds:
            counted = second.mirrored if mirrored else second.traffic
            here = [t for version, t in counted.items() if version in wanted]
            total = sum(here, start=total)
            if second.at > at - RATE_S:
                recent += sum(t.requests for t in here)
                spans += 1.0
        asked = total.version_requests if own else total.requests
        share = 1 / asked if asked else None
        faults = total.version_faults if own else total.provider_faults
        latency = total.latency
        numbers: dict[str, Any] = {
            "requests_per_second": round(recent / max(spans, 1.0), 2),
            "provider_share": None if share is None else round(faults * share, 6),
            "caller_share": None if share is None else round(total.caller_faults * share, 6),
        }
        for name, q in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
            value = histograms.quantile(latency, q) if latency else None
            numbers[name] = None if value is None else round(value, 3)
        return numbers

    def _work_of(self, version: int) -> dict[str, Any]:
        work = sum(
            (second.work[version] for second in self._seconds if version in second.work), Work()
        )
        return {
            "queue_ms": None if work.queue_ms is None else round(work.queue_ms, 4),
            "compute_ms": None if work.compute_ms is None else round(work.compute_ms, 4),
            "batch_size": None if work.batch_size is None else round(work.batch_size, 2),
        }


def to_point(second: Second, bounds: tuple[float, ...] = ()) -> dict[str, Any]:
    """A second in few bytes, for the ring that charts of the last minutes are drawn from.

    Latencies are counted by the index of their bound among `bounds`, or among their own where none
    are given.
    """
    works = {
        str(version): [work.inferences, work.executions, work.queue_ns, work.compute_ns]
        for version, work in second.work.items()
    }
    point = {"t": round(second.at, 3), "v": _counts(second.traffic, bounds), "w": works}
    return {**point, "m": _counts(second.mirrored, bounds)} if second.mirrored else point


def rebased(
    point: Mapping[str, Any], before: tuple[float, ...], bounds: tuple[float, ...]
) -> dict[str, Any]:
    """A point whose latencies were counted under other bounds, under these.

    A count goes where the end of its old bucket lies: nothing becomes faster than it was known to
    be.
    """

    def moved(versions: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for version, (requests, caller, provider, buckets, *more) in versions.items():
            counts: dict[str, int] = {}
            for index, count in buckets.items():
                end = before[int(index)] if int(index) < len(before) else math.inf
                place = str(bisect_left(bounds, end))
                counts[place] = counts.get(place, 0) + count
            found[version] = [requests, caller, provider, counts, *more]
        return found

    changed = {name: moved(point[name]) for name in ("v", "m") if name in point}
    return {**point, **changed}


def _counts(by_version: Mapping[int, Traffic], bounds: tuple[float, ...]) -> dict[str, Any]:
    versions: dict[str, Any] = {}
    for version, traffic in by_version.items():
        latency = traffic.latency
        if latency is not None and bounds and latency.bounds != bounds:
            latency = _under(latency, bounds)
        buckets = {
            str(index): count
            for index, count in enumerate(latency.counts if latency else ())
            if count
        }
        versions[str(version)] = [
            traffic.requests,
            traffic.caller_faults,
            traffic.provider_faults,
            buckets,
            *(traffic.statuses.get(name, 0) for name in BESIDE),
        ]
    return versions


def _under(latency: Histogram, bounds: tuple[float, ...]) -> Histogram:
    counts = [0] * (len(bounds) + 1)
    for end, count in zip((*latency.bounds, math.inf), latency.counts, strict=True):
        counts[bisect_left(bounds, end)] += count
    return Histogram(bounds, tuple(counts))


def from_point(point: Mapping[str, Any], bounds: tuple[float, ...]) -> Second:
    """What `to_point` wrote; `bounds` are the histogram's, kept once beside the ring."""
    work = {int(version): Work(*values) for version, values in point["w"].items()}
    mirrored = _traffic(point.get("m", {}), bounds)
    return Second(float(point["t"]), _traffic(point["v"], bounds), work, mirrored)


def _traffic(counts: Mapping[str, Any], bounds: tuple[float, ...]) -> dict[int, Traffic]:
    traffic = {}
    for version, (requests, caller, provider, buckets, *more) in counts.items():
        held = [buckets.get(str(index), 0) for index in range(len(bounds) + 1)]
        latency = histograms.Histogram(bounds, tuple(held)) if bounds else None
        # A ring that an earlier release wrote holds fewer of them.
        statuses = {name: count for name, count in zip(BESIDE, more, strict=False) if count}
        traffic[int(version)] = Traffic(requests, caller, provider, statuses, latency)
    return traffic
