"""Silences: which are in force, a new one, ending one before its time."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError
from console.selectors.paging import page_of
from deployments.alert_forms import SilenceForm
from deployments.selectors.alerts.pages import silence_list
from deployments.services.alerts.records import TOPIC
from deployments.services.alerts.silences import create_silence, end_silence

FIELDS = ("rule", "severity", "environment", "model", "node", "label")


@require_http_methods(["GET", "HEAD", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """The silences in force or to come, and those that are over; POST makes one."""
    if request.method != "POST":
        given = {name: request.GET[name] for name in FIELDS if request.GET.get(name)}
        return _page(request, SilenceForm(initial=given))
    form = SilenceForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        silence = create_silence(**form.values(timezone.now()), actor=actor_of(request))
    except CovenantError as error:
        form.add_refusal(error)
        return _page(request, form, status=error.status)
    words = _("It is quiet until %(until)s, and ends by itself.")
    until = f"{timezone.localtime(silence.ends_at):%Y-%m-%d %H:%M}"
    messages.success(request, words % {"until": until})
    return redirect("deployments:silence-list")


@require_POST
def end(request: HttpRequest, silence_id: uuid.UUID) -> HttpResponse:
    """End one before its time."""
    try:
        end_silence(silence_id=silence_id, actor=actor_of(request))
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, _("The silence is over. What still fires is told."))
    return redirect("deployments:silence-list")


def _page(request: HttpRequest, form: SilenceForm, *, status: int = 200) -> HttpResponse:
    now, user = timezone.now(), user_of(request)
    over = request.GET.get("over") == "1"
    page = page_of(
        silence_list(user=user, now=now, over=over), cursor=request.GET.get("cursor", "")
    )
    context = {
        "form": form,
        "silences": page.rows,
        "over": over,
        "now": now,
        "may_silence": allowed(actor_of(request), "alert.silence"),
        "topic": TOPIC,
        **page.links(request.GET),
    }
    return render(request, "deployments/alerts/silences.html", context, status=status)
