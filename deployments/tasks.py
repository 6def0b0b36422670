"""Celery's doors of this storey."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from console.services.job_runs import run_job
from deployments.documents import sla_mail
from deployments.services.alerts import deliveries, delivering
from deployments.services.diagnosis import running
from deployments.services.fleet import live_checks, placements, plans, reconciles, unloads
from deployments.services.incidents import rollbacks
from deployments.services.objectives import sla_standings, sla_subscriptions
from deployments.services.statistics import hours, retention
from deployments.services.telemetry import intake
from deployments.services.trials import load_tests


@shared_task
def deploy(job_id: str) -> None:
    run_job(job_id, placements.run_deploy)


@shared_task
def unload(job_id: str) -> None:
    run_job(job_id, unloads.run_unload)


@shared_task
def supervise_rollback(job_id: str) -> None:
    run_job(job_id, rollbacks.supervise_rollback)


@shared_task
def deliver_alert(job_id: str) -> None:
    run_job(job_id, delivering.run_delivery)


@shared_task
def forget_deliveries() -> int:
    return deliveries.forget_old()


@shared_task
def reconcile(job_id: str) -> None:
    run_job(job_id, reconciles.run_reconcile)


@shared_task
def build_plan(job_id: str) -> None:
    run_job(job_id, plans.run_build_plan)


@shared_task
def diagnose(job_id: str) -> None:
    run_job(job_id, running.run_diagnose)


@shared_task
def verify(job_id: str) -> None:
    run_job(job_id, live_checks.run_verify)


@shared_task
def verify_live() -> int:
    """What is live is verified each quarter of an hour; asking twice in one asks once."""
    return live_checks.verify_all(slot=str(int(timezone.now().timestamp() // 900)))


@shared_task
def check_live() -> int:
    return reconciles.check_live()


@shared_task
def load_test(job_id: str) -> None:
    run_job(job_id, load_tests.run_load_test)


@shared_task
def sla_report(job_id: str) -> None:
    run_job(job_id, sla_mail.send_report)


@shared_task
def ask_for_sla_reports() -> int:
    return sla_subscriptions.ask_for_reports(now=timezone.now())


@shared_task
def look_at_promises() -> int:
    return sla_standings.look_at_promises(now=timezone.now())


@shared_task
def roll_counts() -> dict[str, int]:
    """Each minute: add up the hours and days that are due, or were booked into late."""
    return hours.roll_due(timezone.now())


@shared_task
def keep_counts() -> int:
    """Each hour: make room for the next months, and let go what the policy no longer keeps."""
    return len(retention.apply_retention(now=timezone.now()))


@shared_task
def forget_counters() -> int:
    """Each day: forget where counters stood that nobody sends any more."""
    return intake.forget_counters()
