"""When an endpoint goes down the rollback levels by itself, in plain words."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, Stale
from deployments.incident_forms import RollbackPolicyForm, policy_initial
from deployments.rules.incidents.severity import FALLBACK, OPEN, OTHER_VERSION
from deployments.selectors.incidents.pages import unresolved_of
from deployments.selectors.incidents.rollback_policies import Standing, standing_of
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.incidents.rollback_policies import set_policy


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Show the policy and where the endpoint stands; POST decides it anew."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    found = standing_of(endpoint)
    if request.method != "POST":
        return _page(request, found, RollbackPolicyForm(initial=_initial(found)))
    form = RollbackPolicyForm(request.POST)
    if form.is_valid():
        revision = request.POST.get("revision", "")
        try:
            set_policy(
                environment=environment,
                model=model,
                automatic=form.cleaned_data["automatic"],
                document=form.document(),
                expected_revision=int(revision) if revision.isdecimal() else None,
                reason=form.cleaned_data["reason"],
                actor=actor_of(request),
            )
        except Stale as error:
            messages.error(request, f"{error.message} {error.hint}")
        except CovenantError as error:
            form.add_refusal(error)
            return _page(request, found, form, status=error.status)
        else:
            messages.success(request, _("The rollback policy is in force."))
        return redirect("deployments:endpoint-rollback-policy", environment, model)
    return _page(request, found, form, status=422)


@require_safe
def standing_panel(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The endpoint's open incident and where it stands on the levels, for whichever page."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    context = {
        "standing": standing_of(endpoint),
        "incident": unresolved_of(endpoint),
        "environment": environment,
        "model": model,
        "topic": f"endpoint:{endpoint}",
    }
    return render(request, "deployments/rollback_policies/_panel.html", context)


def _initial(found: Standing) -> dict[str, Any]:
    return {**policy_initial(found.in_force.policy), "automatic": found.in_force.automatic}


def _page(
    request: HttpRequest, found: Standing, form: RollbackPolicyForm, *, status: int = 200
) -> HttpResponse:
    endpoint = found.endpoint
    context = {
        "standing": found,
        "form": form,
        "incident": unresolved_of(endpoint),
        "environment": endpoint.environment.name,
        "model": endpoint.model.name,
        "topic": f"endpoint:{endpoint}",
        "may_change": allowed(actor_of(request), "rollback_policy.change", endpoint.model.team_id),
        "levels": _levels(),
        "current_environment": {
            "name": endpoint.environment.name,
            "is_production": endpoint.environment.name == "production",
        },
    }
    template = "deployments/rollback_policies/detail.html"
    return render(request, template, context, status=status)


def _levels() -> list[tuple[int, str, str]]:
    """What each level is, from the mildest on."""
    return [
        (
            OTHER_VERSION,
            _("The last good version"),
            _("All traffic goes to the version that led before, if it answers rightly when asked."),
        ),
        (
            FALLBACK,
            _("The contract’s fallback"),
            _("The gateway answers without a model. The last good version is deployed again."),
        ),
        (
            OPEN,
            _("The open circuit"),
            _("Callers get the contract’s 503 with Retry-After, and those on call are called."),
        ),
    ]
