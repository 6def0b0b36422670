"""Two versions side by side: how far latencies and faults are apart, and whether one can tell.

A difference is called one only where the 95 % ranges of both figures lie apart; fewer requests
than a quantile needs give no verdict at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from deployments.rules.experiments.comparison_figures import Figures as Answers
from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Counted, merge_any

Z = 1.959964
"""Of the normal distribution, for 95 %."""
QUANTILES: tuple[tuple[str, float], ...] = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


class Verdict(StrEnum):
    """How the second version stands to the first."""

    WORSE = "worse"
    BETTER = "better"
    ALIKE = "alike"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the range that it lies in with 95 % confidence, where enough was counted."""

    value: float | None = None
    range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted of one version; latencies in ms, shares 0 to 1."""

    version: int
    requests: int
    caller_faults: int
    provider_faults: int
    statuses: Mapping[str, int]
    latency: Histogram | None
    quantiles: Mapping[str, Estimate]
    provider_share: float | None
    caller_share: float | None
    queue_ms: float | None
    compute_ms: float | None
    batch_size: float | None


@dataclass(frozen=True, slots=True)
class Latencies:
    """The highest quantile that both have requests enough for, and how far they are apart in ms."""

    verdict: Verdict
    quantile: str = ""
    difference_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """Difference of the provider's shares (second less first, -1 to 1) with its 95 % range."""

    verdict: Verdict
    difference: Estimate = Estimate()


def needed_for(quantile: float) -> int:
    """Requests from which on a quantile's 95 % range ends within what was measured."""
    return math.ceil(Z * Z * quantile / (1 - quantile)) + 1


def figures(version: int, counted: Counted) -> Figures:
    """The figures of one version."""
    traffic, work = counted.traffic, counted.work
    requests = traffic.version_requests
    return Figures(
        version=version,
        requests=requests,
        caller_faults=traffic.caller_faults,
        provider_faults=traffic.version_faults,
        statuses=traffic.statuses,
        latency=traffic.latency,
        quantiles={name: estimate(traffic.latency, q) for name, q in QUANTILES},
        provider_share=traffic.version_faults / requests if requests else None,
        caller_share=traffic.caller_faults / requests if requests else None,
        queue_ms=work.queue_ms,
        compute_ms=work.compute_ms,
        batch_size=work.batch_size,
    )


def estimate(latency: Histogram | None, quantile: float) -> Estimate:
    """A quantile with its range by order statistics."""
    total = latency.total if latency else 0
    if latency is None or not total:
        return Estimate()
    reach = Z * math.sqrt(quantile * (1 - quantile) / total)
    value = histograms.quantile(latency, quantile)
    if total < needed_for(quantile):
        return Estimate(value)
    low, high = (
        histograms.quantile(latency, min(max(end, 0.0), 1.0))
        for end in (quantile - reach, quantile + reach)
    )
    return Estimate(value, None if low is None or high is None else (low, high))


def compare_latencies(first: Figures, second: Figures) -> Latencies:
    """By the highest quantile for which both have requests enough."""
    for name, _quantile in reversed(QUANTILES):
        a, b = first.quantiles[name], second.quantiles[name]
        if a.range is None or b.range is None or a.value is None or b.value is None:
            continue
        (low_a, high_a), (low_b, high_b) = a.range, b.range
        verdict = (
            Verdict.WORSE if low_b > high_a else Verdict.BETTER if high_b < low_a else Verdict.ALIKE
        )
        return Latencies(verdict, name, b.value - a.value)
    return Latencies(Verdict.UNKNOWN)


def compare_faults(first: Figures, second: Figures) -> Faults:
    """By Newcombe's interval of the difference of two shares."""
    a, b = first.provider_share, second.provider_share
    if a is None or b is None:
        return Faults(Verdict.UNKNOWN)
    (low_a, high_a), (low_b, high_b) = (
        wilson(one.provider_faults, one.requests) for one in (first, second)
    )
    difference = b - a
    low = difference - math.hypot(b - low_b, high_a - a)
    high = difference + math.hypot(high_b - b, a - low_a)
    # What touches zero but for rounding tells nothing.
    verdict = Verdict.WORSE if low > 1e-9 else Verdict.BETTER if high < -1e-9 else Verdict.ALIKE
    return Faults(verdict, Estimate(difference, (max(low, -1.0), min(high, 1.0))))


def wilson(count: int, total: int) -> tuple[float, float]:
    """The 95 % range of a share by Wilson's score; `total` above 0."""
    share, z2 = count / total, Z * Z
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    reach = Z * math.sqrt(share * (1 - share) / total + z2 / (4 * total * total)) / (1 + z2 / total)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def shared_span(
    minutes: Iterable[tuple[datetime, int, int]], first: int, second: int
) -> tuple[datetime, datetime] | None:
    """First and last minute between which both versions had requests; None when there is none.

    `minutes` are (minute, version, requests). Comparing another hour of one with this hour of the
    other would compare the hours.
    """
    busy: dict[int, list[datetime]] = {first: [], second: []}
    for minute, version, requests in minutes:
        if version in busy and requests:
            busy[version].append(minute)
    if not busy[first] or not busy[second]:
        return None
    start, end = max(map(min, busy.values())), min(map(max, busy.values()))
    return (start, end) if start <= end else None


def on_one_axis(
    first: Histogram | None, second: Histogram | None
) -> tuple[tuple[float, ...], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Bounds that both have, and the counts of each under these; no bounds where nothing is."""
    both = merge_any(first, second)
    if both is None or not both.total:
        return (), ((), ())
    counts = tuple(
        histograms.coarsen(one, both.bounds).counts
        if one is not None and one.total
        else (0,) * (len(both.bounds) + 1)
        for one in (first, second)
    )
    return both.bounds, (counts[0], counts[1])


def turned(answers: Answers) -> Answers:
    """The same comparison with its sides changed round."""
    outputs = {
        name: replace(
            one,
            baseline_values=one.candidate_values,
            candidate_values=one.baseline_values,
            baseline_faults=one.candidate_faults,
            candidate_faults=one.baseline_faults,
        )
        for name, one in answers.outputs.items()
    }
    return replace(
        answers,
        baseline_faults=answers.candidate_faults,
        candidate_faults=answers.baseline_faults,
        outputs=outputs,
    )
