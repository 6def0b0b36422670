"""An endpoint's experiments: the list with the form that starts one, and the page of one."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import allowed, require
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotAllowed, NotFound
from deployments.experiment_forms import ExperimentForm
from deployments.models import Endpoint, ExperimentState
from deployments.rules.experiments.sequential_tests import Estimate, Verdict
from deployments.selectors.experiments.pages import (
    ExperimentView,
    experiment_list,
    find_experiment,
    view_of,
)
from deployments.selectors.fleet.readiness import ready_versions
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.experiments.acts import start_experiment, stop_experiment

SHOWN = 50


@require_http_methods(["GET", "POST"])
def index(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """What was tried and what it said; POST starts an experiment."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    actor = actor_of(request)
    versions = sorted(ready_versions(endpoint))
    form = ExperimentForm(request.POST or None, versions=versions)
    if request.method == "POST":
        require(actor, "experiment.manage", endpoint.model.team_id)
        if form.is_valid():
            try:
                made = start_experiment(
                    environment=environment, model=model, actor=actor, **form.cleaned_data
                )
            except (NotFound, NotAllowed):
                raise
            except CovenantError as error:
                form.add_refusal(error)
            else:
                return redirect("deployments:experiment-detail", environment, model, made.pk)
    found = list(experiment_list(environment, model, user=user_of(request))[:SHOWN])
    context = {
        **_frame(request, endpoint),
        "experiments": found,
        "running": any(one.state == ExperimentState.RUNNING for one in found),
        "versions": versions,
        "form": form,
        "call": _call("purchase"),
    }
    wrong = request.method == "POST"
    return render(
        request, "deployments/experiments/list.html", context, status=422 if wrong else 200
    )


@require_safe
def detail(
    request: HttpRequest, environment: str, model: str, experiment_id: uuid.UUID
) -> HttpResponse:
    """One experiment; the part that changes alone when htmx asks."""
    experiment = find_experiment(environment, model, experiment_id, user=user_of(request))
    view = view_of(experiment, now=timezone.now())
    context = {
        **_frame(request, experiment.endpoint),
        **_evidence(view),
        "experiment": experiment,
        "settings": view.settings,
        "call": _call(view.settings.outcome),
        "margin": _margin(view),
        "confidence": f"{100 * view.settings.confidence:g} %",
        "under_way": experiment.state == ExperimentState.RUNNING,
        "chart_url": reverse(
            "api:experiment-chart",
            kwargs={
                "environment": environment,
                "model": model,
                "experiment_id": experiment.pk,
            },
        ),
    }
    fragment = bool(request.headers.get("HX-Request"))
    template = "_experiment.html" if fragment else "detail.html"
    return render(request, f"deployments/experiments/{template}", context)


@require_POST
def stop(
    request: HttpRequest, environment: str, model: str, experiment_id: uuid.UUID
) -> HttpResponse:
    """End an experiment; the traffic stays as it is."""
    try:
        stop_experiment(
            environment=environment,
            model=model,
            experiment_id=experiment_id,
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
        )
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    return redirect("deployments:experiment-detail", environment, model, experiment_id)


def _frame(request: HttpRequest, endpoint: Endpoint) -> dict[str, Any]:
    environment = endpoint.environment.name
    return {
        "nav_section": "endpoints",
        "environment": environment,
        "model": endpoint.model.name,
        "may_manage": allowed(actor_of(request), "experiment.manage", endpoint.model.team_id),
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }


def _call(outcome: str) -> str:
    """How a caller reports an outcome."""
    reported = [{"request_id": "…", "name": outcome}]
    return f"POST /v1/outcomes\n\n{json.dumps(reported, ensure_ascii=False)}"


def _evidence(view: ExperimentView) -> dict[str, Any]:
    found = view.evidence
    return {
        "verdict": found.verdict.value,
        "sentence": _sentence(view),
        "sides": [
            {"role": role, "side": side, "conversion": _interval(side.conversion, "%")}
            for role, side in ((_("Baseline"), found.baseline), (_("Candidate"), found.candidate))
        ],
        "difference": _interval(found.difference, _("points")),
        "has_points": bool(found.points),
    }


def _sentence(view: ExperimentView) -> str:
    """What may be said now, in one sentence."""
    found = view.evidence
    if found.difference is None:
        return _(
            "Too few answers or outcomes to say anything yet: it takes 100 answers of each "
            "version and 20 outcomes, and an answer counts only once its time for an outcome is "
            "over."
        )
    words = {
        Verdict.WORSE: _("The candidate converts less, by more than the margin of %(margin)s."),
        Verdict.BETTER: _("The candidate converts more."),
        Verdict.NOT_WORSE: _("If the candidate converts less, then by less than %(margin)s."),
        Verdict.OPEN: _(
            "It is open whether the candidate converts less by the margin of %(margin)s or not."
        ),
        Verdict.TOO_FEW: "",
    }[found.verdict]
    return words % {"margin": _margin(view)}


def _margin(view: ExperimentView) -> str:
    points = 100 * view.settings.margin
    words = ngettext("%(n)s percentage point", "%(n)s percentage points", 1 if points == 1 else 2)
    return words % {"n": f"{points:g}"}


def _interval(found: Estimate | None, unit: str) -> dict[str, str] | None:
    if found is None:
        return None
    digits = {name: f"{100 * getattr(found, name):.2f}" for name in ("value", "low", "high")}
    return {
        "value": f"{digits['value']} {unit}",
        "range": _("%(low)s to %(high)s") % {"low": digits["low"], "high": digits["high"]},
    }
