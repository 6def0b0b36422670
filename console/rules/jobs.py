"""What kinds of jobs there are, and how a job may move."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

LEASE = timedelta(seconds=6)
HEARTBEAT_SECONDS = 1.5
# How often a running job looks whether it was cancelled: the ask is honoured within 2 s.
LOOK_SECONDS = 0.5
RESEND_AFTER = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class JobKind:
    """`task` is the Celery task by name; `queue` is empty where the asker names it (a node's).

    `ended` is the dotted name of a function `(job) -> None` that runs in the transaction that ends
    the job in any way but success, so that what waits for it learns of it.
    """

    name: str
    task: str
    queue: str
    max_attempts: int
    ended: str = ""


KINDS: dict[str, JobKind] = {
    kind.name: kind
    for kind in (
        JobKind(
            "export",
            "models_registry.tasks.export_version",
            "export",
            3,
            "models_registry.services.exports.export_ended",
        ),
        JobKind(
            "validate",
            "models_registry.tasks.validate_version",
            "export",
            3,
            "models_registry.services.validations.validation_ended",
        ),
        JobKind(
            "load_test",
            "deployments.tasks.load_test",
            "export",
            1,
            "models_registry.services.load_tests.load_test_ended",
        ),
        JobKind(
            "build_plan",
            "deployments.tasks.build_plan",
            "",
            2,
            "deployments.services.fleet.plans.plan_ended",
        ),
        JobKind(
            "deploy",
            "deployments.tasks.deploy",
            "",
            4,
            "deployments.services.fleet.placements.deploy_ended",
        ),
        JobKind(
            "unload",
            "deployments.tasks.unload",
            "",
            4,
            "deployments.services.fleet.unloads.unload_ended",
        ),
        JobKind("rollback", "deployments.tasks.supervise_rollback", "control", 3),
        JobKind(
            "deliver_alert",
            "deployments.tasks.deliver_alert",
            "control",
            # Back-off up to a minute each: a receiver may be away for ten minutes.
            14,
            "deployments.services.alerts.delivering.delivery_ended",
        ),
        JobKind("sla_report", "deployments.tasks.sla_report", "export", 6),
        JobKind("reconcile", "deployments.tasks.reconcile", "", 4),
        JobKind("audit_verify", "console.tasks.verify_audit", "export", 3),
        JobKind("audit_retain", "console.tasks.retain_audit", "export", 3),
        JobKind("verify", "deployments.tasks.verify", "", 3),
        JobKind(
            "diagnose",
            "deployments.tasks.diagnose",
            "",
            3,
            "deployments.services.diagnosis.asking.diagnosis_ended",
        ),
    )
}

# queued → queued is a retry's delay; running → queued a lost lease or a retry.
MOVES: dict[str, frozenset[str]] = {
    "queued": frozenset({"running", "cancelled"}),
    "running": frozenset({"succeeded", "failed", "errored", "cancelled", "queued"}),
    "succeeded": frozenset(),
    "failed": frozenset(),
    "errored": frozenset(),
    "cancelled": frozenset(),
}


def may_move(before: str, after: str) -> bool:
    """Whether a job may go from one state to another."""
    return after in MOVES[before]


def retry_delay(attempt: int, jitter: float) -> timedelta:
    """Back-off before the attempt after `attempt` (1, 2, 3 …): 2, 4, 8 … at most 60 s.

    `jitter` in 0..1 shortens it by up to half, so that many jobs do not come back at once
    ("full jitter" halved; see AWS Architecture Blog, Exponential Backoff and Jitter, 2015).
    """
    seconds = min(60.0, 2.0**attempt)
    return timedelta(seconds=seconds * (1 - 0.5 * jitter))
