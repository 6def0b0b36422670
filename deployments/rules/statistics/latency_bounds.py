"""Which bounds latencies are kept under: the standard ones, and the thresholds of contracts.

A gateway counts whole milliseconds (rounded down) in bins of two significant digits: 1 ms wide
up to 100 ms, 10 ms up to 1 s, 100 ms up to 10 s. What took less than the edge of a bin is known
exactly. A threshold that lies inside a bin (125 ms) is no bound: what is interpolated there is
said to be so, and never stored as if it had been counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram

STANDARD_MS: tuple[float, ...] = tuple(
    float(ms)
    for ms in (
        *(1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200),
        *(250, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000),
    )
)

EDGES_MS: tuple[float, ...] = tuple(
    float(edge)
    for edge in (
        *range(1, 100),
        *range(100, 1_000, 10),
        *range(1_000, 10_000, 100),
        *range(10_000, 100_001, 1_000),
    )
)
"""Upper edges of the bins; what took longer lies above them all."""
_EDGES = frozenset(EDGES_MS)
_INDEX = {edge: index for index, edge in enumerate(EDGES_MS)}


def is_exact(threshold_ms: float) -> bool:
    """Whether the requests within a threshold can be counted, and need no interpolation."""
    return float(threshold_ms) in _EDGES


def bounds_for(thresholds_ms: Iterable[float]) -> tuple[float, ...]:
    """The bounds to keep latencies under where these are promised."""
    promised = {float(ms) for ms in thresholds_ms if is_exact(ms)}
    return tuple(sorted({*STANDARD_MS, *promised}))


def upper_edge(lower: float, width: float) -> float:
    """The edge above a gateway's bin. Below 10 ms its bins are finer than what it counts."""
    return float(round(lower + max(width, 1.0)))


def from_bins(bins: Iterable[tuple[float, int]]) -> Histogram:
    """A histogram under every edge, from (upper edge, count) of the bins that hold anything."""
    counts = [0] * (len(EDGES_MS) + 1)
    for edge, count in bins:
        counts[_INDEX.get(edge, len(EDGES_MS))] += count
    return Histogram(EDGES_MS, tuple(counts))


def to_bins(latency: Histogram) -> list[tuple[float, int]]:
    """What `from_bins` takes; what lies above every edge stands under -1."""
    edges = (*latency.bounds, -1.0)
    return [(edge, count) for edge, count in zip(edges, latency.counts, strict=True) if count]


def kept(latency: Histogram, bounds: tuple[float, ...]) -> Histogram:
    """Under the bounds that are kept; one that was read under others already stays as it is."""
    if not set(bounds) <= set(latency.bounds):
        return latency
    return histograms.coarsen(latency, bounds)
