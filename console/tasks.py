"""The floor's own tasks, and the loop that watches over all jobs."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_ready
from django.utils import timezone

from console.services.idempotent_requests import forget_old_requests
from console.services.job_sweep import start_thread
from console.services.key_warnings import warn_of_expiring_keys


@worker_ready.connect
def start_sweep(sender: Any, **_: Any) -> None:
    """The control worker watches over all jobs, in a thread that no task can keep busy."""
    if "control" in sender.app.amqp.queues.consume_from:
        start_thread()


@shared_task
def forget_requests() -> None:
    """Delete what was kept of writes with an Idempotency-Key that are too old to be retried."""
    forget_old_requests()


@shared_task
def warn_of_keys() -> None:
    """Tell the owners of signing keys that end within 30 and within 7 days."""
    warn_of_expiring_keys(now=timezone.now())
