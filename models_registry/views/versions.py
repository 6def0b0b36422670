"""One version: where it comes from, what validation found, how it is run, what it changes."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotFound
from console.models import Job, JobState
from models_registry.models import (
    ContractState,
    ModelVersion,
    ReleaseState,
    ServiceContract,
    VersionState,
)
from models_registry.rules.error_distribution import distribution, position
from models_registry.selectors.model_events import subject_events
from models_registry.selectors.releases import environment_list
from models_registry.selectors.versions import (
    VersionPage,
    find_version,
    version_list,
    version_page,
)
from models_registry.services import artifacts
from models_registry.services.versions import archive_version
from models_registry.views.events import timeline
from models_registry.views.optimisations import panel
from models_registry.views.refusals import REFUSED, may, tell, wants_fragment
from models_registry.views.report_changes import report_changes
from models_registry.views.version_report import report_context
from models_registry.views.version_words import (
    FORMAT_WORDS,
    difference,
    range_text,
    settings_rows,
    shape_text,
    small,
)

UNDER_WAY = (VersionState.UPLOADED, VersionState.EXPORTING, VersionState.VALIDATING)
OPEN = (ReleaseState.PROPOSED, ReleaseState.APPROVED)


@require_safe
def detail(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """One version; the changing part alone when htmx asks."""
    page = version_page(name, number, user=user_of(request))
    version = page.version
    progress_of = _progress(request, version)
    context = {
        **_frame(request, page),
        **report_context(version, progress_of["stopped_error"]),
        "graph": _graph(version),
        "events": timeline(subject_events(str(version)), with_subject=False),
        **progress_of,
        **panel(request, version),
    }
    fragment = wants_fragment(request)
    template = (
        "models_registry/versions/_version.html"
        if fragment
        else "models_registry/versions/detail.html"
    )
    return render(request, template, context)


@require_safe
def progress(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """How far export and validation are; a fragment."""
    version = find_version(name, number, user=user_of(request))
    context = {"version": version, "model": version.model, **_progress(request, version)}
    return render(request, "models_registry/versions/_progress.html", context)


@require_safe
def config(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The rendered config.pbtxt with the origin of each value."""
    page = version_page(name, number, user=user_of(request))
    stored = page.version.config
    text = artifacts.read_bytes(stored).decode() if stored else ""
    context = {
        **_frame(request, page),
        "settings": settings_rows(page.version.config_origins),
        "text": text,
    }
    return render(request, "models_registry/versions/config.html", context)


