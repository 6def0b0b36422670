"""Which team's model an address of a deployment is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.actors import ANY_TEAM, Somewhere
from console.models import User
from deployments.models import Deployment


def team_of_address(user: User, route: str, values: Mapping[str, Any]) -> int | Somewhere | None:
    """The team of the deployment's model (one query); ANY_TEAM for any other address."""
    if "deployment_id" not in values:
        return ANY_TEAM
    seen = Deployment.objects.visible_to(user).filter(pk=values["deployment_id"])
    found = list(seen.values_list("release__version__model__team_id", flat=True)[:1])
    return found[0] if found else ANY_TEAM
