"""Diagnoses: the list, one with its five steps, and asking for one."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from console.selectors.paging import page_of
from deployments.diagnosis_forms import DiagnosisFilterForm
from deployments.documents.diagnosis_words import cause_of, told_step
from deployments.models import Diagnosis, DiagnosisState, Node
from deployments.rules.diagnosis.findings import Step, serves
from deployments.selectors.diagnosis.diagnoses import (
    DiagnosisFilter,
    diagnosis_list,
    find_diagnosis,
    node_for,
)
from deployments.services.diagnosis.asking import request_diagnosis
from models_registry.selectors.versions import find_version


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """All diagnoses, newest first; a form asks for one."""
    if request.method == "POST":
        return _ask(request)
    form = DiagnosisFilterForm(request.GET)
    form.is_valid()
    wanted = DiagnosisFilter(**{name: form.cleaned_data.get(name, "") for name in form.fields})
    page = page_of(
        diagnosis_list(wanted, user=user_of(request)), cursor=request.GET.get("cursor", "")
    )
    context = {
        "form": form,
        "wanted": wanted,
        "rows": [(one, _cause(one)) for one in page.rows],
        "nodes": Node.objects.order_by("name").values_list("name", flat=True)[:200],
        **page.links(request.GET),
    }
    return render(request, "deployments/diagnoses/list.html", context)


@require_safe
def detail(request: HttpRequest, diagnosis_id: uuid.UUID) -> HttpResponse:
    """One diagnosis; its steps alone when htmx asks for them."""
    diagnosis = find_diagnosis(diagnosis_id, user=user_of(request))
    version = diagnosis.version
    steps = [Step.from_json(one) for one in diagnosis.steps]
    context = {
        "diagnosis": diagnosis,
        "version": version,
        "steps": [told_step(one) for one in steps],
        "cause": cause_of(steps, diagnosis.cause),
        "serves": serves(steps),
        "failing": diagnosis.automatic or diagnosis.state == DiagnosisState.FOUND,
        "running": diagnosis.state == DiagnosisState.RUNNING,
        "may_ask": allowed(actor_of(request), "diagnosis.run", version.model.team_id)
        and diagnosis.state != DiagnosisState.RUNNING,
        "topic": f"version:{version.model.name}/{version.number}",
        "facts": _facts(diagnosis),
    }
    fragment = bool(request.headers.get("HX-Request"))
    name = "_diagnosis.html" if fragment else "detail.html"
    return render(request, f"deployments/diagnoses/{name}", context)


def _ask(request: HttpRequest) -> HttpResponse:
    raw = request.POST.get("version", "")
    if not raw.isdecimal() or len(raw) > 9:
        raise Http404
    version = find_version(request.POST.get("model", ""), int(raw), user=user_of(request))
    try:
        diagnosis = request_diagnosis(
            version=version,
            node=node_for(version, request.POST.get("node", "")),
            actor=actor_of(request),
            try_load=request.POST.get("try_load", "on") == "on",
        )
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
        here = reverse("models_registry:version-detail", args=[version.model.name, version.number])
        return redirect(here)
    messages.success(request, _("The node looks into it; the findings come in as it goes."))
    return redirect("deployments:diagnosis-detail", diagnosis.pk)


def _cause(diagnosis: Diagnosis) -> str:
    steps = [Step.from_json(one) for one in diagnosis.steps]
    found = cause_of(steps, diagnosis.cause) if diagnosis.cause else None
    return found.title if found is not None else ""


def _facts(diagnosis: Diagnosis) -> list[tuple[str, Any]]:
    facts = diagnosis.facts
    opset = (facts.get("opsets") or {}).get("")
    pairs = [
        (_("Triton model"), facts.get("triton_model")),
        (_("Server"), facts.get("server")),
        (_("Opset"), opset),
        (_("IR version"), facts.get("ir_version")),
        (_("Looked into with ONNX Runtime"), facts.get("runtime")),
    ]
    return [(label, value) for label, value in pairs if value]
