"""An endpoint's objectives: error budgets, burn rates, and the time that does not count."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotAllowed, NotFound
from deployments.models import Endpoint, Exclusion, MaintenanceWindow
from deployments.objective_forms import ExclusionForm, MaintenanceForm
from deployments.rules.objectives.agreements import FARTHEST_BACK, MOST_MAINTENANCE_MINUTES
from deployments.rules.objectives.burn_rates import LEAST_BAD
from deployments.selectors.incidents.pages import incidents_between
from deployments.selectors.objectives.exclusion_effects import with_effects
from deployments.selectors.objectives.pages import (
    find_exclusion,
    find_maintenance,
    set_aside,
    standings,
)
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.objectives import exclusions as excluding
from deployments.services.objectives import maintenance as maintaining

MOST_INCIDENTS = 30


@require_safe
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Budgets and burn rates with what was set aside; the figures alone when htmx asks."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    if request.headers.get("HX-Request"):
        context = _figures(endpoint)
        return render(request, "deployments/objectives/_standings.html", context)
    return _page(request, endpoint)


@require_POST
def propose_maintenance(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Ask the three seats to set time aside."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    form = MaintenanceForm(request.POST)
    if not form.is_valid():
        return _page(request, endpoint, maintenance=form, status=422)
    try:
        maintaining.propose_maintenance(
            environment=environment, model=model, actor=actor_of(request), **form.cleaned_data
        )
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        form.add_refusal(error)
        return _page(request, endpoint, maintenance=form, status=error.status)
    messages.success(request, _("It is proposed. The other seats have been asked."))
    return redirect("deployments:endpoint-objectives", environment, model)


@require_POST
def propose_exclusion(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """Ask the three seats not to count some time that is over."""
    endpoint = find_endpoint(environment, model, user=user_of(request))
    form = ExclusionForm(request.POST, incidents=_incidents(endpoint))
    if not form.is_valid():
        return _page(request, endpoint, exclusion=form, status=422)
    try:
        excluding.propose_exclusion(
            environment=environment, model=model, actor=actor_of(request), **form.cleaned_data
        )
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        form.add_refusal(error)
        return _page(request, endpoint, exclusion=form, status=error.status)
    messages.success(request, _("It is proposed. The other seats have been asked."))
    return redirect("deployments:endpoint-objectives", environment, model)


@require_POST
def agree_maintenance(request: HttpRequest, window_id: uuid.UUID) -> HttpResponse:
    """The reader's seat agrees to a maintenance window."""
    return _done(
        request,
        find_maintenance(window_id, user=user_of(request)),
        lambda: maintaining.agree_to_maintenance(window_id=window_id, actor=actor_of(request)),
        _("Your seat has agreed."),
    )


@require_POST
def withdraw_maintenance(request: HttpRequest, window_id: uuid.UUID) -> HttpResponse:
    """Take a maintenance window back, or end it now."""
    reason = request.POST.get("reason", "")
    return _done(
        request,
        find_maintenance(window_id, user=user_of(request)),
        lambda: maintaining.withdraw_maintenance(
            window_id=window_id, reason=reason, actor=actor_of(request)
        ),
        _("It is taken back: that time counts."),
    )


@require_POST
def agree_exclusion(request: HttpRequest, exclusion_id: uuid.UUID) -> HttpResponse:
    """The reader's seat agrees to an exclusion."""
    return _done(
        request,
        find_exclusion(exclusion_id, user=user_of(request)),
        lambda: excluding.agree_to_exclusion(exclusion_id=exclusion_id, actor=actor_of(request)),
        _("Your seat has agreed."),
    )


@require_POST
def withdraw_exclusion(request: HttpRequest, exclusion_id: uuid.UUID) -> HttpResponse:
    """Take an exclusion back: the time counts again."""
    reason = request.POST.get("reason", "")
    return _done(
        request,
        find_exclusion(exclusion_id, user=user_of(request)),
        lambda: excluding.withdraw_exclusion(
            exclusion_id=exclusion_id, reason=reason, actor=actor_of(request)
        ),
        _("It is taken back: that time counts."),
    )


def _done(
    request: HttpRequest,
    one: MaintenanceWindow | Exclusion,
    act: Callable[[], object],
    words: str,
) -> HttpResponse:
    try:
        act()
    except (NotFound, NotAllowed):
        raise
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, words)
    endpoint = one.endpoint
    return redirect(
        "deployments:endpoint-objectives", endpoint.environment.name, endpoint.model.name
    )


def _page(
    request: HttpRequest,
    endpoint: Endpoint,
    *,
    maintenance: MaintenanceForm | None = None,
    exclusion: ExclusionForm | None = None,
    status: int = 200,
) -> HttpResponse:
    now, actor, team = timezone.now(), actor_of(request), endpoint.model.team_id
    windows, exclusions = set_aside(endpoint, now, user=user_of(request))
    context: dict[str, Any] = {
        **_figures(endpoint),
        "windows": windows,
        "exclusions": with_effects(exclusions),
        "maintenance_form": maintenance or MaintenanceForm(),
        "exclusion_form": exclusion or ExclusionForm(incidents=_incidents(endpoint)),
        "may_propose": allowed(actor, "maintenance.propose", team),
        "may_exclude": allowed(actor, "sla.exclude", team),
        "hours": MOST_MAINTENANCE_MINUTES // 60,
    }
    return render(request, "deployments/objectives/detail.html", context, status=status)


def _figures(endpoint: Endpoint) -> dict[str, Any]:
    now, environment = timezone.now(), endpoint.environment.name
    return {
        "nav_section": "endpoints",
        "standings": standings(endpoint, now),
        "now": now,
        "least_bad": LEAST_BAD,
        "environment": environment,
        "model": endpoint.model.name,
        "topic": f"endpoint:{endpoint}",
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }


def _incidents(endpoint: Endpoint) -> list[Any]:
    now = timezone.now()
    return incidents_between(endpoint, now - FARTHEST_BACK, now)[:MOST_INCIDENTS]
