"""Counters of durations at or below bounds that only grow, though the bounds may change."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from deployments.rules.statistics.histograms import Histogram


def text_of(bound_ms: float) -> str:
    """A bound as a key: 80.0 → "80".

    >>> text_of(2.5)
    '2.5'
    """
    return f"{bound_ms:.12g}"


def with_histogram(within: Mapping[str, int], latency: Histogram) -> dict[str, int]:
    """The counters after a histogram's values.

    A bound that the histogram does not have grows by what is certain: the values at or below the
    next bound under it. So a share of fast requests may be said too small, never too large.
    """
    sums = list(accumulate(latency.counts[:-1]))
    here = dict(zip(latency.bounds, sums, strict=True))
    after = dict(within)
    for bound in {*(float(known) for known in within), *latency.bounds}:
        known = text_of(bound)
        more = here.get(bound)
        if more is None:
            more = max((count for edge, count in here.items() if edge < bound), default=0)
        after[known] = after.get(known, 0) + more
    return after
