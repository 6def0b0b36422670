"""Routes of alerts: set, in their order, and removed by who operates the installation."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from console.actors import Actor, require
from console.errors import FieldError, Invalid, NotFound, Stale
from console.models import Team
from console.services import audit
from deployments.models import (
    AlertChannel,
    AlertRoute,
    EscalationPolicy,
    OnCallSchedule,
    TellPeople,
)
from deployments.rules.alerts.route_terms import RouteTerms, check_route
from deployments.services.alerts.named import all_of, one_of
from models_registry.models import Environment, RegisteredModel

MOST_ROUTES = 200


def set_route(
    *,
    name: str,
    terms: RouteTerms,
    actor: Actor,
    revision: int | None = None,
    reason: str = "",
) -> AlertRoute:
    """Make the route of this name, or decide it anew; twice the same changes nothing.

    Raises Invalid (`invalid_on_call`, `unknown_name`, `too_many_routes`), Stale when somebody
    changed it since `revision`.
    """
    require(actor, "alert_channel.manage")
    check_route(terms)
    if terms.people not in TellPeople.values:
        raise Invalid(
            f"“{terms.people}” tells nobody known.",
            code="invalid_on_call",
            errors=(FieldError("/people", f"One of {', '.join(TellPeople.values)}."),),
        )
    with transaction.atomic():
        route = AlertRoute.objects.select_for_update(of=("self",)).filter(name=name).first()
        if revision is not None and revision != (route.revision if route else 0):
            raise Stale(
                f"Somebody has changed the route {name} meanwhile.",
                hint="Look at it again, and change what is still to be changed.",
            )
        if route is None and AlertRoute.objects.count() >= MOST_ROUTES:
            raise Invalid(
                f"There are {MOST_ROUTES} routes already.",
                code="too_many_routes",
                hint="Take away those that nothing goes through.",
            )
        before = facts(route) if route else None
        route = _given(route or AlertRoute(name=name, revision=0), terms, actor)
        channels = all_of(AlertChannel, "name", terms.channels, "/channels")
        after = facts(route, [one.name for one in channels])
        if after != before:
            route.revision += 1
            route.save()
            route.channels.set(channels)
            action = "alert_route.change" if before else "alert_route.create"
            _record(route, action, actor, before=before, after=after, reason=reason)
    return route


def remove_route(*, name: str, actor: Actor, reason: str = "") -> None:
    """Take a route away; what no route takes goes to the inbox of who operates the model."""
    require(actor, "alert_channel.manage")
    with transaction.atomic():
        route = AlertRoute.objects.select_for_update(of=("self",)).filter(name=name).first()
        if route is None:
            raise missing(name)
        _record(route, "alert_route.remove", actor, before=facts(route), reason=reason)
        route.delete()


def find_route(name: str) -> AlertRoute:
    """The route of this name; raises NotFound."""
    found = (
        AlertRoute.objects.select_related("environment", "model", "team", "schedule", "policy")
        .prefetch_related("channels")
        .filter(name=name)
        .first()
    )
    if found is None:
        raise missing(name)
    return found


def missing(name: str) -> NotFound:
    """The refusal of a route that is not there."""
    return NotFound(f"There is no route called {name}.", hint="See Settings → Alert routes.")


def facts(route: AlertRoute, channels: list[str] | None = None) -> dict[str, Any]:
    """A route by names, as the audit trail and the API tell of it."""
    named = channels if channels is not None else [one.name for one in route.channels.all()]
    return {
        "position": route.position,
        "enabled": route.enabled,
        "severities": list(route.severities),
        "environment": route.environment.name if route.environment else "",
        "model": route.model.name if route.model else "",
        "team": route.team.slug if route.team else "",
        "rule_name": route.rule_name,
        "label": route.label,
        "channels": sorted(named),
        "people": route.people,
        "schedule": route.schedule.name if route.schedule else "",
        "policy": route.policy.name if route.policy else "",
        "goes_on": route.goes_on,
    }


def _given(route: AlertRoute, terms: RouteTerms, actor: Actor) -> AlertRoute:
    route.position, route.enabled = terms.position, terms.enabled
    route.severities = list(terms.severities)
    route.environment = one_of(Environment, "name", terms.environment, "/environment")
    route.model = one_of(RegisteredModel, "name", terms.model, "/model")
    route.team = one_of(Team, "slug", terms.team, "/team")
    route.rule_name, route.label = terms.rule_name, terms.label
    route.people, route.goes_on = terms.people, terms.goes_on
    route.schedule = one_of(OnCallSchedule, "name", terms.schedule, "/schedule")
    route.policy = one_of(EscalationPolicy, "name", terms.policy, "/policy")
    route.changed_by = actor.user
    return route


def _record(
    route: AlertRoute,
    action: str,
    actor: Actor,
    *,
    before: object = None,
    after: object = None,
    reason: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"alert route {route.name}",
        subject_url="/settings/alert-routes/",
        before=before,
        after=after,
        reason=reason,
    )
