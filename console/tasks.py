"""The floor's own tasks, and the loop that watches over all jobs."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_ready
from django.utils import timezone

from console.actors import Actor
from console.services import audit_forwarding
from console.services.audit_checks import (
    keep_checkpoints,
    request_verification,
    run_verification,
)
from console.services.audit_occurrences import enter_summed_up
from console.services.audit_retention import (
    make_partitions_ahead,
    request_retention,
    run_retention,
)
from console.services.idempotent_requests import forget_old_requests
from console.services.job_runs import run_job
from console.services.job_sweep import start_thread
from console.services.key_warnings import warn_of_expiring_keys
from console.services.sessions import forget_old_sessions
from console.services.tokens import forget_spent_tokens, warn_of_expiring_tokens
from console.services.workloads import forget_used_tokens


@worker_ready.connect
def start_sweep(sender: Any, **_: Any) -> None:
    """The control worker watches over all jobs, in a thread that no task can keep busy.

    In another it forwards the audit trail.
    """
    if "control" in sender.app.amqp.queues.consume_from:
        start_thread()
        audit_forwarding.start_thread()


@shared_task
def forget_sessions() -> None:
    """Delete sessions that have run out."""
    forget_old_sessions()


@shared_task
def forget_requests() -> None:
    """Delete what was kept of writes with an Idempotency-Key that are too old to be retried."""
    forget_old_requests()


@shared_task
def warn_of_keys() -> None:
    """Tell the owners of signing keys that end within 30 and within 7 days."""
    warn_of_expiring_keys(now=timezone.now())


@shared_task
def keep_audit() -> None:
    """Each minute: sum up, sign a checkpoint when it is due, and make room for the next months."""
    now = timezone.now()
    enter_summed_up(now=now)
    make_partitions_ahead(now=now)
    keep_checkpoints(now=now)


@shared_task
def ask_for_audit_check() -> None:
    """Each day: have the whole chain checked, and what is too old archived."""
    request_verification(actor=Actor.system("timer"))
    request_retention(now=timezone.now())


@shared_task(name="console.tasks.verify_audit")
def verify_audit(job_id: str) -> None:
    """Check the whole chain of the audit trail."""
    run_job(job_id, run_verification)


@shared_task(name="console.tasks.retain_audit")
def retain_audit(job_id: str) -> None:
    """Archive and drop the months that are older than what is kept."""
    run_job(job_id, run_retention)


@shared_task
def watch_tokens() -> None:
    """Tell of tokens that expire soon, and forget what workloads used up."""
    warn_of_expiring_tokens()
    forget_spent_tokens()
    forget_used_tokens()
