"""What the collector has to look at."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from deployments.adapters.gateway import Registration
from deployments.adapters.observing import observes
from deployments.models import Endpoint, Gateway, Node, NodeState, Placement, PlacementState
from deployments.rules.statistics.answers import Meanings, meanings_of
from deployments.rules.statistics.latency_bounds import STANDARD_MS, bounds_for
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.rules.contract_document import ContractDocument


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """A node's address, whether it counts as lost, and what it should have loaded."""

    name: str
    grpc_address: str
    lost: bool
    wanted: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Promised:
    """What an endpoint's contract says of its counts: whom a status counts against, and under
    which bounds latencies are kept."""

    meanings: Meanings = field(default_factory=dict)
    bounds: tuple[float, ...] = STANDARD_MS


NOTHING_PROMISED = Promised()


@dataclass(frozen=True, slots=True)
class Watched:
    """Gateways that say what they counted, nodes, and whose endpoints a version serves.

    `endpoints_of` maps (node, Triton model, version) to (environment, model). `bounds` are those
    of all endpoints together.
    """

    gateways: tuple[Registration, ...] = ()
    nodes: tuple[WatchedNode, ...] = ()
    endpoints_of: dict[tuple[str, str, int], tuple[tuple[str, str], ...]] = field(
        default_factory=dict
    )
    promised: dict[tuple[str, str], Promised] = field(default_factory=dict)
    bounds: tuple[float, ...] = STANDARD_MS

    @property
    def sources(self) -> frozenset[str]:
        """The names of all that is read."""
        gateways = (f"gateway:{one.name}" for one in self.gateways)
        return frozenset([*gateways, *(f"node:{one.name}" for one in self.nodes)])


def watched() -> Watched:
    """Everything to look at; five queries."""
    promised = _promised()
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
        promised=promised,
        bounds=tuple(sorted({b for one in promised.values() for b in one.bounds} | {*STANDARD_MS})),
    )


def _promised() -> dict[tuple[str, str], Promised]:
    endpoints = list(Endpoint.objects.values_list("environment__name", "model__name", "model_id"))
    contracts = contracts_that_hold({model_id for *_, model_id in endpoints})
    by_model = {model_id: _of_contract(contract) for model_id, contract in contracts.items()}
    return {
        (environment, model): by_model[model_id]
        for environment, model, model_id in endpoints
        if model_id in by_model
    }


def _of_contract(contract: ContractDocument) -> Promised:
    meanings = meanings_of((one.status, one.counts_against) for one in contract.errors)
    thresholds = [float(contract.latency.threshold_ms)] if contract.latency else []
    return Promised(meanings, bounds_for(thresholds))


def wanted_on(node: str) -> set[tuple[str, int]]:
    """What should be loaded on a node: (Triton model, version); one query."""
    return set(
        Placement.objects.filter(node__name=node, state=PlacementState.READY).values_list(
            "deployment__generation__triton_model", "deployment__release__version__number"
        )
    )
