"""Where the audit trail is forwarded to: a platform admin's page."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of
from console.audit_forms import SinkForm
from console.errors import Conflict, CovenantError, Invalid, Unavailable
from console.models import AuditSink
from console.selectors.audit import chain_state
from console.services.audit_sinks import (
    change_sink,
    create_sink,
    remove_sink,
    rotate_secret,
    try_sink,
)

PAGE = "console/audit/sinks.html"


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Each sink: where, how far it has come, what is wrong."""
    require(actor_of(request), "audit.manage")
    return _page(request, SinkForm())


@require_POST
def create(request: HttpRequest) -> HttpResponse:
    """A new sink; a webhook's secret is shown this once."""
    actor = actor_of(request)
    require(actor, "audit.manage")
    form = SinkForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        sink, secret = create_sink(**form.cleaned_data, actor=actor)
    except (Invalid, Conflict) as error:
        form.add_refusal(error)
        return _page(request, form, status=422)
    if secret:
        return _page(request, SinkForm(), made=sink, secret=secret, status=201)
    messages.success(request, _("The trail is forwarded to %(name)s.") % {"name": sink.name})
    return redirect("console:audit-sinks")


@require_POST
def rotate(request: HttpRequest, sink: str) -> HttpResponse:
    """A new secret, shown this once."""
    made, secret = rotate_secret(name=sink, actor=actor_of(request))
    return _page(request, SinkForm(), made=made, secret=secret, status=201)


@require_POST
def switch(request: HttpRequest, sink: str) -> HttpResponse:
    """Stop a sink, or start it again where it stopped."""
    enabled = request.POST.get("enabled") == "1"
    change_sink(
        name=sink,
        enabled=enabled,
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
    )
    return redirect("console:audit-sinks")


@require_POST
def remove(request: HttpRequest, sink: str) -> HttpResponse:
    """Send nothing there any more."""
    remove_sink(name=sink, reason=request.POST.get("reason", ""), actor=actor_of(request))
    messages.success(request, _("Nothing is forwarded to %(name)s any more.") % {"name": sink})
    return redirect("console:audit-sinks")


@require_POST
def test(request: HttpRequest, sink: str) -> HttpResponse:
    """Send a message that says that it is a test, and tell what came of it."""
    try:
        try_sink(name=sink, actor=actor_of(request))
    except (Invalid, Unavailable) as error:
        _tell(request, error)
    else:
        messages.success(
            request, _("A test was sent to %(name)s: look whether it arrived.") % {"name": sink}
        )
    return redirect("console:audit-sinks")


@never_cache
def _page(
    request: HttpRequest,
    form: SinkForm,
    *,
    made: AuditSink | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    state = chain_state()
    context: dict[str, Any] = {
        "form": form,
        "made": made,
        "secret": secret,
        "sinks": [
            (sink, max(0, state.entries + state.kept_after - sink.sent_sequence))
            for sink in state.sinks
        ],
    }
    return render(request, PAGE, context, status=status)


def _tell(request: HttpRequest, error: CovenantError) -> None:
    messages.error(request, f"{error.message} {error.hint}".strip())
