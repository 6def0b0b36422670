"""Which team's model an address of a deployment is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.actors import ANY_TEAM, Somewhere
from console.models import User
from deployments.models import Deployment, Incident, Rollout


def team_of_address(user: User, route: str, values: Mapping[str, Any]) -> int | Somewhere | None:
    """The team of the deployment's, incident's or rollout's model (one query); else ANY_TEAM."""
    if "deployment_id" in values:
        deployments = Deployment.objects.visible_to(user).filter(pk=values["deployment_id"])
        found = list(deployments.values_list("release__version__model__team_id", flat=True)[:1])
    elif "incident_id" in values:
        incidents = Incident.objects.visible_to(user).filter(pk=values["incident_id"])
        found = list(incidents.values_list("endpoint__model__team_id", flat=True)[:1])
    elif "rollout_id" in values:
        rollouts = Rollout.objects.visible_to(user).filter(pk=values["rollout_id"])
        found = list(rollouts.values_list("endpoint__model__team_id", flat=True)[:1])
    else:
        return ANY_TEAM
    return found[0] if found else ANY_TEAM
