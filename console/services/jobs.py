"""Asking for jobs, cancelling and retrying them."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import redis
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.module_loading import import_string
from kombu.exceptions import OperationalError as BrokerError

from console import live
from console.actors import Actor, allowed, require
from console.celery import app as celery_app
from console.errors import Conflict, NotAllowed, NotFound
from console.models import Job, JobLine, JobState
from console.rules.jobs import KINDS
from console.selectors.visibility import shown_to
from console.services import audit

log = logging.getLogger(__name__)


def enqueue(
    *,
    kind: str,
    subject: str,
    arguments: dict[str, Any],
    actor: Actor,
    subject_url: str = "",
    queue: str = "",
    idempotency_key: str = "",
) -> Job:
    """Write the job in the caller's transaction and send it once that commits.

    The same `idempotency_key` gives the job that is already there. Raises RuntimeError outside
    a transaction, since a job without its change (or the reverse) must not exist.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("jobs.enqueue belongs inside the transaction of what it does")
    spec = KINDS[kind]
    key = idempotency_key or f"{kind}:{uuid.uuid4()}"
    if existing := Job.objects.filter(idempotency_key=key).first():
        return _same(existing, kind)
    try:
        with transaction.atomic():
            job = Job.objects.create(
                kind=kind,
                queue=queue or spec.queue,
                subject=subject[:200],
                subject_url=subject_url,
                arguments=arguments,
                requested_by=actor.user,
                idempotency_key=key,
                max_attempts=spec.max_attempts,
                not_before=timezone.now(),
            )
    except IntegrityError:
        return _same(Job.objects.get(idempotency_key=key), kind)
    transaction.on_commit(lambda: send(job))
    announce(job)
    return job


def send(job: Job) -> None:
    """Hand a queued job to the broker; when that fails the sweep sends it again within seconds."""
    try:
        # The message carries the job's id, by which the sweep finds it in the queue.
        celery_app.send_task(
            KINDS[job.kind].task, args=[str(job.pk)], queue=job.queue, task_id=str(job.pk)
        )
    except (BrokerError, redis.RedisError, OSError) as error:
        log.warning("job %s was not sent yet: %s", job.pk, error)
        return
    Job.objects.filter(pk=job.pk).update(sent_at=timezone.now())


def cancel_job(*, job_id: uuid.UUID, actor: Actor, reason: str = "") -> Job:
    """Cancel a queued job at once, ask a running one to stop; cancelling twice is one cancel.

    Raises Conflict when the job has ended, NotAllowed when it is somebody else's.
    """
    with transaction.atomic():
        job = _locked(job_id, actor)
        if job.is_terminal:
            raise Conflict(
                f"Job {job.kind} {job.subject} has already ended: {job.state}.",
                code="job_ended",
                hint="There is nothing left to cancel.",
            )
        if job.cancel_requested_at:
            return job
        job.cancel_requested_at = timezone.now()
        job.cancel_requested_by = actor.user
        job.save(update_fields=["cancel_requested_at", "cancel_requested_by"])
        audit.record(
            actor=actor,
            action="job.cancel",
            subject=f"job {job.pk} of {job.subject}",
            subject_url=reverse("console:job-detail", args=[job.pk]),
            reason=reason,
            after={"kind": job.kind, "of": job.subject},
        )
        if job.state == JobState.QUEUED:
            finish(job, JobState.CANCELLED, message=f"Cancelled by {actor.user.username}.")
        else:
            add_line(job, f"{actor.user.username} asked for the job to stop.", level="warning")
            announce(job)
    return job


