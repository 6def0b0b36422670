"""What the form of a new rollout holds, and the plan's document that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deployments.rules.rollouts.reading import duration_word
from deployments.rules.rollouts.types import LONGEST_WINDOW_S
from models_registry.rules.contract_types import Rollout as Clause

MOST_STAGES = 100
"""As many weights as a plan of weights and pauses may have."""


class Approval(StrEnum):
    """Where the rollout stands still until a person lets it go on."""

    NEVER = "never"
    FIRST = "first"
    LAST = "last"
    EACH = "each"


@dataclass(frozen=True, slots=True)
class Draft:
    """Shares in percent, times in seconds; a limit that is None is not looked at."""

    start: float
    step: float
    every_s: float
    approval: Approval
    max_error_rate: float | None
    max_p99_ms: float | None
    max_p99_ratio: float | None
    max_output_difference: float | None
    min_requests: int
    interval_s: float
    failure_limit: int
    fast: bool
    fast_max_error_rate: float | None
    fast_max_p99_ms: float | None
    fast_max_output_faults: float | None
    days: tuple[str, ...]
    opens: str
    closes: str
    time_zone: str


def draft_of(clause: Clause) -> Draft:
    """What the contract's clause asks for."""
    limits = clause.analysis
    return Draft(
        start=clause.start,
        step=clause.step,
        every_s=float(clause.every_seconds),
        approval=Approval.NEVER,
        max_error_rate=limits.max_error_rate,
        max_p99_ms=limits.max_p99_ms,
        max_p99_ratio=None,
        max_output_difference=None,
        min_requests=limits.min_requests,
        interval_s=min(60.0, float(clause.every_seconds)),
        failure_limit=0,
        fast=True,
        fast_max_error_rate=limits.max_error_rate,
        fast_max_p99_ms=limits.max_p99_ms,
        fast_max_output_faults=1.0,
        days=(),
        opens="09:00",
        closes="17:00",
        time_zone="UTC",
    )


def shares(draft: Draft) -> list[float]:
    """The weights in percent; the last is 100."""
    found = [round(min(draft.start, 100.0), 2)]
    while found[-1] < 100 and len(found) < MOST_STAGES - 1:
        found.append(round(min(found[-1] + max(draft.step, 0.01), 100.0), 2))
    return found if found[-1] == 100 else [*found, 100.0]


def plan_document(draft: Draft) -> dict[str, Any]:
    """The document that `parse_plan` reads."""
    metrics = _metrics(draft)
    document: dict[str, Any] = {
        "steps": _steps(draft),
        "analysis": {"metrics": metrics} if metrics else False,
        "fast_check": _fast(draft),
    }
    if draft.days:
        document["windows"] = [
            {
                "days": list(draft.days),
                "from": draft.opens,
                "to": draft.closes,
                "time_zone": draft.time_zone,
            }
        ]
    return document


def _steps(draft: Draft) -> list[dict[str, Any]]:
    weights = shares(draft)
    steps: list[dict[str, Any]] = []
    for number, percent in enumerate(weights, start=1):
        steps.append({"set_weight": percent})
        if number == len(weights):
            break
        steps.append({"pause": {"duration": duration_word(draft.every_s)}})
        asks = {
            Approval.NEVER: False,
            Approval.FIRST: number == 1,
            Approval.LAST: number == len(weights) - 1,
            Approval.EACH: True,
        }[draft.approval]
        if asks:
            steps.append({"pause": {}})
    return steps


def _metrics(draft: Draft) -> list[dict[str, Any]]:
    shared = {
        "interval": duration_word(draft.interval_s),
        "window": duration_word(min(LONGEST_WINDOW_S, max(draft.every_s, 1.0))),
        "failure_limit": draft.failure_limit,
    }
    wanted = (
        ("error_rate", "error_rate", draft.max_error_rate, "<= {:g}"),
        ("p99_ms", "p99_ms", draft.max_p99_ms, "<= {:g}"),
        ("p99_against_baseline", "p99_ms", draft.max_p99_ratio, "<= baseline * {:g}"),
        ("output_difference", "output_difference", draft.max_output_difference, "<= {:g}"),
    )
    found = []
    for name, kind, limit, condition in wanted:
        if limit is None:
            continue
        metric: dict[str, Any] = {"name": name, "metric": kind, **shared}
        metric["success_condition"] = condition.format(limit)
        if kind != "output_difference":
            metric["min_requests"] = draft.min_requests
        found.append(metric)
    return found


def _fast(draft: Draft) -> dict[str, float | None] | bool:
    if not draft.fast:
        return False
    return {
        "max_error_rate": draft.fast_max_error_rate,
        "max_p99_ms": draft.fast_max_p99_ms,
        "max_output_faults": draft.fast_max_output_faults,
    }
