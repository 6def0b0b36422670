"""How far a rollout is: the pure rule's own state, and its form in the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from deployments.rules.rollouts.analysis import MetricState, Phase, Run
from deployments.rules.states import RolloutState


class Cause(StrEnum):
    """Why a rollout stands still, or how it ended."""

    # It stands still by itself, and goes on by itself.
    FROZEN = "frozen"
    OUTSIDE_WINDOW = "outside_window"
    NOT_ACKNOWLEDGED = "not_acknowledged"
    TOO_FEW_REQUESTS = "too_few_requests"
    # It waits for a person.
    BY_HAND = "by_hand"
    APPROVAL = "approval"
    INCONCLUSIVE = "inconclusive"
    TRAFFIC_MOVED = "traffic_moved"
    REFUSED_BY_GATEWAY = "refused_by_gateway"
    NOT_READY = "not_ready"
    # It ended.
    PROMOTED = "promoted"
    ROLLED_BACK_BY_HAND = "rolled_back_by_hand"
    ANALYSIS_FAILED = "analysis_failed"
    ANALYSIS_ERROR = "analysis_error"
    ERROR_RATE = "error_rate"
    LATENCY = "latency"
    OUTPUTS = "outputs"
    NO_NODE = "no_node"


HELD = frozenset(
    {Cause.FROZEN, Cause.OUTSIDE_WINDOW, Cause.NOT_ACKNOWLEDGED, Cause.TOO_FEW_REQUESTS}
)
"""Causes for which a running rollout stands still and goes on by itself."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a rollout is.

    `step` is the step under way (as many as there are when all are done), `moved_at` when it began.
    `weight` is what the rollout gave the candidate last, `weight_since` when every gateway had it,
    `exposed_since` when the candidate had any for the first time.
    """

    step: int
    moved_at: datetime
    state: RolloutState = RolloutState.RUNNING
    cause: str = ""
    message: str = ""
    weight: int = 0
    weight_since: datetime | None = None
    exposed_since: datetime | None = None
    spread: float = 0.0
    background: Run | None = None
    inline: Run | None = None

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.state in (RolloutState.RUNNING, RolloutState.PAUSED)


def progress_json(progress: Progress) -> dict[str, Any]:
    """As the row keeps it; state, cause and message have columns of their own."""
    return {
        "step": progress.step,
        "moved_at": progress.moved_at.isoformat(),
        "weight": progress.weight,
        "weight_since": _time(progress.weight_since),
        "exposed_since": _time(progress.exposed_since),
        "spread": progress.spread,
        "background": _run_json(progress.background),
        "inline": _run_json(progress.inline),
    }


def read_progress(stored: Mapping[str, Any], *, state: str, cause: str, message: str) -> Progress:
    """What `progress_json` wrote, with the columns beside it."""
    return Progress(
        step=stored["step"],
        moved_at=datetime.fromisoformat(stored["moved_at"]),
        state=RolloutState(state),
        cause=cause,
        message=message,
        weight=stored["weight"],
        weight_since=_read_time(stored["weight_since"]),
        exposed_since=_read_time(stored["exposed_since"]),
        spread=stored["spread"],
        background=_read_run(stored["background"]),
        inline=_read_run(stored["inline"]),
    )


def _run_json(run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "started_at": run.started_at.isoformat(),
        "phase": run.phase.value,
        "message": run.message,
        "metrics": {
            name: {
                "next_at": _time(one.next_at),
                "successful": one.successful,
                "failed": one.failed,
                "error": one.error,
                "inconclusive": one.inconclusive,
                "consecutive_error": one.consecutive_error,
                "phase": one.phase.value,
                "successful_at": _time(one.successful_at),
                "judged_at": _time(one.judged_at),
            }
            for name, one in run.metrics.items()
        },
    }


def _read_run(stored: Mapping[str, Any] | None) -> Run | None:
    if stored is None:
        return None
    return Run(
        started_at=datetime.fromisoformat(stored["started_at"]),
        phase=Phase(stored["phase"]),
        message=stored["message"],
        metrics={
            name: MetricState(
                next_at=_read_time(one["next_at"]),
                successful=one["successful"],
                failed=one["failed"],
                error=one["error"],
                inconclusive=one["inconclusive"],
                consecutive_error=one["consecutive_error"],
                phase=Phase(one["phase"]),
                successful_at=_read_time(one["successful_at"]),
                judged_at=_read_time(one["judged_at"]),
            )
            for name, one in stored["metrics"].items()
        },
    )


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _read_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
