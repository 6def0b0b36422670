"""What the pages and the API show of jobs."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q, QuerySet

from console.errors import NotFound
from console.models import Job, JobLine, JobState, User
from console.selectors.visibility import jobs_shown_to

LINES_SHOWN = 500


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What to list; an empty value filters nothing."""

    state: str = ""
    kind: str = ""
    subject: str = ""
    person: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.state or self.kind or self.subject or self.person or self.q)


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step of the attempt shown; `state` is done, current, failed or todo."""

    label: str
    state: str
    at: datetime


@dataclass(frozen=True, slots=True)
class JobPage:
    """A job with the end of its log, and the steps of its newest attempt."""

    job: Job
    steps: list[JobStep]
    lines: list[JobLine]
    attempts: list[int] = field(default_factory=list)


def job_list(wanted: JobFilter, *, user: User) -> QuerySet[Job]:
    """Jobs that match, newest first, with who asked for them (one query).

    Those about a model that the user may not see are left out.

    `state` may also be `active` (queued or running) or `ended_badly` (failed or errored).
    """
    jobs = jobs_shown_to(Job.objects.select_related("requested_by"), user)
    jobs = jobs.order_by("-created_at", "-pk")
    if wanted.state == "active":
        jobs = jobs.filter(state__in=[JobState.QUEUED, JobState.RUNNING])
    elif wanted.state == "ended_badly":
        jobs = jobs.filter(state__in=[JobState.FAILED, JobState.ERRORED])
    elif wanted.state:
        jobs = jobs.filter(state=wanted.state)
    if wanted.kind:
        jobs = jobs.filter(kind=wanted.kind)
    if wanted.subject:
        jobs = jobs.filter(subject__startswith=wanted.subject)
    if wanted.person:
        jobs = jobs.filter(requested_by__username=wanted.person)
    if wanted.q:
        jobs = jobs.filter(
            Q(subject__icontains=wanted.q)
            | Q(kind__icontains=wanted.q)
            | Q(error_message__icontains=wanted.q)
        )
    return jobs


def find_job(job_id: uuid.UUID, *, user: User) -> Job:
    """One job with its people (one query). Raises NotFound, also for what is not to be seen."""
    jobs = Job.objects.select_related("requested_by", "cancel_requested_by").filter(pk=job_id)
    job = jobs_shown_to(jobs, user).first()
    if job is None:
        raise NotFound("There is no such job.", hint="Look for it in the list of jobs.")
    return job


def job_page(job: Job) -> JobPage:
    """The job's log (its last 500 lines), its attempts and the steps of the newest (one query)."""
    newest = list(JobLine.objects.filter(job_id=job.pk).order_by("-pk")[:LINES_SHOWN])
    lines = newest[::-1]
    own = [line for line in lines if line.level == "step" and line.attempt == job.attempt]
    return JobPage(
        job=job,
        steps=[
            JobStep(line.text, _state_of_step(job, is_last=line is own[-1]), line.at)
            for line in own
        ],
        lines=lines,
        attempts=sorted({line.attempt for line in lines if line.attempt}),
    )


def _state_of_step(job: Job, *, is_last: bool) -> str:
    if not is_last or job.state == JobState.SUCCEEDED:
        return "done"
    if job.state == JobState.RUNNING:
        return "current"
    return "todo" if job.state == JobState.QUEUED else "failed"
