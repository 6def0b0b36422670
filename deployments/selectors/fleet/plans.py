"""TensorRT plans as pages and the API show them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final, Literal

from django.db.models import QuerySet

from console.models import JobState
from deployments.models import Node, NodeState, TensorRtPlan
from models_registry.models import ModelVersion

State = Literal["built", "building", "needs_gpu", "failed"]
SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One plan; `command` is a line for a shell, `lines` the same with one flag on each line."""

    plan: TensorRtPlan
    state: State
    command: str
    lines: str


def plan_list(version: ModelVersion) -> QuerySet[TensorRtPlan]:
    """A version's plans, newest first, in 1 query."""
    return (
        TensorRtPlan.objects.filter(version=version)
        .select_related("version__model", "node", "plan", "job", "requested_by")
        .order_by("-requested_at", "-pk")
    )


def plan_row(plan: TensorRtPlan) -> PlanRow:
    """The plan with its state in one word."""
    lines = " \\\n  ".join(shlex.quote(word) for word in plan.command)
    return PlanRow(plan, state_of(plan), shlex.join(plan.command), lines)


def state_of(plan: TensorRtPlan) -> State:
    """built: the file is there; building: a job waits or runs; needs_gpu: no node can."""
    if plan.plan_id is not None:
        return "built"
    if plan.job is None:
        return "needs_gpu"
    return "building" if plan.job.state in (JobState.QUEUED, JobState.RUNNING) else "failed"


def gpu_nodes() -> list[Node]:
    """Ready nodes that have a GPU, by name (1 query)."""
    return list(Node.objects.filter(state=NodeState.READY).exclude(gpus=[]).order_by("name"))
