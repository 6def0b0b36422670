"""Which versions could take an endpoint's traffic, and where they are."""

from __future__ import annotations

from deployments.models import Endpoint, NodeState, Placement, PlacementState


def ready_versions(endpoint: Endpoint) -> dict[int, list[str]]:
    """Number -> names of the nodes that have it ready and can be reached; one query."""
    rows = (
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__environment_id=endpoint.environment_id,
            deployment__release__version__model_id=endpoint.model_id,
        )
        .exclude(node__state=NodeState.LOST)
        .order_by("deployment__release__version__number", "node__name")
        .values_list("deployment__release__version__number", "node__name")
    )
    versions: dict[int, list[str]] = {}
    for number, node in rows:
        versions.setdefault(number, []).append(node)
    return versions
