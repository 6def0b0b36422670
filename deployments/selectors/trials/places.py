"""Where a version could be tried: the environments in which a node has it ready."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.models import Endpoint, EndpointMode, GatewayListener, NodeState, Placement
from deployments.models import PlacementState as State
from deployments.selectors.access.rules import access_rules
from models_registry.models import Environment, ModelVersion


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """Where a request for the version goes: `url` is the address of its infer method.

    `who` names what answers there: the environment's gateway where it knows the version by number,
    else a node itself, in which case nobody's fallback stands before it.
    """

    environment: Environment
    who: str
    url: str
    by_gateway: bool


def trial_places(version: ModelVersion) -> list[TrialPlace]:
    """One for each environment in which the version is ready, by name; three queries."""
    ready = (
        Placement.objects.filter(
            state=State.READY,
            deployment__removed_at__isnull=True,
            deployment__release__version=version,
        )
        .exclude(node__state=NodeState.LOST)
        .select_related(
            "node",
            "deployment__generation",
            "deployment__release__environment",
            "deployment__release__version",
        )
        .order_by("deployment__release__environment__name", "node__name")
    )
    normal = {
        one.environment_id
        for one in Endpoint.objects.filter(model_id=version.model_id).select_related(
            "current", "access_policy"
        )
        if one.current
        and one.current.mode == EndpointMode.NORMAL
        and any(one.current.weights.values())
        # Where callers have to say who they are, we ask the node itself: a trial is no caller.
        and access_rules(one).lets_strangers_in
    }
    listeners: dict[int, GatewayListener] = {}
    for listener in GatewayListener.objects.filter(gateway__connected=True).select_related(
        "gateway"
    ):
        listeners.setdefault(listener.environment_id, listener)
    found: dict[int, TrialPlace] = {}
    for placement in ready:
        environment = placement.deployment.release.environment
        if environment.pk in found:
            continue
        way = listeners.get(environment.pk) if environment.pk in normal else None
        found[environment.pk] = (
            _by_gateway(environment, version, way) if way else _by_node(environment, placement)
        )
    return list(found.values())


def _by_gateway(
    environment: Environment, version: ModelVersion, listener: GatewayListener
) -> TrialPlace:
    path = f"/v2/models/{version.model.name}/versions/{version.number}/infer"
    return TrialPlace(
        environment,
        f"gateway {listener.gateway.name}",
        listener.public_url.rstrip("/") + path,
        True,
    )


def _by_node(environment: Environment, placement: Placement) -> TrialPlace:
    node, deployment = placement.node, placement.deployment
    number = deployment.release.version.number
    path = f"/v2/models/{deployment.generation.triton_model}/versions/{number}/infer"
    return TrialPlace(environment, f"node {node.name}", f"http://{node.http_address}{path}", False)
