"""Alerts on several windows and burn rates: Google's SRE Workbook, chapter 5, section 6.

An alert fires while a long and a short window both burn faster than its factor. The factor comes
from the share of the whole budget that may be gone within the long window:

    factor = share * window of the objective / long window

With 30 days and 2 %, 5 % and 10 % that is the Workbook's 14.4, 6 and 1. Other windows keep the
shares, so the factors scale with their days; a calendar month counts as 30. Two bounds hold:

- never below 1: at that rate the budget lasts to the end of the window;
- never above half of what a service that answers nothing right would burn (1 / 2(1 - target)):
  else a promise of 95 % could fail wholly and nobody be called.

Low traffic: below `LEAST_BAD` bad events in the long window nothing fires, since one bad request
of ten says nothing yet. A window without valid events has no rate: it never fires by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from fractions import Fraction

from deployments.rules.objectives.slo import Attainment, Objective

NOMINAL_DAYS = 30
"""Days of a calendar month in the factors: they must not change from month to month."""
LEAST_BAD = 5
"""So many bad events in the long window it takes at least."""


class BurnSeverity(StrEnum):
    """How urgent: P1 pages somebody, P2 pages, too, P3 is a ticket for the day."""

    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


@dataclass(frozen=True, slots=True)
class BurnPolicy:
    """One pair of windows; `share` of the budget (0..1) gone within `long` sets the factor."""

    severity: BurnSeverity
    share: Fraction
    long: timedelta
    short: timedelta


POLICIES = (
    BurnPolicy(BurnSeverity.P1, Fraction(2, 100), timedelta(hours=1), timedelta(minutes=5)),
    BurnPolicy(BurnSeverity.P2, Fraction(5, 100), timedelta(hours=6), timedelta(minutes=30)),
    BurnPolicy(BurnSeverity.P3, Fraction(10, 100), timedelta(days=3), timedelta(hours=6)),
)
SPANS = tuple(sorted({span for one in POLICIES for span in (one.long, one.short)}))
"""Every stretch of time that some alert looks at, shortest first."""


@dataclass(frozen=True, slots=True)
class Burn:
    """How one alert stands; `valid` and `bad` are of the long window, rates None without data."""

    severity: BurnSeverity
    long: timedelta
    short: timedelta
    factor: float
    long_rate: float | None
    short_rate: float | None
    valid: int
    bad: float
    firing: bool

    @property
    def long_s(self) -> int:
        """Seconds of the long window."""
        return int(self.long.total_seconds())

    @property
    def short_s(self) -> int:
        """Seconds of the short window."""
        return int(self.short.total_seconds())

    @property
    def windows(self) -> str:
        """Both windows, the long one first: `1h · 5m`, which no line breaks."""
        return (
            f"{short_span(self.long)}\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}{short_span(self.short)}"
        )

    @property
    def too_few(self) -> bool:
        """Both windows burn too fast, but on fewer bad events than say something."""
        fast = _above(self.long_rate, self.factor) and _above(self.short_rate, self.factor)
        return fast and self.bad < LEAST_BAD

    @property
    def state(self) -> str:
        """`firing`, `too_few`, `no_data` (nothing valid in the long window) or `quiet`."""
        if self.firing:
            return "firing"
        if self.too_few:
            return "too_few"
        return "quiet" if self.valid else "no_data"


def short_span(span: timedelta) -> str:
    """A span in Prometheus' notation, in its largest whole unit: 3d, 6h, 5m.

    >>> short_span(timedelta(hours=6))
    '6h'
    """
    minutes = int(span.total_seconds() // 60)
    for unit, size in (("d", 1440), ("h", 60)):
        if minutes % size == 0:
            return f"{minutes // size}{unit}"
    return f"{minutes}m"


def factor(policy: BurnPolicy, objective: Objective) -> float:
    """The burn rate above which the alert fires; see the module for the formula."""
    window = timedelta(days=objective.window_days or NOMINAL_DAYS)
    scaled = policy.share * Fraction(window // timedelta(minutes=1)) / _minutes(policy.long)
    allowed = (100 - Fraction(str(objective.target))) / 100
    most = 1 / (2 * allowed) if allowed else scaled
    return float(max(min(scaled, most), Fraction(1)))


def judge(policy: BurnPolicy, objective: Objective, long: Attainment, short: Attainment) -> Burn:
    """How one alert of one objective stands by what was counted in its two windows."""
    limit = factor(policy, objective)
    fast = _above(long.burn_rate, limit) and _above(short.burn_rate, limit)
    return Burn(
        severity=policy.severity,
        long=policy.long,
        short=policy.short,
        factor=limit,
        long_rate=long.burn_rate,
        short_rate=short.burn_rate,
        valid=long.valid,
        bad=long.bad,
        firing=fast and long.bad >= LEAST_BAD,
    )


def _above(rate: float | None, limit: float) -> bool:
    return rate is not None and rate > limit


def _minutes(span: timedelta) -> Fraction:
    return Fraction(span // timedelta(minutes=1))
