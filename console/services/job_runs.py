"""Running a job: claim with a fencing token, a lease that is renewed, and its endings."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import Error as DatabaseError
from django.db import close_old_connections, connections, transaction
from django.db.models import F
from django.utils import timezone

from console import live
from console.actors import Actor
from console.errors import CovenantError, Unavailable
from console.models import Job, JobState
from console.rules.jobs import HEARTBEAT_SECONDS, LEASE, retry_delay
from console.services.jobs import add_line, announce, finish

log = logging.getLogger(__name__)


class LeaseLost(BaseException):
    """Another attempt owns the job now; whatever this one was doing, it must not write any more.

    Not an Exception, so that no handler's `except Exception` can keep a lost attempt going.
    """


class JobCancelled(BaseException):
    """Somebody asked for the job to stop."""


class JobRun:
    """What a handler gets: the job as claimed, and the ways to report and to write."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.attempt = job.attempt
        self.actor = Actor(user=job.requested_by, source=f"job:{job.pk}")
        self._lost = threading.Event()
        self._cancelled = threading.Event()
        self._done = threading.Event()
        self._last_progress = 0.0
        self._thread = threading.Thread(target=self._renew, name=f"lease-{job.pk}", daemon=True)

    @property
    def should_stop(self) -> bool:
        """Whether the job was cancelled or its lease lost; cheap, for callbacks of long work."""
        return self._cancelled.is_set() or self._lost.is_set()

    def check(self) -> None:
        """Raise JobCancelled or LeaseLost when the handler has to stop; call between steps."""
        if self._lost.is_set():
            raise LeaseLost
        if self._cancelled.is_set():
            raise JobCancelled

    def progress(self, share: float, step: str) -> None:
        """Report how far it is (0..1) and what it does; stored at once when the step changes."""
        self.check()
        now = time.monotonic()
        if step == self.job.step and now - self._last_progress < 0.25:
            return
        self._last_progress = now
        self.job.progress, self.job.step = min(max(share, 0.0), 1.0), step[:120]
        self._update(progress=self.job.progress, step=self.job.step)
        announce(self.job)

    def log(self, text: str, *, level: str = "info") -> None:
        """Add a line to the job's log."""
        add_line(self.job, text, level=level)

    def checkpoint(self, **values: Any) -> None:
        """Keep JSON values that a later attempt starts from (`job.checkpoint`)."""
        self.job.checkpoint = {**self.job.checkpoint, **values}
        self._update(checkpoint=self.job.checkpoint)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that commits only while this attempt still owns the job (fencing)."""
        with transaction.atomic():
            owner = Job.objects.select_for_update().filter(
                pk=self.job.pk, attempt=self.attempt, state=JobState.RUNNING
            )
            if not owner.exists():
                self._lost.set()
                raise LeaseLost
            yield

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join(timeout=5)

    def _update(self, **fields: Any) -> None:
        if not _owned(self.job.pk, self.attempt).update(**fields):
            self._lost.set()
            raise LeaseLost

    def _renew(self) -> None:
        """Renew the lease until done; a database that is away for less than a lease is no loss."""
        last = time.monotonic()
        while not self._done.wait(HEARTBEAT_SECONDS):
            try:
                rows = _owned(self.job.pk, self.attempt)
                if not rows.update(lease_until=timezone.now() + LEASE):
                    self._lost.set()
                    break
                last = time.monotonic()
                if rows.filter(cancel_requested_at__isnull=False).exists():
                    self._cancelled.set()
            except DatabaseError:
                close_old_connections()
                if time.monotonic() - last > LEASE.total_seconds():
                    self._lost.set()
                    break
        connections.close_all()


Handler = Callable[[JobRun], dict[str, Any]]


def run_job(job_id: str, handler: Handler) -> None:
    """Claim the job and run its handler to one of the endings; a task's whole body.

    A job that somebody else has claimed, that has ended or that is not due is left alone, so a
    message that arrives twice does nothing the second time. The handler must be safe to run again.
    """
    job = claim(uuid.UUID(job_id))
    if job is None:
        return
    run = JobRun(job)
    run.start()
    try:
        run.check()
        result = handler(run)
        run.check()
        with run.transaction():
            finish(job, JobState.SUCCEEDED, result=result)
    except LeaseLost:
        log.warning("job %s: attempt %s lost its lease and stopped", job.pk, run.attempt)
    except JobCancelled:
        _end(run, JobState.CANCELLED, message="Cancelled.")
    except Unavailable as error:
        if error.retryable and job.attempt < job.max_attempts:
            _requeue(run, error)
        else:
            _fail(run, error)
    except CovenantError as error:
        _fail(run, error)
    except Exception:
        reference = uuid.uuid4().hex[:8]
        log.exception("job %s errored (reference %s)", job.pk, reference)
        _end(
            run,
            JobState.ERRORED,
            code="internal_error",
            message=f"Something went wrong inside Covenant (reference {reference}).",
            hint="Retry it once; if it errors again, give the reference to your platform admin.",
        )
    finally:
        run.stop()


def claim(job_id: uuid.UUID) -> Job | None:
    """Take a due, queued job: a conditional update whose new attempt number is the fencing token."""
    now = timezone.now()
    worker = f"{socket.gethostname()}:{os.getpid()}"
    taken = Job.objects.filter(pk=job_id, state=JobState.QUEUED, not_before__lte=now).update(
        state=JobState.RUNNING,
        attempt=F("attempt") + 1,
        lease_until=now + LEASE,
        worker=worker[:120],
        started_at=now,
    )
    if not taken:
        return None
    job = Job.objects.select_related("requested_by").get(pk=job_id)
    if job.attempt > 1:
        add_line(job, f"Attempt {job.attempt} starts.")
    announce(job)
    return job


def _owned(job_id: uuid.UUID, attempt: int) -> Any:
    return Job.objects.filter(pk=job_id, attempt=attempt, state=JobState.RUNNING)


def _fail(run: JobRun, error: CovenantError) -> None:
    _end(run, JobState.FAILED, code=error.code, message=error.message, hint=error.hint)


def _end(
    run: JobRun, state: JobState, *, message: str, code: str = "", hint: str = ""
) -> None:
    try:
        with run.transaction():
            finish(run.job, state, message=message, code=code, hint=hint)
    except LeaseLost:
        log.warning("job %s: the ending of attempt %s came too late", run.job.pk, run.attempt)


def _requeue(run: JobRun, error: Unavailable) -> None:
    delay = retry_delay(run.attempt, random.random())  # noqa: S311 - jitter, not a secret
    try:
        with run.transaction():
            run.job.state = JobState.QUEUED
            _owned(run.job.pk, run.attempt).update(
                state=JobState.QUEUED,
                lease_until=None,
                sent_at=None,
                not_before=timezone.now() + delay,
                error_code=error.code,
                error_message=error.message,
                error_hint=error.hint,
            )
            add_line(
                run.job,
                f"{error.message} Trying again in {delay.total_seconds():.0f} s.",
                level="warning",
            )
            announce(run.job)
    except LeaseLost:
        live.publish(f"job:{run.job.pk}", "job")
