"""Which team's model an address of a deployment is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.actors import ANY_TEAM, Somewhere
from console.models import User
from deployments.models import (
    Alert,
    Deployment,
    Exclusion,
    Incident,
    MaintenanceWindow,
    Rollout,
    Silence,
)
from models_registry.models.catalog import OfModelQuerySet

NAMED: dict[str, tuple[Any, str]] = {
    "alert_id": (Alert, "endpoint__model__team_id"),
    "silence_id": (Silence, "model__team_id"),
    "deployment_id": (Deployment, "release__version__model__team_id"),
    "incident_id": (Incident, "endpoint__model__team_id"),
    "rollout_id": (Rollout, "endpoint__model__team_id"),
    "window_id": (MaintenanceWindow, "endpoint__model__team_id"),
    "exclusion_id": (Exclusion, "endpoint__model__team_id"),
}
"""What a part of an address names, and the way from there to its model's team."""


def team_of_address(user: User, route: str, values: Mapping[str, Any]) -> int | Somewhere | None:
    """The team of the model of the row that is named (one query); else ANY_TEAM."""
    for name, (kind, way) in NAMED.items():
        if name in values:
            rows: OfModelQuerySet[Any] = kind.objects
            found = list(
                rows.visible_to(user).filter(pk=values[name]).values_list(way, flat=True)[:1]
            )
            return found[0] if found else ANY_TEAM
    return ANY_TEAM
