"""Alerts: the list, one with its evidence and timeline, and what people do with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

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
from deployments.alert_forms import (
    AcknowledgeForm,
    AlertCommentForm,
    AlertFilterForm,
    SilenceForm,
)
from deployments.documents.alert_words import (
    about_of,
    evidence_words,
    line_words,
    number,
    sentence_of,
    signal_title,
)
from deployments.models import Alert, AlertState
from deployments.selectors.alerts.charts import drawn_signal, has_chart
from deployments.selectors.alerts.pages import (
    AlertFilter,
    alert_list,
    alert_page,
    counts,
    find_alert,
)
from deployments.services.alerts.acts import acknowledge, comment
from deployments.services.alerts.records import TOPIC
from models_registry.models import Environment


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """All alerts, what fires first; the table alone when htmx asks for it."""
    form = AlertFilterForm(request.GET)
    form.is_valid()
    wanted = AlertFilter(**{name: form.cleaned_data.get(name, "") for name in form.fields})
    user = user_of(request)
    page = page_of(alert_list(wanted, user=user), cursor=request.GET.get("cursor", ""))
    context = {
        "form": form,
        "wanted": wanted,
        "rows": [alert_row(one) for one in page.rows],
        "counts": counts(user),
        "here": request.get_full_path(),
        "topic": TOPIC,
        **page.links(request.GET),
    }
    if request.headers.get("HX-Request"):
        return render(request, "deployments/alerts/_list.html", context)
    context["environments"] = Environment.objects.order_by("name")[:50]
    return render(request, "deployments/alerts/list.html", context)


@require_safe
def detail(request: HttpRequest, alert_id: uuid.UUID) -> HttpResponse:
    """One alert; its live part alone when htmx asks for it."""
    alert = find_alert(alert_id, user=user_of(request))
    context = _context(request, alert)
    if request.headers.get("HX-Request"):
        return render(request, "deployments/alerts/_alert.html", context)
    context |= {
        "chart_url": reverse("api:alert-chart", args=[alert.pk]) if has_chart(alert) else "",
        "chart_title": signal_title(drawn_signal(alert)),
        "acknowledge_form": AcknowledgeForm(),
        "comment_form": AlertCommentForm(),
        "silence_form": SilenceForm(initial=_silence_of(alert), auto_id="silence_%s"),
    }
    return render(request, "deployments/alerts/detail.html", context)


@require_POST
def acknowledge_alert(request: HttpRequest, alert_id: uuid.UUID) -> HttpResponse:
    """Say that one sees to it."""
    note = request.POST.get("note", "")
    return _done(
        request,
        alert_id,
        lambda: acknowledge(alert_id=alert_id, note=note, actor=actor_of(request)),
        _("You see to it. Nobody else is called for it."),
    )


@require_POST
def comment_alert(request: HttpRequest, alert_id: uuid.UUID) -> HttpResponse:
    """Write a line into the timeline."""
    text = request.POST.get("text", "")
    return _done(
        request,
        alert_id,
        lambda: comment(alert_id=alert_id, text=text, actor=actor_of(request)),
        _("It stands in the timeline."),
    )


def alert_row(alert: Alert) -> dict[str, Any]:
    """An alert as a line of a list."""
    return {
        "alert": alert,
        "sentence": sentence_of(alert),
        "about": about_of(alert),
        "quiet": bool(alert.silenced_by_id or alert.suppressed),
        "unseen": alert.state == AlertState.FIRING and alert.acknowledged_at is None,
    }


def _context(request: HttpRequest, alert: Alert) -> dict[str, Any]:
    now, actor = timezone.now(), actor_of(request)
    page = alert_page(alert, user=user_of(request), now=now)
    team_id = alert.endpoint.model.team_id if alert.endpoint is not None else None
    may_handle = allowed(actor, "alert.handle", team_id)
    return {
        **alert_row(alert),
        "lines": [line_words(one) for one in page.events],
        "evidence": evidence_words(alert),
        "limit": number(alert.threshold, alert.unit),
        "times_before": page.times_before,
        "others": [alert_row(one) for one in page.others],
        "topic": TOPIC,
        "firing": alert.state == AlertState.FIRING,
        "may_acknowledge": may_handle
        and alert.state == AlertState.FIRING
        and alert.acknowledged_at is None,
        "may_comment": may_handle,
        "may_silence": allowed(actor, "alert.silence", team_id)
        and alert.state != AlertState.RESOLVED,
    }


def _silence_of(alert: Alert) -> dict[str, Any]:
    """The silence that keeps this alert quiet, and no more than it needs."""
    found = {"rule": alert.rule_name, "label": alert.label, "lasts": 60}
    if alert.endpoint is not None:
        found["environment"] = alert.endpoint.environment.name
        found["model"] = alert.endpoint.model.name
    elif alert.node is not None:
        found["node"] = alert.node.name
    return found


def _done(
    request: HttpRequest, alert_id: uuid.UUID, act: Callable[[], object], words: str
) -> HttpResponse:
    try:
        act()
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, words)
    return redirect("deployments:alert-detail", alert_id)
