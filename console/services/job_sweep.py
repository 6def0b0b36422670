"""The sweep: sends again what no worker picked up, hands on what a lost worker left."""

from __future__ import annotations

import json
import logging
import threading
import time
from datetime import timedelta

import redis
from django.db import DatabaseError, close_old_connections, connection, transaction
from django.db.models import Q
from django.utils import timezone

from console import live
from console.models import Job, JobState
from console.rules.jobs import RESEND_AFTER
from console.services.jobs import add_line, announce, finish, send

SWEEP_SECONDS = 1.0
BATCH = 200
MESSAGES_READ = 2_000
ADVISORY_LOCK = 7_205_001
FROZEN_AFTER_MS = 3_000
ENDED_FAULT_PAUSE = timedelta(seconds=60)

log = logging.getLogger(__name__)
_thread: threading.Thread | None = None


def start_thread() -> None:
    """Start the loop once in this process; it ends with the process."""
    global _thread  # noqa: PLW0603 - one loop per process
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=sweep_forever, name="job-sweep", daemon=True)
        _thread.start()


def sweep_forever() -> None:
    """Sweep each second; several processes may run this, one at a time does the work."""
    while True:
        try:
            sweep()
        except DatabaseError as error:
            log.warning("the job sweep waits for the database: %s", error)
        except Exception:
            log.exception("the job sweep failed and goes on")
        finally:
            close_old_connections()
        time.sleep(SWEEP_SECONDS)


def sweep() -> tuple[int, int]:
    """One pass; gives how many jobs were handed on and how many were sent again."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # A process that freezes here must not keep the others from sweeping for long.
            cursor.execute(f"set local idle_in_transaction_session_timeout = {FROZEN_AFTER_MS}")
            cursor.execute("select pg_try_advisory_xact_lock(%s)", [ADVISORY_LOCK])
            row = cursor.fetchone()
        if not row or not row[0]:
            return 0, 0
        lost = _hand_on_lost()
        due = _due()
    queued: dict[str, set[str] | None] = {}
    sent = 0
    for job in due:
        if job.queue not in queued:
            queued[job.queue] = _ids_in(job.queue)
        present = queued[job.queue]
        # A message that waits in its queue must not be doubled, however long the queue is.
        if present is None or str(job.pk) in present:
            continue
        send(job)
        sent += 1
    return lost, sent


def _ids_in(queue: str) -> set[str] | None:
    """Ids of the jobs whose messages wait in a queue; None when that cannot be told.

    A message that a worker took and never worked on is not among them, so its job is sent again;
    what that doubles does no harm, since a job is claimed only once.
    """
    try:
        messages = live.connection().lrange(queue, 0, MESSAGES_READ)
    except redis.RedisError as error:
        log.warning("the job sweep waits for the broker: %s", error)
        return None
    if len(messages) > MESSAGES_READ:
        return None
    return {str(json.loads(message)["headers"]["id"]) for message in messages}


def _hand_on_lost() -> int:
    now = timezone.now()
    lost = list(
        Job.objects.select_for_update(skip_locked=True)
        .filter(state=JobState.RUNNING, lease_until__lt=now)
        .order_by("pk")[:BATCH]
    )
    for job in lost:
        try:
            with transaction.atomic():
                _hand_on(job)
        except DatabaseError:
            raise
        except Exception:
            # An `ended` function of ours is broken: that must not keep all other jobs waiting.
            log.exception("job %s could not be ended; it is tried again in a minute", job.pk)
            Job.objects.filter(pk=job.pk).update(lease_until=now + ENDED_FAULT_PAUSE)
    return len(lost)


def _hand_on(job: Job) -> None:
    if job.cancel_requested_at:
        finish(job, JobState.CANCELLED, message="Cancelled; its worker was lost.")
    elif job.attempt >= job.max_attempts:
        finish(
            job,
            JobState.ERRORED,
            code="worker_lost",
            message=f"The worker was lost in attempt {job.attempt}, the last one.",
            hint="Look at the worker's log and memory, then retry the job.",
        )
    else:
        job.state = JobState.QUEUED
        job.lease_until = job.sent_at = None
        job.not_before = timezone.now()
        job.save(update_fields=["state", "lease_until", "sent_at", "not_before"])
        add_line(job, f"Worker {job.worker} was lost; the job goes on.", level="warning")
        announce(job)


def _due() -> list[Job]:
    """Queued jobs whose time has come and whose message was not sent, or long enough ago."""
    now = timezone.now()
    just_now = now - RESEND_AFTER / 5
    return list(
        Job.objects.filter(state=JobState.QUEUED, not_before__lte=now)
        .filter(
            Q(sent_at__isnull=True, created_at__lt=just_now) | Q(sent_at__lt=now - RESEND_AFTER)
        )
        .order_by("not_before")[:BATCH]
    )
