"""Objectives, error budgets and burn rates, as in Google's SRE Workbook, chapters 2 and 5.

An indicator is good ÷ valid events. The budget of an objective is the share of valid events that
may be bad (1 - target); the burn rate says how many times faster than that the budget is spent.
Without valid events nothing is known: that is neither a kept nor a broken promise.
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from fractions import Fraction

from console.errors import FieldError, Invalid
from deployments.rules.statistics import histograms
from deployments.rules.statistics.rollups import Traffic

AT_RISK_BELOW = 0.25
"""A promise is at risk when less than this share of its budget is left."""

EARLIEST_YEAR = 1970


class Promise(StrEnum):
    KEPT = "kept"
    AT_RISK = "at_risk"
    BROKEN = "broken"
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True)
class Objective:
    """`target` in percent; `threshold_ms` makes it a latency objective, else availability."""

    name: str
    target: float
    window_days: int | None
    threshold_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Attainment:
    """One objective over one stretch of time, in requests.

    `attained` is percent, None without valid events. `exact` is False when the threshold lies
    between two bounds of the histogram and the good ones had to be interpolated.
    """

    good: float
    valid: int
    target: float
    exact: bool = True

    @property
    def bad(self) -> float:
        return max(self.valid - self.good, 0.0)

    @property
    def attained(self) -> float | None:
        return 100.0 * self.good / self.valid if self.valid else None

    @property
    def allowed(self) -> Fraction:
        """Share of valid requests that may be bad, exact: 99.9 % leaves 1/1000 and no sliver."""
        return (100 - Fraction(str(self.target))) / 100

    @property
    def budget_total(self) -> float:
        """How many valid requests may be bad."""
        return float(self.valid * self.allowed)

    @property
    def budget_left(self) -> float:
        """How many more may be bad; below 0 the promise is broken."""
        return float(self.valid * self.allowed - Fraction(self.bad))

    @property
    def budget_left_share(self) -> float | None:
        """1 is untouched, 0 used up, below 0 overspent; None without valid requests."""
        if not self.valid:
            return None
        if not self.budget_total:
            return 1.0 if not self.bad else -1.0
        return self.budget_left / self.budget_total

    @property
    def burn_rate(self) -> float | None:
        """Bad share ÷ allowed share: above 1 the budget would not last. None without requests."""
        if not self.valid:
            return None
        if not self.allowed:
            return 0.0 if not self.bad else float("inf")
        return self.bad / self.budget_total

    @property
    def promise(self) -> Promise:
        left = self.budget_left_share
        if left is None:
            return Promise.NO_DATA
        if self.budget_left < 0:
            return Promise.BROKEN
        return Promise.AT_RISK if left < AT_RISK_BELOW else Promise.KEPT


def attain(objective: Objective, traffic: Traffic) -> Attainment:
    """How the traffic met the objective.

    Availability: valid are the requests without the caller's own faults, good those without the
    provider's. Latency: valid are all answers with a measured duration, good those within the
    threshold.
    """
    if objective.threshold_ms is None:
        valid = max(traffic.requests - traffic.caller_faults, 0)
        return Attainment(max(valid - traffic.provider_faults, 0), valid, objective.target)
    latency = traffic.latency
    if latency is None:
        return Attainment(0, 0, objective.target)
    good = histograms.count_at_most(latency, objective.threshold_ms)
    exact = objective.threshold_ms in latency.bounds
    return Attainment(good, latency.total, objective.target, exact)


def worst(promises: Sequence[Promise]) -> Promise:
    """One word for several: the worst that is known."""
    for promise in (Promise.BROKEN, Promise.AT_RISK, Promise.KEPT):
        if promise in promises:
            return promise
    return Promise.NO_DATA


def parse_month(text: str, now: datetime) -> date:
    """First day of `YYYY-MM`; of the present month for an empty text. Raises Invalid."""
    if not text:
        return now.astimezone(UTC).date().replace(day=1)
    try:
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).date()
        month_bounds(first)
        if first.year < EARLIEST_YEAR:
            raise ValueError("the months before it are no dates any more")
        return first
    except (ValueError, OverflowError) as error:
        raise Invalid(
            f"{text!r} is no month.",
            code="invalid_month",
            hint="Write it as 2026-01.",
            errors=(FieldError("/month", "Use the form YYYY-MM."),),
        ) from error


def month_bounds(first: date) -> tuple[datetime, datetime]:
    """Start of a month and of the next, UTC."""
    start = datetime(first.year, first.month, 1, tzinfo=UTC)
    return start, start + timedelta(days=calendar.monthrange(first.year, first.month)[1])


def window_start(objective: Objective, now: datetime) -> datetime:
    """Where an objective's window that ends now begins; a calendar month begins on its first."""
    if objective.window_days is None:
        return month_bounds(now.astimezone(UTC).date())[0]
    return now - timedelta(days=objective.window_days)
