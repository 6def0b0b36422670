"""A channel, a route, an escalation, a schedule, a takeover and a message, for every address."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django.utils import timezone

from console.models import User
from deployments.models import AlertDelivery
from deployments.rules.alerts.route_terms import LayerTerms, RouteTerms, ScheduleTerms, StepTerms
from deployments.services.alerts.channels import create_channel
from deployments.services.alerts.policies import set_policy
from deployments.services.alerts.routes import set_route
from deployments.services.alerts.schedules import set_schedule, take_over
from tests import factories


def alerting_values(person: User) -> dict[str, Any]:
    """A value for each parameter of the addresses of alerting."""
    actor = factories.actor(person)
    channel, _ = create_channel(
        name="ops-hook", kind="webhook", address="https://127.0.0.1:9/", actor=actor
    )
    route = set_route(
        name="to-ops", terms=RouteTerms(channels=(channel.name,), people="nobody"), actor=actor
    )
    policy = set_policy(name="by-night", steps=[StepTerms(5, "operators")], actor=actor)
    layer = LayerTerms((person.username,), date(2026, 1, 5))
    schedule = set_schedule(name="first-line", terms=ScheduleTerms(layers=(layer,)), actor=actor)
    override = take_over(
        schedule=schedule.name, ends_at=timezone.now() + timedelta(hours=8), actor=actor
    )
    delivery = AlertDelivery.objects.create(
        channel=channel,
        receiver=channel.name,
        kind=channel.kind,
        why="firing",
        subject="installation",
        message={"why": "firing", "at": timezone.now().isoformat(), "count": 0, "items": []},
        thread="group:installation:c1",
        dedup_key="firing:world:c1",
        state="failed",
        error="It did not answer.",
        created_at=timezone.now(),
    )
    return {
        "channel": channel.name,
        "route": route.name,
        "policy": policy.name,
        "schedule": schedule.name,
        "override_id": override.pk,
        "delivery_id": delivery.pk,
    }