def retry_job(*, job_id: uuid.UUID, actor: Actor) -> Job:
    """Put a failed, errored or cancelled job back into its queue with fresh attempts.

    It goes on from its last checkpoint. Raises Conflict when it is in any other state.
    """
    with transaction.atomic():
        job = _locked(job_id, actor)
        if job.state not in (JobState.FAILED, JobState.ERRORED, JobState.CANCELLED):
            raise Conflict(
                f"Job {job.kind} {job.subject} is {job.state}: only a job that failed, errored "
                "or was cancelled can be retried.",
                code="job_not_retryable",
            )
        before = job.state
        job.state = JobState.QUEUED
        job.max_attempts = job.attempt + KINDS[job.kind].max_attempts
        job.not_before = timezone.now()
        job.error_code = job.error_message = job.error_hint = job.step = ""
        job.cancel_requested_at = job.cancel_requested_by = None
        job.sent_at = job.started_at = job.finished_at = None
        job.progress = 0
        job.save()
        add_line(job, f"Retried by {actor.user.username}.")
        audit.record(
            actor=actor,
            action="job.retry",
            subject=f"job {job.pk} of {job.subject}",
            subject_url=reverse("console:job-detail", args=[job.pk]),
            before={"state": before},
            after={"state": job.state, "kind": job.kind, "of": job.subject},
        )
        transaction.on_commit(lambda: send(job))
        announce(job)
    return job


def finish(
    job: Job,
    state: JobState,
    *,
    message: str = "",
    code: str = "",
    hint: str = "",
    result: dict[str, Any] | None = None,
) -> None:
    """Write a job's ending, inside the caller's transaction with the row locked or fenced."""
    job.state = state
    job.finished_at = timezone.now()
    job.lease_until = None
    job.error_code, job.error_message, job.error_hint = code[:64], message, hint
    job.result = result
    if state == JobState.SUCCEEDED:
        job.progress = 1
    job.save(
        update_fields=[
            "state",
            "finished_at",
            "lease_until",
            "error_code",
            "error_message",
            "error_hint",
            "result",
            "progress",
        ]
    )
    if message:
        add_line(job, message, level="info" if state == JobState.CANCELLED else "error")
    if state != JobState.SUCCEEDED:
        _notify_ended(job)
    announce(job)


def add_line(job: Job, text: str, *, level: str = "info") -> None:
    """Append a line to a job's log and tell its viewers; level `step` opens a step."""
    now = timezone.now()
    JobLine.objects.create(
        job_id=job.pk, at=now, attempt=job.attempt, level=level, text=text.replace("\0", "")[:4000]
    )
    live.publish(f"job:{job.pk}", "job.line", {"at": now.isoformat(), "level": level, "text": text})


def announce(job: Job) -> None:
    """Tell viewers of the job, of the list and of its subject how it stands."""
    data = {
        "id": str(job.pk),
        "kind": job.kind,
        "state": job.state,
        "progress": job.progress,
        "step": job.step,
        "subject": job.subject,
    }
    for topic in (f"job:{job.pk}", f"subject:{job.subject}"):
        live.publish(topic, "job.changed", data)
    # Everybody may listen to all jobs: what one is about is for those who may see that.
    live.publish("jobs", "job.changed", {"id": str(job.pk), "state": job.state})


def _same(existing: Job, kind: str) -> Job:
    if existing.kind != kind:
        raise Conflict(
            f"The idempotency key {existing.idempotency_key} belongs to a job of the kind "
            f"{existing.kind}.",
            code="idempotency_key_reused",
            hint="Use a new key for each new act.",
        )
    return existing


def _notify_ended(job: Job) -> None:
    """Run the kind's `ended` function, in the transaction that ends the job without success."""
    if dotted := KINDS[job.kind].ended:
        import_string(dotted)(job)


def _locked(job_id: uuid.UUID, actor: Actor) -> Job:
    """The job's row, locked, when the actor may manage it: as its owner or as an operator."""
    jobs = shown_to(Job.objects.select_for_update(), actor.user)
    job = jobs.filter(pk=job_id).first()
    if job is None:
        raise NotFound("There is no such job.", hint="Look for it in the list of jobs.")
    if job.requested_by_id == actor.user.pk:
        require(actor, "job.manage_own")
    elif not allowed(actor, "job.manage"):
        raise NotAllowed(
            f"Job {job.kind} {job.subject} was asked for by somebody else.",
            code="not_your_job",
            hint="Its owner, an SRE or a platform admin can do this.",
        )
    return job
