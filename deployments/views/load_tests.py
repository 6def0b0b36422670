"""Load tests: the panel on a version's page with its form, and the page of one test."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.api.problems import remember_refusal
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import JobState
from console.templatetags.console_formats import latency, per_second, percentage, whole_number
from console.templatetags.console_phrases import phrase
from deployments.forms import LoadTestForm
from deployments.rules.trials.load_charts import CHARTS, chart
from deployments.selectors.trials.load_tests import is_under_way, load_test_panel
from deployments.services.trials.load_tests import ask_for_load_test
from models_registry.models import LoadTest, ModelVersion, VersionState
from models_registry.selectors.load_tests import find_load_test
from models_registry.selectors.releases import find_environment
from models_registry.selectors.versions import find_version
from models_registry.services.load_tests import topic_of
from models_registry.views.refusals import may

REFUSED = (Invalid, Conflict, NotAllowed, NotFound)


@require_safe
def panel(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """A version's load tests and the form that starts one; a fragment."""
    return _panel(request, find_version(name, number, user=user_of(request)))


@require_POST
def create(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Start a load test of the version."""
    version = find_version(name, number, user=user_of(request))
    # Whether the version is ready there is the service's word.
    names = [
        place.environment.name for place in load_test_panel(version, user=user_of(request)).places
    ]
    form = LoadTestForm(request.POST, environments=names)
    fragment = bool(request.headers.get("HX-Request"))
    if not form.is_valid():
        if fragment:
            return _panel(request, version, form=form, status=422)
        messages.error(request, " ".join(str(one) for line in form.errors.values() for one in line))
        return redirect("models_registry:version-detail", name, number)
    given = form.cleaned_data
    try:
        load_test, _job = ask_for_load_test(
            version=version,
            environment=find_environment(given["environment"]),
            pattern=given["pattern"],
            rate=given["rate"],
            seconds=given["seconds"],
            actor=actor_of(request),
        )
    except REFUSED as error:
        remember_refusal(request, error)
        if fragment:
            # What htmx swaps in for a refusal is a conflict or a fault of the form.
            status = error.status if error.status in (409, 422) else 409
            return _panel(request, version, form=form, refusal=error, status=status)
        messages.error(request, f"{error.message} {error.hint}".strip())
        return redirect("models_registry:version-detail", name, number)
    if fragment:
        return _panel(request, version)
    return redirect("deployments:load-test-detail", load_test.pk)


@require_safe
def detail(request: HttpRequest, load_test_id: uuid.UUID) -> HttpResponse:
    """One load test; the changing part alone when htmx asks."""
    load_test = find_load_test(load_test_id, user=user_of(request))
    version = find_version(
        load_test.version.model.name, load_test.version.number, user=user_of(request)
    )
    report, job = load_test.report, load_test.job
    charts = (
        ("rate", _("Requests: planned and answered"), "/s"),
        ("latency", _("Latency from the planned moment"), "ms"),
    )
    context = {
        "nav_section": "models",
        "load_test": load_test,
        "version": version,
        "model": version.model,
        "report": report,
        "job": job,
        "under_way": is_under_way(load_test),
        "stopped": _stopped(load_test),
        "state": state_of(load_test),
        "sentences": _sentences(load_test),
        "knee": _knee(report),
        "percentiles": _percentiles(report),
        "errors": _errors(report),
        "charts": [
            {
                "name": name,
                "title": title,
                "unit": unit,
                "url": reverse("deployments:load-test-chart", args=[load_test.pk, name]),
            }
            for name, title, unit in charts
        ],
        "may_cancel": job is not None
        and is_under_way(load_test)
        and (job.requested_by_id == actor_of(request).user.pk)
        | allowed(actor_of(request), "job.manage"),
    }
    fragment = bool(request.headers.get("HX-Request"))
    template = (
        "deployments/load_tests/_load_test.html"
        if fragment
        else "deployments/load_tests/detail.html"
    )
    return render(request, template, context)


@require_safe
def chart_data(request: HttpRequest, load_test_id: uuid.UUID, name: str) -> JsonResponse:
    """One of the two charts of a load test that has ended."""
    load_test = find_load_test(load_test_id, user=user_of(request))
    if name not in CHARTS:
        raise Http404
    if load_test.report is None:
        return JsonResponse({"series": []})
    words = {"planned": _("planned"), "answered": _("answered"), "limit": _("limit")}
    return JsonResponse(chart(load_test.report, name, words))


def state_of(load_test: LoadTest) -> str:
    """How it stands, as a check is shown: passed, failed, running, pending or skipped."""
    if load_test.passed is not None:
        return "passed" if load_test.passed else "failed"
    job = load_test.job
    if job is None or job.state == JobState.QUEUED:
        return "pending"
    return "running" if job.state == JobState.RUNNING else "skipped"


def _panel(
    request: HttpRequest,
    version: ModelVersion,
    *,
    form: LoadTestForm | None = None,
    refusal: CovenantError | None = None,
    status: int = 200,
) -> HttpResponse:
    shown, actor = load_test_panel(version, user=user_of(request)), actor_of(request)
    operator = allowed(actor, "allow_load_test", version.model.team_id)
    may_run = version.state == VersionState.VALIDATED and allowed(
        actor, "load_test.run", version.model.team_id
    )
    open_places = [one for one in shown.places if not one.why_not]
    offered = [one for one in open_places if operator or not one.environment.production]
    names = [one.environment.name for one in offered]
    # A place that is no production comes first: it is what the form should start with.
    names.sort(
        key=lambda name: any(
            p.environment.production for p in offered if p.environment.name == name
        )
    )
    context = {
        "version": version,
        "model": version.model,
        "rows": [(one, state_of(one), is_under_way(one)) for one in shown.tests],
        "running": shown.running,
        "form": form or LoadTestForm(environments=names),
        "offered": names,
        "may_run": may_run and (operator or may(actor, "load_test.run", version.model)),
        "refusal": refusal,
        "topics": ",".join([topic_of(version), *(f"job:{one.job_id}" for one in shown.running)]),
    }
    return render(request, "deployments/panels/load_tests.html", context, status=status)


def _stopped(load_test: LoadTest) -> CovenantError | None:
    """Why there is no verdict, where the job ended without one."""
    job = load_test.job
    if load_test.passed is not None or job is None or is_under_way(load_test):
        return None
    if job.state == JobState.CANCELLED:
        return CovenantError(
            _("The load test was cancelled; what was measured until then is not kept."),
            code="cancelled",
            hint=_("Start another one on the version’s page."),
        )
    return CovenantError(job.error_message, code=job.error_code, hint=job.error_hint)


def _sentences(load_test: LoadTest) -> list[str]:
    """The verdict in the reader's language: speed, then success."""
    report = load_test.report
    if report is None:
        return []
    p95 = report["latency_ms"]["p95"]
    if p95 is None:
        return [_("No request was answered.")]
    return [
        _("95 %% of %(requests)s requests were answered within %(p95)s; the limit is %(limit)s.")
        % {
            "requests": whole_number(report["requests"]["sent"]),
            "p95": latency(p95),
            "limit": latency(load_test.limit_p95_ms),
        },
        _("%(success)s succeeded; the limit is %(limit)s.")
        % {
            "success": percentage(report["success"], 4),
            "limit": percentage(load_test.limit_success, 4),
        },
    ]


def _percentiles(report: dict[str, Any] | None) -> list[tuple[str, float | None, str]]:
    if report is None:
        return []
    limit = report["limits"]["p95_ms"]
    keys = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99.9", "p99_9"))
    rows = []
    for label, key in keys:
        value = report["latency_ms"][key]
        tone = "bad" if key == "p95" and (value is None or value > limit) else ""
        rows.append((label, value, tone))
    return rows


def _knee(report: dict[str, Any] | None) -> str:
    """What the load tells about how much the version can take."""
    if report is None:
        return ""
    knee = report["knee"]
    if knee["rate"] is None:
        return _("Not even the lowest step was answered in its time.")
    figures = {"rate": per_second(knee["rate"])}
    if knee["reached"]:
        return _("The knee lies at %(rate)s: the next step was not answered in its time.") % figures
    return _("No knee was reached: %(rate)s, the most that was sent, still held.") % figures


def _errors(report: dict[str, Any] | None) -> list[dict[str, Any]]:
    if report is None:
        return []
    return [{**one, "words": _outcome(one["outcome"])} for one in report["errors"]]


def _outcome(outcome: str) -> str:
    words = {
        "timeout": _("No answer in time"),
        "connection": _("The connection broke"),
        "not_the_version": _("Another version or a fallback answered"),
        "no_outputs": _("An answer without outputs"),
    }
    if outcome.startswith("http_"):
        return _("Status %(status)s") % {"status": outcome.removeprefix("http_")}
    return words.get(outcome, phrase(outcome))
