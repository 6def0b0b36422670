"""Settings → Alert routes and escalations: what goes where, and what when nobody acknowledges."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.actors import require
from console.api.authentication import actor_of
from console.errors import Conflict, Invalid, Stale
from deployments.channel_forms import RouteForm
from deployments.models import AlertRoute, EscalationPolicy
from deployments.on_call_forms import PolicyForm
from deployments.selectors.alerts.routes import routes
from deployments.services.alerts.policies import find_policy, remove_policy, set_policy
from deployments.services.alerts.routes import find_route, remove_route, set_route

METHODS = ["GET", "HEAD", "POST"]


@require_http_methods(METHODS)
def index(request: HttpRequest) -> HttpResponse:
    """The routes in their order, and a form for one more."""
    require(actor_of(request), "alert_channel.manage")
    return _set(request, None)


@require_http_methods(METHODS)
def detail(request: HttpRequest, route: str) -> HttpResponse:
    """One route, to be changed."""
    require(actor_of(request), "alert_channel.manage")
    return _set(request, find_route(route))


@require_POST
def remove(request: HttpRequest, route: str) -> HttpResponse:
    """Take a route away."""
    remove_route(name=route, reason=request.POST.get("reason", ""), actor=actor_of(request))
    messages.success(request, _("The route %(name)s is gone.") % {"name": route})
    return redirect("deployments:alert-routes")


@require_http_methods(METHODS)
def escalations(request: HttpRequest) -> HttpResponse:
    """The escalations, and a form for one more."""
    require(actor_of(request), "on_call.manage")
    return _set_policy(request, None)


@require_http_methods(METHODS)
def escalation(request: HttpRequest, policy: str) -> HttpResponse:
    """One escalation, to be changed."""
    require(actor_of(request), "on_call.manage")
    return _set_policy(request, find_policy(policy))


@require_POST
def remove_escalation(request: HttpRequest, policy: str) -> HttpResponse:
    """Take an escalation away."""
    try:
        remove_policy(name=policy, reason=request.POST.get("reason", ""), actor=actor_of(request))
    except Conflict as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, _("The escalation %(name)s is gone.") % {"name": policy})
    return redirect("deployments:escalations")


def _set(request: HttpRequest, changed: AlertRoute | None) -> HttpResponse:
    """Show the routes with the form, or set what was given."""
    status = 200
    if request.method == "POST":
        form, status = RouteForm(request.POST, changed=changed), 422
        if form.is_valid():
            try:
                made = set_route(
                    name=changed.name if changed else form.cleaned_data["name"],
                    terms=form.terms(),
                    revision=form.cleaned_data["revision"] if changed else 0,
                    actor=actor_of(request),
                )
            except (Invalid, Stale) as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("The route %(name)s is set.") % {"name": made.name})
                return redirect("deployments:alert-routes")
    else:
        form = RouteForm(changed=changed)
    context = {"form": form, "routes": routes(), "changed": changed}
    return render(request, "deployments/alert_channels/routes.html", context, status=status)


def _set_policy(request: HttpRequest, changed: EscalationPolicy | None) -> HttpResponse:
    """Show the escalations with the form, or set what was given."""
    status = 200
    if request.method == "POST":
        form, status = PolicyForm(request.POST, changed=changed), 422
        if form.is_valid():
            try:
                made = set_policy(
                    name=changed.name if changed else form.cleaned_data["name"],
                    steps=form.terms(),
                    repeats=form.cleaned_data["repeats"],
                    revision=form.cleaned_data["revision"] if changed else 0,
                    actor=actor_of(request),
                )
            except (Invalid, Stale) as error:
                form.add_refusal(error)
            else:
                messages.success(
                    request, _("The escalation %(name)s is set.") % {"name": made.name}
                )
                return redirect("deployments:escalations")
    else:
        form = PolicyForm(changed=changed)
    listed = EscalationPolicy.objects.prefetch_related(
        "steps__schedule", "steps__person", "steps__channel"
    )
    context = {"form": form, "policies": listed[:100], "changed": changed}
    return render(request, "deployments/alert_channels/escalations.html", context, status=status)
