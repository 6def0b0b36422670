"""What the collector has to look at."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from deployments.adapters.gateway import Registration
from deployments.adapters.observing import observes
from deployments.models import Gateway, Node, NodeState, Placement, PlacementState


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """A node's address, whether it counts as lost, and what it should have loaded."""

    name: str
    grpc_address: str
    lost: bool
    wanted: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Watched:
    """Gateways that say what they counted, nodes, and whose endpoints a version serves.

    `endpoints_of` maps (node, Triton model, version) to (environment, model).
    """

    gateways: tuple[Registration, ...] = ()
    nodes: tuple[WatchedNode, ...] = ()
    endpoints_of: dict[tuple[str, str, int], tuple[tuple[str, str], ...]] = field(
        default_factory=dict
    )


def watched() -> Watched:
    """Everything to look at; three queries."""
    wanted: dict[str, set[tuple[str, int]]] = defaultdict(set)
    endpoints: dict[tuple[str, str, int], set[tuple[str, str]]] = defaultdict(set)
    rows = Placement.objects.filter(
        state__in=[PlacementState.READY, PlacementState.DRAINING]
    ).values_list(
        "state",
        "node__name",
        "deployment__generation__triton_model",
        "deployment__release__version__number",
        "deployment__release__environment__name",
        "deployment__release__version__model__name",
    )
    for state, node, triton_model, number, environment, model in rows:
        endpoints[(node, triton_model, number)].add((environment, model))
        if state == PlacementState.READY:
            wanted[node].add((triton_model, number))
    nodes = tuple(
        WatchedNode(name, address, state == NodeState.LOST, frozenset(wanted[name]))
        for name, address, state in Node.objects.values_list("name", "grpc_address", "state")
    )
    return Watched(
        gateways=tuple(
            Registration(*row)
            for row in Gateway.objects.values_list("name", "adapter", "admin_url", "options")
            if observes(row[1])
        ),
        nodes=nodes,
        endpoints_of={slot: tuple(sorted(keys)) for slot, keys in endpoints.items()},
    )


def wanted_on(node: str) -> set[tuple[str, int]]:
    """What should be loaded on a node: (Triton model, version); one query."""
    return set(
        Placement.objects.filter(node__name=node, state=PlacementState.READY).values_list(
            "deployment__generation__triton_model", "deployment__release__version__number"
        )
    )
