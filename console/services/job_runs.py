"""Running a job: claim with a fencing token, a lease that is renewed, and its endings."""

from __future__ import annotations

import logging
import os
import random
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import (
    DatabaseError,
    InterfaceError,
    OperationalError,
    close_old_connections,
    connection,
    connections,
    transaction,
)
from django.db.models import F, QuerySet
from django.utils import timezone

from console.actors import Actor
from console.errors import CovenantError, Unavailable
from console.models import Job, JobState
from console.rules.jobs import HEARTBEAT_SECONDS, LEASE, LOOK_SECONDS, retry_delay
from console.services.jobs import add_line, announce, finish

PROGRESS_GRAIN_SECONDS = 0.25
FROZEN_AFTER_MS = 15_000
_FIGURES = re.compile(r"\d+")

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
        self._thread = threading.Thread(target=self._watch, name=f"lease-{job.pk}", daemon=True)

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
        """Report how far it is (0..1) and what it does; stored at once when the step changes.

        A step whose words change (not only its figures) opens a new step on the job's page.
        """
        self.check()
        step = step[:120]
        now = time.monotonic()
        if step == self.job.step and now - self._last_progress < PROGRESS_GRAIN_SECONDS:
            return
        self._last_progress = now
        opened = _FIGURES.sub("#", step) != _FIGURES.sub("#", self.job.step)
        self.job.progress, self.job.step = min(max(share, 0.0), 1.0), step
        self._update(progress=self.job.progress, step=self.job.step)
        if opened:
            add_line(self.job, step, level="step")
        announce(self.job)

    def log(self, text: str, *, level: str = "info") -> None:
        """Add a line to the job's log; `level` is info, warning or error."""
        if self._lost.is_set():
            raise LeaseLost
        add_line(self.job, text, level=level)

    def checkpoint(self, **values: Any) -> None:
        """Keep JSON values that a later attempt starts from (`job.checkpoint`)."""
        self.job.checkpoint = {**self.job.checkpoint, **values}
        self._update(checkpoint=self.job.checkpoint)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that commits only while this attempt still owns the job (fencing).

        The job's row stays locked until it ends, so keep it short and do no network in it.
        """
        with transaction.atomic():
            with connection.cursor() as cursor:
                # A worker that freezes here keeps the row locked, and the sweep from handing it on.
                cursor.execute(f"set local idle_in_transaction_session_timeout = {FROZEN_AFTER_MS}")
            if not self._owned().select_for_update().exists():
                self._lost.set()
                raise LeaseLost
            yield

    def start(self) -> None:
        """Begin to renew the lease, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing the lease."""
        self._done.set()
        self._thread.join(timeout=5)

    def cancel_was_asked(self) -> bool:
        """Whether somebody asked for the job to stop, as the database knows it now."""
        return self._owned().filter(cancel_requested_at__isnull=False).exists()

    def _owned(self) -> QuerySet[Job]:
        return Job.objects.filter(pk=self.job.pk, attempt=self.attempt, state=JobState.RUNNING)

    def _update(self, **fields: Any) -> None:
        if not self._owned().update(**fields):
            self._lost.set()
            raise LeaseLost

    def _watch(self) -> None:
        """Renew the lease and look for a cancel until done.

        A database that is away for less than a lease is no loss; after that the lease has run out
        whatever became of it, so the attempt must stop.
        """
        renewed = time.monotonic()
        try:
            while not self._done.wait(LOOK_SECONDS) and not self._lost.is_set():
                try:
                    if time.monotonic() - renewed >= HEARTBEAT_SECONDS:
                        before = time.monotonic()
                        self._update(lease_until=timezone.now() + LEASE)
                        renewed = before
                    if self.cancel_was_asked():
                        self._cancelled.set()
                except LeaseLost:
                    return
                except DatabaseError as error:
                    log.warning("job %s: its lease was not renewed: %s", self.job.pk, error)
                    connections.close_all()
                    if time.monotonic() - renewed > LEASE.total_seconds():
                        self._lost.set()
        finally:
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
        _run_to_an_ending(run, handler)
    except LeaseLost:
        log.warning("job %s: attempt %s lost its lease and stopped", job.pk, run.attempt)
    except DatabaseError:
        # The ending could not be written: the lease runs out and the sweep hands the job on.
        log.exception("job %s: attempt %s could not write its ending", job.pk, run.attempt)
    finally:
        run.stop()


def claim(job_id: uuid.UUID) -> Job | None:
    """Take a due, queued job by a conditional update; its attempt number is the fencing token."""
    now = timezone.now()
    worker = f"{socket.gethostname()}:{os.getpid()}"
    taken = Job.objects.filter(pk=job_id, state=JobState.QUEUED, not_before__lte=now).update(
        state=JobState.RUNNING,
        attempt=F("attempt") + 1,
        lease_until=now + LEASE,
        worker=worker[:120],
        started_at=now,
        step="",
    )
    if not taken:
        return None
    job = Job.objects.select_related("requested_by").get(pk=job_id)
    add_line(job, f"Attempt {job.attempt} starts on {job.worker}.")
    announce(job)
    return job


def _run_to_an_ending(run: JobRun, handler: Handler) -> None:
    try:
        run.check()
        result = handler(run)
        run.check()
        with run.transaction():
            finish(run.job, JobState.SUCCEEDED, result=result)
    except JobCancelled:
        _end(run, JobState.CANCELLED, message="Cancelled.")
    except Unavailable as error:
        _retry_or_fail(run, error)
    except CovenantError as error:
        _fail(run, error)
    except (OperationalError, InterfaceError) as error:
        log.warning("job %s: the database went away: %s", run.job.pk, error)
        close_old_connections()
        _retry_or_fail(run, Unavailable("The database went away.", code="database_unavailable"))
    except Exception:
        reference = uuid.uuid4().hex[:8]
        log.exception("job %s errored (reference %s)", run.job.pk, reference)
        _end(
            run,
            JobState.ERRORED,
            code="internal_error",
            message=f"Something went wrong inside Covenant (reference {reference}).",
            hint="Retry it once; if it errors again, give the reference to your platform admin.",
        )


def _retry_or_fail(run: JobRun, error: Unavailable) -> None:
    if error.retryable and run.attempt < run.job.max_attempts:
        _requeue(run, error)
    else:
        _fail(run, error)


def _fail(run: JobRun, error: CovenantError) -> None:
    _end(run, JobState.FAILED, code=error.code, message=error.message, hint=error.hint)


def _end(run: JobRun, state: JobState, *, message: str, code: str = "", hint: str = "") -> None:
    with run.transaction():
        # What broke because somebody stopped it did not fail by itself.
        if state != JobState.CANCELLED and run.cancel_was_asked():
            finish(run.job, JobState.CANCELLED, message="Cancelled.")
        else:
            finish(run.job, state, message=message, code=code, hint=hint)


def _requeue(run: JobRun, error: Unavailable) -> None:
    """Back into the queue after a pause; the sweep sends the job when that is over."""
    delay = retry_delay(run.attempt, random.random())  # noqa: S311 - jitter, not a secret
    job = run.job
    with run.transaction():
        if run.cancel_was_asked():
            finish(job, JobState.CANCELLED, message="Cancelled.")
            return
        job.state = JobState.QUEUED
        job.lease_until = job.sent_at = None
        job.not_before = timezone.now() + delay
        job.error_code, job.error_message, job.error_hint = error.code, error.message, error.hint
        job.save(
            update_fields=[
                "state",
                "lease_until",
                "sent_at",
                "not_before",
                "error_code",
                "error_message",
                "error_hint",
            ]
        )
        add_line(
            job,
            f"{error.message} Trying again in {delay.total_seconds():.0f} s.",
            level="warning",
        )
        announce(job)
