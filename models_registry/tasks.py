"""Celery's doors: a job id in, a service called, nothing else."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from console.services.job_runs import run_job
from models_registry.services import (
    approval_lapses,
    artifacts,
    break_glass,
    contract_expiry,
    exports,
    sandboxed,
    uploads,
    validations,
)


@shared_task(name="models_registry.tasks.export_version")
def export_version(job_id: str) -> None:
    """Run an export job."""
    run_job(job_id, exports.run_export)


@shared_task(name="models_registry.tasks.validate_version")
def validate_version(job_id: str) -> None:
    """Run a validation job."""
    run_job(job_id, validations.run_validation)


@shared_task(name="models_registry.tasks.expire_uploads")
def expire_uploads() -> None:
    """Remove expired uploads, files that nothing refers to, and what killed jobs left behind."""
    uploads.expire_uploads(now=timezone.now())
    artifacts.collect_garbage()
    sandboxed.clean_work_folders()


@shared_task(name="models_registry.tasks.watch_contracts")
def watch_contracts() -> None:
    """Mark contracts whose last day is over, and warn of those that come to theirs."""
    contract_expiry.watch_contracts(now=timezone.now())


@shared_task(name="models_registry.tasks.watch_releases")
def watch_releases() -> None:
    """Tell of approvals that lapsed, and remind of reviews of broken glass that are overdue."""
    approval_lapses.tell_of_lapses(now=timezone.now())
    break_glass.remind_of_reviews(now=timezone.now())
