"""The fast check: whether a version is so bad that nobody waits for the step's analysis.

Looked at each second over windows of seconds, so it must neither need many requests nor be fooled
by few. It asks how likely the faults seen would be if the version kept its limit: with k of n
requests bad and a limit of p, at most exp(-n · KL(k/n ‖ p)) (Chernoff's bound on the binomial
tail). A version that fails every request is found out by its fourth, one that is a little above
its limit is left to the analysis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from deployments.rules.rollouts.types import FastCheck
from deployments.rules.statistics.traffic_windows import WindowNumbers

WINDOWS_S = (3.0, 10.0, 30.0)
"""Short ones see the first bad seconds of a busy service, long ones gather a quiet one's."""
ALPHA = 1e-7
"""Chance at most of a false alarm at one look at one limit that is just kept."""
_LEAST_SHARE = 1e-6
_P99_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Answers:
    """Sampled answers of the candidate within the last seconds, and those that broke a rule."""

    sampled: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """What ended it: the cause's code and words."""

    cause: str
    message: str


def alarm(
    check: FastCheck, windows: Mapping[float, WindowNumbers], answers: Answers | None = None
) -> Alarm | None:
    """The first limit that is broken beyond chance; None while all may be well.

    `windows` holds the candidate's numbers by the length of the window in seconds.
    """
    for seconds, numbers in sorted(windows.items()):
        if check.max_error_rate is not None and is_beyond(
            numbers.provider_faults, numbers.requests, check.max_error_rate / 100
        ):
            share = 100 * numbers.provider_faults / numbers.requests
            return Alarm(
                "error_rate",
                f"{numbers.provider_faults} of {numbers.requests} requests failed within "
                f"{seconds:.3g} s ({share:.3g} %, limit {check.max_error_rate:g} %).",
            )
        if check.max_p99_ms is not None:
            slow = numbers.slower_than(check.max_p99_ms)
            if is_beyond(slow, numbers.requests, _P99_SHARE):
                return Alarm(
                    "latency",
                    f"{slow} of {numbers.requests} requests took longer than "
                    f"{check.max_p99_ms:g} ms within {seconds:.3g} s; 1 % may.",
                )
    if (
        answers is not None
        and check.max_output_faults is not None
        and is_beyond(answers.faults, answers.sampled, check.max_output_faults / 100)
    ):
        return Alarm(
            "outputs",
            f"{answers.faults} of {answers.sampled} sampled answers break what the contract says "
            "of its outputs.",
        )
    return None


def is_beyond(bad: int, total: int, limit: float) -> bool:
    """Whether `bad` of `total` is more than a version that keeps `limit` (0 to 1) would ever show.

    >>> is_beyond(4, 4, 0.01), is_beyond(1, 4, 0.01), is_beyond(3, 1000, 0.01)
    (True, False, False)
    """
    total = max(total, bad)
    if bad <= 0 or limit >= 1:
        return False
    if limit <= 0:
        # Not one may: nothing has to be estimated.
        return True
    limit = max(limit, _LEAST_SHARE)
    share = bad / total
    if share <= limit:
        return False
    divergence = share * math.log(share / limit)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - limit))
    return total * divergence > -math.log(ALPHA)
