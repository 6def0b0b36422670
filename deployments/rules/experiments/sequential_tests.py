"""Which of two versions converts better, by intervals that may be looked at at any time.

An interval of the textbook holds for one look that was fixed before; who looks until it excludes
zero is wrong far more often than 1 in 20. Those here hold for all looks together:

- The difference: an asymptotic confidence sequence, Robbins' normal mixture over the estimate's
  own variance (I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy, A. Ramdas, "Time-uniform
  central limit theory and asymptotic confidence sequences", Annals of Statistics 52(6), 2024,
  theorem 2.2 and, for shares that change with time, section 2.5).
- One version's conversion: the beta-binomial mixture (H. Robbins, "Statistical methods related to
  the law of the iterated logarithm", Annals of Mathematical Statistics 41(5), 1970), which holds
  without approximation.

The difference is taken minute by minute and then pooled by Mantel and Haenszel's weights, with
the variance of T. Sato ("On the variance estimator for the Mantel-Haenszel risk difference",
Biometrics 45, 1989): a candidate that got its traffic at an hour when everybody buys is compared
with the baseline of that hour. What has to hold: within a minute chance decides who gets which
version, and an answer counts once its time for an outcome is over, on either side alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

FEWEST_ANSWERS = 100
"""Answers of each version below which the approximation is not trusted, nor an interval given."""
FEWEST_OUTCOMES = 20
"""The same for outcomes, and for answers without one, of both versions together."""
_VARIANCE_AT_BEST = 0.1
"""Variance p(1 - p) for which the boundary is tuned: a conversion of some 11 %."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """One minute's answers, and those of them that led to an outcome, of both versions."""

    baseline_answered: int
    baseline_converted: int
    candidate_answered: int
    candidate_converted: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share or a difference of shares with its interval, all between -1 and 1."""

    value: float
    low: float
    high: float


class Verdict(StrEnum):
    """What may be said of the candidate, with the wanted confidence."""

    TOO_FEW = "too_few"
    OPEN = "open"
    WORSE = "worse"
    """It converts less than the baseline, by the margin or more."""
    NOT_WORSE = "not_worse"
    """If it converts less, then by less than the margin."""
    BETTER = "better"


@dataclass(slots=True)
class Pooled:
    """Minutes added up as they come, so that a look costs the same after any number of them."""

    baseline_answered: int = 0
    candidate_answered: int = 0
    converted: int = 0
    weight: float = 0.0
    score: float = 0.0
    slope: float = 0.0
    spread: float = 0.0

    def add(self, one: Stratum) -> None:
        """Take a minute in; one in which a version answered nobody says nothing."""
        n_base, n_new = one.baseline_answered, one.candidate_answered
        k_base, k_new = one.baseline_converted, one.candidate_converted
        if not n_base or not n_new:
            return
        total = n_base + n_new
        self.baseline_answered += n_base
        self.candidate_answered += n_new
        self.converted += k_base + k_new
        self.weight += n_base * n_new / total
        self.score += (k_new * n_base - k_base * n_new) / total
        # Sato's P and Q.
        self.slope += (
            n_new**2 * k_base - n_base**2 * k_new + n_new * n_base * (n_base - n_new) / 2
        ) / total**2
        self.spread += (k_new * (n_base - k_base) + k_base * (n_new - k_new)) / (2 * total)

    def difference(self, *, margin: float, confidence: float = 0.95) -> Estimate | None:
        """Candidate's conversion less the baseline's; None while there are too few answers.

        `margin` (a share) tunes where the interval is tightest: about when it can tell a
        difference of that size. It holds for any.
        """
        if not self._enough():
            return None
        value = self.score / self.weight
        variance = max(value * self.slope + self.spread, 0.0)
        reach = boundary(variance, tuning(margin, confidence), 1 - confidence) / self.weight
        return Estimate(value, max(value - reach, -1.0), min(value + reach, 1.0))

    def _enough(self) -> bool:
        answered = self.baseline_answered + self.candidate_answered
        fewest = min(self.baseline_answered, self.candidate_answered)
        outcomes = min(self.converted, answered - self.converted)
        return fewest >= FEWEST_ANSWERS and outcomes >= FEWEST_OUTCOMES


def difference(
    strata: Iterable[Stratum], *, margin: float, confidence: float = 0.95
) -> Estimate | None:
    """The difference after all of these minutes."""
    pooled = Pooled()
    for one in strata:
        pooled.add(one)
    return pooled.difference(margin=margin, confidence=confidence)


def boundary(variance: float, rho2: float, alpha: float) -> float:
    """How far a sum with this variance strays at any time with probability `alpha` at most."""
    grown = variance * rho2 + 1
    return math.sqrt(grown / rho2 * math.log(grown / alpha**2))


def tuning(margin: float, confidence: float) -> float:
    """Robbins' rho squared, for the variance at which a difference of `margin` can be told."""
    alpha = 1 - confidence
    effort = -2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1
    target = effort * (_VARIANCE_AT_BEST / margin) ** 2
    return effort / target


def verdict(found: Estimate | None, margin: float) -> Verdict:
    """What the interval says; `margin` is in shares (0.01: one percentage point)."""
    if found is None:
        return Verdict.TOO_FEW
    if found.high <= -margin:
        return Verdict.WORSE
    if found.low > 0:
        return Verdict.BETTER
    return Verdict.NOT_WORSE if found.low > -margin else Verdict.OPEN


def conversion(answered: int, converted: int, confidence: float = 0.95) -> Estimate | None:
    """The share of answers that led to an outcome, with its interval; None without answers."""
    if answered <= 0:
        return None
    value = converted / answered
    most = math.log(1 / (1 - confidence))

    def evidence(share: float) -> float:
        """Logarithm of the mixture martingale against this share, less the limit."""
        return (
            _log_beta(converted + 1, answered - converted + 1)
            - _log_likelihood(share, answered, converted)
            - most
        )

    low = 0.0 if converted == 0 else _crossing(evidence, 0.0, value)
    high = 1.0 if converted == answered else _crossing(evidence, 1.0, value)
    return Estimate(value, low, high)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _log_likelihood(share: float, answered: int, converted: int) -> float:
    if not 0 < share < 1:
        return -math.inf
    return converted * math.log(share) + (answered - converted) * math.log1p(-share)


def _crossing(evidence: Callable[[float], float], outside: float, inside: float) -> float:
    """Where evidence against a share sets in, between one that is excluded and one that is not."""
    for _ in range(60):
        middle = (outside + inside) / 2
        if evidence(middle) > 0:
            outside = middle
        else:
            inside = middle
    return outside
