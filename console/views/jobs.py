"""Pages of jobs."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of
from console.api.problems import problem_of
from console.errors import Conflict
from console.forms import JobFilterForm
from console.models import Job, JobState
from console.rules.jobs import KINDS
from console.selectors.jobs import JobFilter, find_job, job_list, job_page
from console.selectors.paging import page_of
from console.services.jobs import cancel_job, retry_job
from console.templatetags.console_phrases import job_kind


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All jobs, newest first; the table alone when htmx asks for it."""
    kinds = [(kind, job_kind(kind)) for kind in KINDS]
    form = JobFilterForm(request.GET, kinds=kinds)
    form.is_valid()
    wanted = JobFilter(**{name: form.cleaned_data.get(name, "") for name in form.fields})
    page = page_of(
        job_list(wanted, user=actor_of(request).user), cursor=request.GET.get("cursor", "")
    )
    for job in page.rows:
        _name(job)
    context = {
        "form": form,
        "wanted": wanted,
        "jobs": page.rows,
        "here": request.get_full_path(),
        **page.links(request.GET),
    }
    template = "console/jobs/_list.html" if _wants_fragment(request) else "console/jobs/list.html"
    return render(request, template, context)


@require_safe
def detail(request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
    """One job with its steps and log; the changing part alone when htmx asks for it."""
    job = find_job(job_id, user=actor_of(request).user)
    shown = job_page(_name(job))
    template = "console/jobs/_job.html" if _wants_fragment(request) else "console/jobs/detail.html"
    return render(request, template, {"page": shown, **_acts(request, job)})


@require_POST
def cancel(request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
    """Cancel, or ask a running job to stop."""
    try:
        job = cancel_job(
            job_id=job_id, actor=actor_of(request), reason=request.POST.get("reason", "")[:500]
        )
    except Conflict as error:
        return _refused(request, job_id, error)
    if job.state == JobState.CANCELLED:
        messages.success(request, _("The job is cancelled."))
    else:
        messages.info(request, _("The job was asked to stop; that takes a second or two."))
    return redirect("console:job-detail", job_id)


@require_POST
def retry(request: HttpRequest, job_id: uuid.UUID) -> HttpResponse:
    """Put a job that did not succeed back into its queue."""
    try:
        retry_job(job_id=job_id, actor=actor_of(request))
    except Conflict as error:
        return _refused(request, job_id, error)
    messages.success(request, _("The job is queued again; it goes on from its last checkpoint."))
    return redirect("console:job-detail", job_id)


def _refused(request: HttpRequest, job_id: uuid.UUID, error: Conflict) -> HttpResponse:
    if _wants_fragment(request):
        return problem_of(error)
    messages.error(request, f"{error.message} {error.hint}".strip())
    return redirect("console:job-detail", job_id)


def _acts(request: HttpRequest, job: Job) -> dict[str, Any]:
    actor = actor_of(request)
    own = job.requested_by_id == actor.user.pk
    may = allowed(actor, "job.manage_own" if own else "job.manage")
    ended_badly = job.state in (JobState.FAILED, JobState.ERRORED, JobState.CANCELLED)
    return {
        "job": job,
        "error": {
            "message": job.error_message,
            "hint": job.error_hint,
            "code": job.error_code,
        },
        "result": json.dumps(job.result, indent=2, ensure_ascii=False) if job.result else "",
        "may_cancel": may and not job.is_terminal and job.cancel_requested_at is None,
        "may_retry": may and ended_badly,
    }


def _name(job: Job) -> Job:
    """Add what only a page says of a job: its kind in words, and how long it took in seconds."""
    job.kind_words = job_kind(job.kind)  # type: ignore[attr-defined]
    took = job.finished_at - job.started_at if job.finished_at and job.started_at else None
    job.took = took.total_seconds() if took else None  # type: ignore[attr-defined]
    return job


def _wants_fragment(request: HttpRequest) -> bool:
    return bool(request.headers.get("HX-Request"))
