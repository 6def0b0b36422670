"""Latency histograms: fixed bounds in milliseconds, whole counts, merged and subtracted exactly.

Quantiles are interpolated inside a bucket, as Prometheus' `histogram_quantile` does, so their
error is at most the bucket's width. The share at or below a bound is exact, which is why the
bounds include the thresholds that contracts use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts[i]` values lie in (bounds[i-1], bounds[i]]; the last count is above every bound."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError("A histogram has one count more than bounds.")
        if not _rise(self.bounds):
            raise ValueError("A histogram's bounds rise strictly.")
        if min(self.counts) < 0:
            raise ValueError("A histogram's counts are not negative.")

    @property
    def total(self) -> int:
        return sum(self.counts)


@lru_cache(maxsize=4096)
def _rise(bounds: tuple[float, ...]) -> bool:
    """Few sets of bounds occur, and each many times."""
    return all(left < right for left, right in pairwise(bounds))


def empty(bounds: Iterable[float]) -> Histogram:
    """Nothing counted yet."""
    edges = tuple(bounds)
    return Histogram(edges, (0,) * (len(edges) + 1))


def from_cumulative(
    bounds: Sequence[float], cumulative: Sequence[int], total: int | None = None
) -> Histogram:
    """From counts of values at or below each bound.

    `total` counts all values; when it is smaller than the last cumulative count (read a moment
    earlier), that count is taken. Counts that fall are read as level: no bucket is ever negative.
    """
    counts, seen = [], 0
    for value in cumulative:
        counts.append(max(value - seen, 0))
        seen = max(value, seen)
    return Histogram(tuple(bounds), (*counts, max((total or 0) - seen, 0)))


def merge(left: Histogram, right: Histogram) -> Histogram:
    """All values of both. Raises ValueError when the bounds differ (coarsen first)."""
    _same_bounds(left, right)
    counts = tuple(a + b for a, b in zip(left.counts, right.counts, strict=True))
    return Histogram(left.bounds, counts)


def merge_all(histograms: Iterable[Histogram]) -> Histogram | None:
    """All values of all of them; None for none."""
    result: Histogram | None = None
    for histogram in histograms:
        result = histogram if result is None else merge(result, histogram)
    return result


def delta(later: Histogram, earlier: Histogram | None, *, restarted: bool = False) -> Histogram:
    """What was counted between two readings of one growing histogram; never negative.

    `earlier` None means that it was never read: nothing is known, so nothing is counted. A
    restart, or any bucket that went backwards, is a reset: then `later` is the answer. Where the
    bounds differ, both are compared under those that they share.
    """
    if earlier is None:
        return empty(later.bounds)
    if restarted:
        return later
    if later.bounds != earlier.bounds:
        shared = sorted(set(later.bounds) & set(earlier.bounds))
        return delta(coarsen(later, shared), coarsen(earlier, shared))
    if later.counts == earlier.counts:
        return empty(later.bounds)
    counts = tuple(a - b for a, b in zip(later.counts, earlier.counts, strict=True))
    return later if min(counts) < 0 else Histogram(later.bounds, counts)


def coarsen(histogram: Histogram, bounds: Sequence[float]) -> Histogram:
    """The same values under fewer bounds. Raises ValueError for a bound it does not have."""
    if missing := set(bounds) - set(histogram.bounds):
        raise ValueError(f"The histogram has no bound {min(missing):g}.")
    sums = list(accumulate(histogram.counts))
    cumulative = [sums[bisect_left(histogram.bounds, bound)] for bound in bounds]
    return from_cumulative(bounds, cumulative, histogram.total)


def quantile(histogram: Histogram, q: float) -> float | None:
    """The value that a share `q` (0 to 1) of all values does not exceed, in the bounds' unit.

    None without values. In the last bucket, which has no upper end, the highest bound is given:
    the true value is at least that.
    """
    if not 0 <= q <= 1:
        raise ValueError("A quantile lies between 0 and 1.")
    total = histogram.total
    if total == 0 or not histogram.bounds:
        return None
    rank, below = q * total, 0
    for index, count in enumerate(histogram.counts[:-1]):
        if count and below + count >= rank:
            start = histogram.bounds[index - 1] if index else min(0.0, histogram.bounds[0])
            share = max(rank - below, 0.0) / count
            return start + (histogram.bounds[index] - start) * share
        below += count
    return histogram.bounds[-1]


def count_at_most(histogram: Histogram, threshold: float) -> float:
    """How many values do not exceed `threshold`: exact at a bound, interpolated inside a bucket.

    Beyond the highest bound nothing is known of where the values lie, so none of the last bucket
    is counted as within the threshold.
    """
    index = bisect_left(histogram.bounds, threshold)
    below = float(sum(histogram.counts[:index]))
    if index == len(histogram.bounds):
        return below
    end = histogram.bounds[index]
    if threshold == end:
        return below + histogram.counts[index]
    start = histogram.bounds[index - 1] if index else min(0.0, end)
    if threshold <= start:
        return below
    return below + histogram.counts[index] * (threshold - start) / (end - start)


def share_at_most(histogram: Histogram, threshold: float) -> float | None:
    """Share (0 to 1) of the values that do not exceed `threshold`; None without values."""
    return count_at_most(histogram, threshold) / histogram.total if histogram.total else None


def _same_bounds(left: Histogram, right: Histogram) -> None:
    if left.bounds != right.bounds:
        raise ValueError("Histograms with different bounds cannot be added.")
