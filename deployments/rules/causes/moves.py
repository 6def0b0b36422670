"""When a series moved from one level to another: a control chart with robust limits.

Points are held against the level so far, median ± 3 robust standard deviations (1.4826 × the
median absolute deviation, which for normal noise is the standard deviation). One point outside says
little; five of six in a row on the same side say that a new level has begun, as the run rules of
the Western Electric Statistical Quality Control Handbook (1956) do with two of three. Medians, so
that spikes move no level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

SIGMAS = 3.0
ROBUST = 1.4826


@dataclass(frozen=True, slots=True)
class Care:
    """How much it takes to tell of a move.

    `outside` of `of` points in a row have to be outside, the first of them included; the first
    level has at least `fewest` points: from fewer it is not known how much the series varies.
    """

    outside: int
    of: int
    fewest: int


SECONDS = Care(5, 6, 12)
"""For points that are seconds apart: few requests in each, and plenty of points."""
MINUTES = Care(3, 3, 6)
"""For whole minutes, which vary less, and of which six in a row would be late."""
REMEMBERED = 60
"""Points of a level that newer ones are held against: what was an hour ago may have drifted."""
LEAST_RATIO = 0.25
"""A quarter higher or lower is worth telling of; less is how things vary."""

Point = tuple[datetime, float]


@dataclass(frozen=True, slots=True)
class Move:
    """A series went from a level to another; `at` is the first point of the new one.

    `before` and `after` are the levels' medians, in the series' unit.
    """

    at: datetime
    before: float
    after: float

    @property
    def rose(self) -> bool:
        return self.after > self.before

    @property
    def size(self) -> float:
        """How many times higher or lower, at least 1; infinite from or to nothing."""
        low, high = sorted((abs(self.before), abs(self.after)))
        return high / low if low else math.inf


def moves(points: Sequence[Point], *, least: float = 0.0, care: Care = SECONDS) -> list[Move]:
    """The moves of a series, oldest first.

    `points` are in order of time, without those where nothing was measured. `least` is the smallest
    difference, in the series' unit, that matters to anybody.
    """
    if not points:
        return []
    values = [value for _, value in points]
    starts = [0]
    noise, index = 0.0, care.fewest
    while index < len(values):
        here = max(noise, _noise(values[max(starts[-1], index - REMEMBERED) : index]))
        if _begins(values, starts[-1], index, max(SIGMAS * here, least), care):
            # Few points of the new level are known at first: it varies no less than the old one.
            starts, noise = [*starts, index], here
            # A level has to be there before another can be told from it.
            index += care.outside
        else:
            index += 1
    borders = list(zip(starts, [*starts[1:], len(values)], strict=True))
    levels = [median(values[start:end]) for start, end in borders]
    found: list[Move] = []
    for number, (start, _end) in enumerate(borders[1:], start=1):
        before, after = levels[number - 1], levels[number]
        if abs(after - before) < _matters(before, least):
            continue
        move = Move(points[start][0], before, after)
        between = start - starts[number - 1]
        if found and between <= 2 * care.of and _goes_on(found[-1], move):
            move = Move(found[-1].at, found[-1].before, after)
            found.pop()
        found.append(move)
    return found


def level(points: Sequence[Point]) -> float | None:
    """Where a series lies as a whole: its median. None without points."""
    return median(value for _, value in points) if points else None


def _begins(values: Sequence[float], start: int, index: int, band: float, care: Care) -> bool:
    """Whether a new level begins at `index`, held against the level since `start`."""
    middle = median(values[max(start, index - REMEMBERED) : index])
    band = _matters(middle, band)
    side = 1 if values[index] > middle else -1
    away = [(value - middle) * side > band for value in values[index : index + care.of]]
    # At the end of what is known fewer points follow: then all of them have to be outside.
    return away[0] and sum(away) >= care.outside


def _noise(values: Sequence[float]) -> float:
    middle = median(values)
    return ROBUST * median(abs(value - middle) for value in values)


def _matters(middle: float, least: float) -> float:
    return max(least, LEAST_RATIO * abs(middle))


def _goes_on(last: Move, move: Move) -> bool:
    """A slow rise crosses its limits again and again; it began at the first crossing."""
    return last.rose == move.rose and last.after == move.before
