"""Routes of alerts in their order, with what they lead to."""

from __future__ import annotations

from deployments.models import Alert, AlertRoute, Incident
from deployments.rules.alerts.routing import INCIDENT, Match, Occasion


def routes() -> list[AlertRoute]:
    """All routes in their order with channels, schedule and policy (two queries)."""
    return list(
        AlertRoute.objects.select_related(
            "environment", "model", "team", "schedule", "policy"
        ).prefetch_related("channels")
    )


def match_of(route: AlertRoute) -> Match:
    """What the route takes, as the rules read it."""
    return Match(
        route=route.pk,
        severities=frozenset(route.severities),
        environment=route.environment.name if route.environment else "",
        model=route.model.name if route.model else "",
        team=route.team.slug if route.team else "",
        rule_name=route.rule_name,
        label=route.label,
        goes_on=route.goes_on,
    )


def occasion_of_alert(alert: Alert) -> Occasion:
    """An alert as routes see it; its endpoint with environment, model and team is read before."""
    endpoint = alert.endpoint
    if endpoint is None:
        return Occasion(alert.severity, rule_name=alert.rule_name, label=alert.label)
    return Occasion(
        severity=alert.severity,
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        team=endpoint.model.team.slug if endpoint.model.team else "",
        rule_name=alert.rule_name,
        label=alert.label,
    )


def occasion_of_incident(incident: Incident) -> Occasion:
    """An incident as routes see it."""
    endpoint = incident.endpoint
    return Occasion(
        severity=incident.severity,
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        team=endpoint.model.team.slug if endpoint.model.team else "",
        rule_name=INCIDENT,
        label=incident.cause,
    )