@require_safe
def diff(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """What differs from another version of the model, by default the one before."""
    page = version_page(name, number, user=user_of(request))
    asked = request.GET.get("against", "")
    against = int(asked) if asked.isdecimal() and len(asked) < 9 else page.previous
    other = (
        find_version(name, against, user=user_of(request))
        if against and against != number
        else None
    )
    others = version_list(name, user=user_of(request)).exclude(number=number).order_by("-number")
    context = {
        **_frame(request, page),
        "other": other,
        "others": others.values_list("number", flat=True)[:200],
        "reports": report_changes(other, page.version) if other else None,
        "sections": difference(other, page.version) if other else [],
    }
    return render(request, "models_registry/versions/diff.html", context)


@require_safe
def errors(request: HttpRequest, name: str, number: int, output: int) -> JsonResponse:
    """The errors of one output over all comparisons, for the chart."""
    version = find_version(name, number, user=user_of(request))
    equivalence = (version.report or {}).get("equivalence", {})
    outputs = equivalence.get("outputs", [])
    if output >= len(outputs):
        raise NotFound(f"The report of {version} compares {len(outputs)} outputs.")
    limit = float(outputs[output].get("atol", equivalence.get("atol", 0)))
    bins = distribution(outputs[output].get("errors", []), limit)
    return JsonResponse(
        {
            "bars": [{"label": one.label, "count": one.count} for one in bins],
            "limit": {"position": position(bins, limit), "label": f"atol {small(limit)}"},
        }
    )


@require_POST
def archive(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Archive a version that no release needs."""
    try:
        archive_version(
            version=find_version(name, number, user=user_of(request)),
            reason=request.POST.get("reason", "").strip(),
            actor=actor_of(request),
        )
    except REFUSED as error:
        tell(request, error)
    else:
        messages.success(request, _("The version is archived."))
    return redirect("models_registry:version-detail", name, number)


def _frame(request: HttpRequest, page: VersionPage) -> dict[str, Any]:
    """What the head, the tabs and the acts of all pages of a version need."""
    version, actor = page.version, actor_of(request)
    contract = ServiceContract.objects.filter(
        model=version.model, state=ContractState.IN_FORCE
    ).first()
    taken = {one.environment_id for one in page.releases if one.state in OPEN}
    validated = version.state == VersionState.VALIDATED
    return {
        "page": page,
        "version": version,
        "model": version.model,
        "aliases": list(version.aliases.all()),
        "format_words": FORMAT_WORDS.get(version.source_format, version.source_format),
        "contract": contract,
        "environments": [
            {
                "row": one,
                "taken": one.pk in taken,
                "lacks_contract": one.requires_contract and contract is None,
            }
            for one in environment_list()
        ],
        "may_request": validated
        and (allowed(actor, "release.request", version.model.team_id) and _asks(request, version)),
        "may_create": allowed(actor, "version.create", version.model.team_id),
        "may_propose": bool(version.facts) and may(actor, "contract.propose", version.model),
        "may_archive": version.state in (VersionState.VALIDATED, VersionState.REJECTED)
        and may(actor, "version.archive", version.model),
        "topic": f"version:{version.model.name}/{version.number}",
    }


def _asks(request: HttpRequest, version: ModelVersion) -> bool:
    actor = actor_of(request)
    return allowed(actor, "deployment.create", version.model.team_id) or may(
        actor, "release.request", version.model
    )


def _progress(request: HttpRequest, version: ModelVersion) -> dict[str, Any]:
    jobs = [job for job in (version.export_job, version.validate_job) if job is not None]
    unhappy = (JobState.FAILED, JobState.ERRORED, JobState.CANCELLED)
    last = jobs[-1] if jobs else None
    stopped = last if last and last.state in unhappy else None
    actor = actor_of(request)
    return {
        "jobs": jobs,
        "under_way": version.state in UNDER_WAY,
        "steps": _steps(version),
        "running": next((job for job in jobs if job.state == JobState.RUNNING), None),
        "waiting": next((job for job in jobs if job.state == JobState.QUEUED), None),
        "stopped": stopped,
        "stopped_error": _job_error(stopped) if stopped else None,
        "may_retry": stopped is not None
        and version.state in UNDER_WAY
        and (stopped.requested_by_id == actor.user.pk or allowed(actor, "job.manage")),
        "job_topics": ",".join(f"job:{job.pk}" for job in jobs),
    }


def _job_error(job: Job) -> CovenantError:
    if job.state == JobState.CANCELLED:
        return CovenantError(_("It was cancelled."), code="cancelled", hint=job.error_hint)
    return CovenantError(job.error_message, code=job.error_code, hint=job.error_hint)


def _steps(version: ModelVersion) -> list[dict[str, Any]]:
    """Upload, export, validation as components/stepper.html shows them."""
    made = _("Make it lighter") if version.optimisation else _("Export to ONNX")
    named = ((made, version.export_job), (_("Validate"), version.validate_job))
    steps = [{"label": _("Upload"), "state": "done", "detail": version.filename}]
    for label, job in named:
        if job is None:
            steps.append({"label": label, "state": "todo", "detail": ""})
            continue
        state = {
            JobState.SUCCEEDED: "done",
            JobState.RUNNING: "current",
            JobState.QUEUED: "todo",
        }.get(JobState(job.state), "failed")
        detail = {"current": job.step, "failed": job.get_state_display()}.get(state, "")
        steps.append({"label": label, "state": state, "detail": detail})
    return steps


def _graph(version: ModelVersion) -> dict[str, Any] | None:
    facts = version.facts
    if not facts:
        return None
    operators = sorted(facts.get("operators", {}).items(), key=lambda item: (-item[1], item[0]))
    return {
        **facts,
        "tensors": [
            {**one, "side": side, "shape_text": shape_text(one), "range_text": range_text(one)}
            for side, key in ((_("input"), "inputs"), (_("output"), "outputs"))
            for one in facts.get(key, [])
        ],
        "operators": operators,
        "operator_count": sum(count for _name, count in operators),
    }
