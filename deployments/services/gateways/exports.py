"""Exporting what a gateway should have, for those who load it by other tools, or only look."""

from __future__ import annotations

from console.actors import Actor, require
from deployments.adapters.gateway_exports import Export, export
from deployments.selectors.gateways.registered import find_gateway, registration_of
from deployments.services.gateways.desired import desired_snapshots


def export_gateway(*, name: str, actor: Actor) -> Export:
    """The file for a gateway's own tools: `kong.yaml`, or Kubernetes manifests.

    It names every model of the gateway's environments, hence the permission. Raises Conflict for
    an Envoy, NotFound, NotAllowed.
    """
    require(actor, "gateway.register")
    gateway = find_gateway(name)
    (desired,) = desired_snapshots([gateway.name])
    return export(registration_of(gateway), desired.snapshot)
