"""The error budget in minutes: how long a promise may be missed, and how long it was.

The Workbook counts requests; people plan in minutes. A minute is bad when fewer of its valid
requests were good than the target asks for, whether it had one request or a thousand. A minute
without valid requests is neither: it spends nothing, and is told apart. OpenSLO calls this the
budgeting method `Timeslices`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class MinuteCounts:
    """Minutes of a stretch of time: those with valid requests, and the bad ones of them."""

    valid: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """`window` are the minutes that the objective's window has in all, `excluded` those left out.

    A calendar month has all its minutes from the first day on: its budget does not grow.
    """

    target: float
    window: int
    excluded: int
    passed: int
    counts: MinuteCounts

    @property
    def total(self) -> float:
        """Minutes that may be bad."""
        allowed = (100 - Fraction(str(self.target))) / 100
        return float(max(self.window - self.excluded, 0) * allowed)

    @property
    def left(self) -> float:
        """Minutes that may still be bad; below 0 the promise is missed."""
        return self.total - self.counts.bad

    @property
    def left_share(self) -> float | None:
        """1 is untouched, 0 used up, below 0 overspent; None while no minute was measured."""
        if not self.counts.valid or not self.total:
            return None
        return self.left / self.total

    @property
    def unknown(self) -> int:
        """Minutes that have passed, were not left out, and had no valid request."""
        return max(self.passed - self.excluded - self.counts.valid, 0)


def count_minutes(minutes: Iterable[tuple[float, int]], target: float) -> MinuteCounts:
    """Minutes by their good and valid requests, against a target in percent."""
    wanted = Fraction(str(target)) / 100
    valid = bad = 0
    for good, requests in minutes:
        if requests > 0:
            valid += 1
            bad += Fraction(good) < wanted * requests
    return MinuteCounts(valid, bad)
