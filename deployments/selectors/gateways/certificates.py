"""Listeners with their certificates."""

from __future__ import annotations

from console.errors import NotFound
from deployments.models import GatewayListener


def find_listener(gateway: str, environment: str) -> GatewayListener:
    """A gateway's listener for an environment; one query. Raises NotFound."""
    found = (
        GatewayListener.objects.select_related("gateway", "environment")
        .filter(gateway__name=gateway, environment__name=environment)
        .first()
    )
    if found is None:
        raise NotFound(f"The gateway {gateway[:60]} has no listener for {environment[:60]}.")
    return found
