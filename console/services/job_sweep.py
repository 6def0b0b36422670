"""The sweep: sends again what no worker picked up, hands on what a lost worker left."""

from __future__ import annotations

import logging
import threading
import time

import redis
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, transaction
from django.db.models import Q
from django.utils import timezone

from console import live
from console.models import Job, JobState
from console.rules.jobs import RESEND_AFTER
from console.services.jobs import add_line, announce, finish, send

SWEEP_SECONDS = 1.0
BATCH = 200
ADVISORY_LOCK = 7_205_001

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
    """One pass; gives how many jobs were handed on and how many sent again."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("select pg_try_advisory_xact_lock(%s)", [ADVISORY_LOCK])
            row = cursor.fetchone()
        if not row or not row[0]:
            return 0, 0
        lost = _hand_on_lost()
        due = _due()
    waiting: dict[str, bool] = {}
    sent = 0
    for job in due:
        if job.queue not in waiting:
            waiting[job.queue] = _has_messages(job.queue)
        # A queue with messages is only busy: sending again would pile up duplicates.
        if not waiting[job.queue]:
            send(job)
            sent += 1
    return lost, sent


def _has_messages(queue: str) -> bool:
    try:
        return bool(live.connection().llen(queue))
    except redis.RedisError:
        return False


def _hand_on_lost() -> int:
    now = timezone.now()
    lost = list(
        Job.objects.select_for_update(skip_locked=True)
        .filter(state=JobState.RUNNING, lease_until__lt=now)
        .order_by("pk")[:BATCH]
    )
    for job in lost:
        if job.cancel_requested_at:
            finish(job, JobState.CANCELLED, message="Cancelled; its worker was lost.")
        elif job.attempt >= job.max_attempts:
            finish(
                job,
                JobState.ERRORED,
                code="worker_lost",
                message=f"The worker was lost in each of {job.attempt} attempts.",
                hint="Look at the worker's log and memory, then retry the job.",
            )
        else:
            job.state, job.lease_until, job.sent_at, job.not_before = (
                JobState.QUEUED, None, None, now,
            )
            job.save(update_fields=["state", "lease_until", "sent_at", "not_before"])
            add_line(job, f"Worker {job.worker} was lost; the job goes on.", level="warning")
            announce(job)
    return len(lost)


def _due() -> list[Job]:
    now = timezone.now()
    return list(
        Job.objects.filter(state=JobState.QUEUED, not_before__lte=now)
        .filter(Q(sent_at__isnull=True) | Q(sent_at__lt=now - RESEND_AFTER))
        .filter(created_at__lt=now - RESEND_AFTER / 5)
        .order_by("not_before")[:BATCH]
    )
