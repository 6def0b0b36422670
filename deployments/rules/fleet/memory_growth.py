"""Does memory only grow? A robust line through what was used, since the last time it fell.

The slope is Theil's and Sen's: the median of the slopes of all pairs of points, which single peaks
do not move (H. Theil 1950; P. K. Sen, J. Am. Stat. Assoc. 63, 1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from statistics import fmean, median
from typing import Final

RESET_SHARE: Final = 0.2
"""A fall by this share from one point to the next is a reset: a restart, or an unload."""
MOST_POINTS: Final = 120
MIN_POINTS: Final = 12
MIN_SPAN: Final = timedelta(minutes=30)
MIN_SHARE: Final = 0.02
"""Growth over the span below this share of what was used is noise."""
MIN_BYTES: Final = 64 * 1024 * 1024
MIN_R_SQUARED: Final = 0.7
MIN_RISING: Final = 0.8
"""Share of the pieces of the span that must lie above the one before, or with it."""
PIECES: Final = 6


@dataclass(frozen=True, slots=True)
class Growth:
    """What the points say; `since` is where the stretch without a reset begins.

    `r_squared` says how much of the points' spread a straight line explains.
    """

    leaking: bool
    bytes_per_hour: float
    since: datetime | None
    r_squared: float

    def full_in(self, free_bytes: float) -> timedelta | None:
        """How long until so much free memory is used up; None where it does not grow."""
        if not self.leaking or self.bytes_per_hour <= 0:
            return None
        return timedelta(hours=free_bytes / self.bytes_per_hour)


def growth(points: Sequence[tuple[datetime, float]]) -> Growth:
    """Whether memory, in bytes, grows without ever being given back.

    It leaks when, since the last reset, there are at least 12 points over 30 minutes, it grew by
    2 % and 64 MiB, a straight line explains 70 % of the spread, and nearly every sixth of the time
    lies above the one before. One step up (a model that was loaded) is no leak.
    """
    stretch = _since_reset(sorted(points))
    if len(stretch) < 2:
        return Growth(False, 0.0, stretch[0][0] if stretch else None, 0.0)
    since = stretch[0][0]
    hours = [(at - since).total_seconds() / 3600 for at, _ in stretch]
    used = [value for _, value in stretch]
    hours, used = _thinned(hours, used)
    slope = _slope(hours, used)
    fit = _r_squared(hours, used, slope)
    grown = slope * (hours[-1] - hours[0])
    leaking = (
        len(stretch) >= MIN_POINTS
        and stretch[-1][0] - since >= MIN_SPAN
        and grown >= max(MIN_BYTES, MIN_SHARE * median(used))
        and fit >= MIN_R_SQUARED
        and _rising(used) >= MIN_RISING
    )
    return Growth(leaking, slope, since, fit)


def _since_reset(points: list[tuple[datetime, float]]) -> list[tuple[datetime, float]]:
    start = 0
    for index in range(1, len(points)):
        if points[index][1] < points[index - 1][1] * (1 - RESET_SHARE):
            start = index
    return points[start:]


def _thinned(hours: list[float], used: list[float]) -> tuple[list[float], list[float]]:
    """At most 120 points, each the median of its neighbours: all pairs of a day are too many."""
    size = -(-len(hours) // MOST_POINTS)
    groups = range(0, len(hours), size)
    return (
        [median(hours[at : at + size]) for at in groups],
        [median(used[at : at + size]) for at in groups],
    )


def _slope(x: list[float], y: list[float]) -> float:
    slopes = [
        (y[b] - y[a]) / (x[b] - x[a]) for a, b in combinations(range(len(x)), 2) if x[b] > x[a]
    ]
    return median(slopes) if slopes else 0.0


def _r_squared(x: list[float], y: list[float], slope: float) -> float:
    """How much of the spread the line of this slope through the medians explains, 0 to 1."""
    offset = median(b - slope * a for a, b in zip(x, y, strict=True))
    mean = fmean(y)
    spread = sum((b - mean) ** 2 for b in y)
    if not spread:
        return 0.0
    left = sum((b - slope * a - offset) ** 2 for a, b in zip(x, y, strict=True))
    return max(0.0, 1 - left / spread)


def _rising(used: list[float]) -> float:
    """Share of the sixths of the time whose median lies clearly above the one before.

    Clearly: by a quarter of what an even growth would give. A single step rises once only.
    """
    pieces = min(PIECES, len(used) // 2)
    if pieces < 2:
        return 0.0
    edges = [round(len(used) * piece / pieces) for piece in range(pieces + 1)]
    levels = [median(used[a:b]) for a, b in pairwise(edges)]
    even = (levels[-1] - levels[0]) / (pieces - 1)
    if even <= 0:
        return 0.0
    rises = [b - a >= even / 4 for a, b in pairwise(levels)]
    return sum(rises) / len(rises)
