"""What each version of an endpoint did in the last seconds, summed from the live ring's points."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram

Point = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WindowNumbers:
    """One version's requests within a window, as the gateways counted them; times in ms.

    `buckets` are counts by the index of the histogram's bound; `age_s` says how old the newest
    point is, for all versions alike: numbers that nobody wrote for a while prove nothing.
    """

    requests: int = 0
    provider_faults: int = 0
    caller_faults: int = 0
    age_s: float = 0.0
    bounds: tuple[float, ...] = ()
    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def error_share(self) -> float | None:
        """Share (0 to 1) of requests that failed by the provider's fault; None without any."""
        return self.provider_faults / self.requests if self.requests else None

    @property
    def p50_ms(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p95_ms(self) -> float | None:
        return self.quantile(0.95)

    @property
    def p99_ms(self) -> float | None:
        return self.quantile(0.99)

    @property
    def latency(self) -> Histogram | None:
        """The durations as a histogram; None when none was measured."""
        if not self.bounds or not self.buckets:
            return None
        counts = tuple(self.buckets.get(index, 0) for index in range(len(self.bounds) + 1))
        return Histogram(self.bounds, counts)

    def quantile(self, q: float) -> float | None:
        """The duration that a share `q` of the requests did not exceed; None without requests."""
        latency = self.latency
        return None if latency is None else histograms.quantile(latency, q)

    def slower_than(self, limit_ms: float) -> int:
        """Requests that certainly took longer: those in buckets that begin at the limit or above.

        A bucket that the limit lies in counts as within it, so that a version is never blamed for
        how coarsely it was measured.
        """
        if not self.bounds:
            # Nobody knows what the buckets mean.
            return 0
        first = bisect_left(self.bounds, limit_ms) + 1
        return sum(count for index, count in self.buckets.items() if index >= first)

    def __add__(self, other: WindowNumbers) -> WindowNumbers:
        buckets = dict(self.buckets)
        for index, count in other.buckets.items():
            buckets[index] = buckets.get(index, 0) + count
        return WindowNumbers(
            requests=self.requests + other.requests,
            provider_faults=self.provider_faults + other.provider_faults,
            caller_faults=self.caller_faults + other.caller_faults,
            age_s=min(self.age_s, other.age_s),
            bounds=self.bounds or other.bounds,
            buckets=buckets,
        )


def window_numbers(
    points: Iterable[Point], bounds: tuple[float, ...], *, since: float, now: float
) -> dict[int, WindowNumbers]:
    """What each version did after `since` and up to `now` (epoch seconds); version 0: the gateway.

    `points` are those of the live ring, oldest first. Versions that nobody called are missing,
    but for 0, which is there whenever anything was measured.
    """
    sums: dict[int, list[int]] = {}
    buckets: dict[int, dict[int, int]] = {}
    newest = None
    for point in points:
        at = point["t"]
        newest = at
        if not since < at <= now:
            continue
        for name, (requests, caller, provider, counts, *beside) in point["v"].items():
            version, rescued = int(name), _rescued(beside)
            total = sums.setdefault(version, [0, 0, 0])
            # What the baseline answered for a version on trial was asked of that version, and is
            # its fault.
            total[0] += requests + rescued
            total[1] += provider + rescued
            total[2] += caller
            into = buckets.setdefault(version, {})
            for index, count in counts.items():
                into[int(index)] = into.get(int(index), 0) + count
    if newest is None:
        return {}
    age = max(now - newest, 0.0)
    sums.setdefault(0, [0, 0, 0])
    return {
        version: WindowNumbers(requests, provider, caller, age, bounds, buckets.get(version, {}))
        for version, (requests, provider, caller) in sums.items()
    }


def nested_windows(
    points: Iterable[Point],
    bounds: tuple[float, ...],
    *,
    version: int,
    lengths: Iterable[float],
    now: float,
) -> dict[float, WindowNumbers]:
    """One version's numbers over several windows that all end `now`, in one pass over the points.

    `lengths` are in seconds. A window in which nobody called the version is there with zeros.
    """
    spans = sorted(lengths)
    parts = [[0, 0, 0] for _ in spans]
    buckets: list[dict[int, int]] = [{} for _ in spans]
    name = str(version)
    for point in points:
        counted = point["v"].get(name)
        age = now - point["t"]
        if counted is None or age < 0 or age >= spans[-1]:
            continue
        part = bisect_right(spans, age)
        requests, caller, provider, counts, *beside = counted
        total, into, rescued = parts[part], buckets[part], _rescued(beside)
        total[0] += requests + rescued
        total[1] += provider + rescued
        total[2] += caller
        for index, count in counts.items():
            into[int(index)] = into.get(int(index), 0) + count
    found, sum_up = {}, WindowNumbers(bounds=bounds)
    for length, (requests, provider, caller), counts in zip(spans, parts, buckets, strict=True):
        sum_up = sum_up + WindowNumbers(requests, provider, caller, 0.0, bounds, counts)
        found[length] = sum_up
    return found


def _rescued(beside: Sequence[int]) -> int:
    """The first of what a point holds beside the counts (see `live_window.BESIDE`)."""
    return beside[0] if beside else 0
