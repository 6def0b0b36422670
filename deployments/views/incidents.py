"""Incidents: the list, one with its timeline beside the charts, and what people do with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from console.selectors.paging import page_of
from console.templatetags.console_formats import machine_time
from deployments.documents.incident_words import line_words
from deployments.incident_forms import CommentForm, IncidentFilterForm, ResolveForm
from deployments.models import Incident, IncidentState
from deployments.selectors.incidents.pages import (
    IncidentFilter,
    IncidentPage,
    find_incident,
    incident_list,
    incident_page,
)
from deployments.selectors.incidents.spells import spells_of
from deployments.selectors.traffic.endpoint_pages import endpoint_page
from deployments.services.incidents.acts import acknowledge, comment, resolve
from deployments.services.incidents.records import TOPIC
from deployments.views.rollbacks import act_context
from models_registry.models import Environment

CHARTS = (
    ("requests", "/s", "area"),
    ("errors", "%", "line"),
    ("latency_p99", "ms", "line"),
)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All incidents, newest first; the table alone when htmx asks for it."""
    form = IncidentFilterForm(request.GET)
    form.is_valid()
    wanted = IncidentFilter(**{name: form.cleaned_data.get(name, "") for name in form.fields})
    page = page_of(
        incident_list(wanted, user=user_of(request)), cursor=request.GET.get("cursor", "")
    )
    context = {
        "form": form,
        "wanted": wanted,
        "incidents": page.rows,
        "environments": Environment.objects.order_by("name")[:50],
        "here": request.get_full_path(),
        "topic": TOPIC,
        **page.links(request.GET),
    }
    fragment = bool(request.headers.get("HX-Request"))
    template = "deployments/incidents/_list.html" if fragment else "deployments/incidents/list.html"
    return render(request, template, context)


@require_safe
def detail(request: HttpRequest, incident_id: uuid.UUID) -> HttpResponse:
    """One incident; its state and timeline alone when htmx asks for them."""
    incident = find_incident(incident_id, user=user_of(request))
    context = _context(request, incident)
    if request.headers.get("HX-Request"):
        return render(request, "deployments/incidents/_incident.html", context)
    now, user = timezone.now(), user_of(request)
    endpoint = incident.endpoint
    page = endpoint_page(endpoint.environment.name, endpoint.model.name, now=now, user=user)
    context |= {
        **act_context(request, page),
        "page": page,
        "charts": [_chart(context["shown"], *one) for one in CHARTS],
        "resolve_form": ResolveForm(),
        "comment_form": CommentForm(),
        "current_environment": {
            "name": endpoint.environment.name,
            "is_production": endpoint.environment.name == "production",
        },
    }
    return render(request, "deployments/incidents/detail.html", context)


@require_POST
def acknowledge_incident(request: HttpRequest, incident_id: uuid.UUID) -> HttpResponse:
    """Say that one sees to it."""
    return _done(
        request,
        incident_id,
        lambda: acknowledge(incident_id=incident_id, actor=actor_of(request)),
        _("You see to it. Others can tell by your name."),
    )


@require_POST
def resolve_incident(request: HttpRequest, incident_id: uuid.UUID) -> HttpResponse:
    """Close it with a summary."""
    summary = request.POST.get("summary", "")
    return _done(
        request,
        incident_id,
        lambda: resolve(incident_id=incident_id, summary=summary, actor=actor_of(request)),
        _("The incident is resolved."),
    )


@require_POST
def comment_incident(request: HttpRequest, incident_id: uuid.UUID) -> HttpResponse:
    """Write a line into the timeline."""
    text = request.POST.get("text", "")
    return _done(
        request,
        incident_id,
        lambda: comment(incident_id=incident_id, text=text, actor=actor_of(request)),
        _("It stands in the timeline."),
    )


def _done(
    request: HttpRequest, incident_id: uuid.UUID, act: Callable[[], object], words: str
) -> HttpResponse:
    try:
        act()
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, words)
    return redirect("deployments:incident-detail", incident_id)


def _context(request: HttpRequest, incident: Incident) -> dict[str, Any]:
    before = _moment(request.GET.get("before", ""))
    shown = incident_page(incident, now=timezone.now(), before=before)
    actor, endpoint = actor_of(request), incident.endpoint
    may = allowed(actor, "incident.handle", endpoint.model.team_id)
    unresolved = incident.state != IncidentState.RESOLVED
    return {
        "incident": incident,
        "shown": shown,
        "spells": spells_of([incident])[incident.pk],
        "lines": [line_words(line) for line in shown.lines],
        "before_query": f"?{urlencode({'before': before.isoformat()})}" if before else "",
        "earlier_query": f"?{urlencode({'before': shown.earlier.isoformat()})}"
        if shown.earlier
        else "",
        "topic": f"endpoint:{endpoint}",
        "environment": endpoint.environment.name,
        "model": endpoint.model.name,
        "may_acknowledge": may and incident.state == IncidentState.OPEN,
        "may_resolve": may and unresolved,
        "may_comment": may,
    }


def _moment(text: str) -> datetime | None:
    """The moment of an address; what cannot be read shows the newest lines."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _chart(shown: IncidentPage, name: str, unit: str, kind: str) -> dict[str, Any]:
    titles = {
        "requests": _("Requests"),
        "errors": _("Errors"),
        "latency_p99": _("Latency P99"),
    }
    endpoint = shown.incident.endpoint
    here = {"environment": endpoint.environment.name, "model": endpoint.model.name, "name": name}
    span = f"from={machine_time(shown.start)}"
    over = shown.end is not None and shown.end <= timezone.now()
    if shown.end is not None and over:
        span += f"&to={machine_time(shown.end)}"
    return {
        "id": name.replace("_", "-"),
        "url": f"{reverse('api:endpoint-chart', kwargs=here)}?{span}",
        "title": titles[name],
        "unit": unit,
        "kind": kind,
        "live": 0 if over else 5,
    }
