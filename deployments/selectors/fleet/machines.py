"""What the watch over machines has to read: addresses, and whose versions lie where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from deployments.models import Endpoint, Node, Placement, PlacementState
from deployments.rules.fleet.triton_numbers import Slot


@dataclass(frozen=True, slots=True)
class Machine:
    """A node's addresses, and the keys of the endpoints that each version on it serves."""

    pk: int
    name: str
    grpc_address: str
    metrics_address: str = ""
    dcgm_address: str = ""
    host_metrics_address: str = ""
    repository: str = "/"
    gpus: tuple[int, ...] = ()
    endpoints: Mapping[Slot, tuple[int, ...]] = field(default_factory=dict)


def machines(names: Collection[str]) -> list[Machine]:
    """The machines of these nodes, by name; three queries."""
    nodes = list(Node.objects.filter(name__in=names).order_by("name"))
    placed = (
        Placement.objects.filter(
            node__in=[node.pk for node in nodes],
            state__in=[PlacementState.READY, PlacementState.DRAINING],
        )
        .order_by()
        .values_list(
            "node_id",
            "deployment__generation__triton_model",
            "deployment__release__version__number",
            "deployment__release__version__model_id",
            "deployment__release__environment_id",
        )
    )
    rows = list(placed)
    keys = {
        (model, environment): pk
        for model, environment, pk in Endpoint.objects.filter(
            model_id__in={row[3] for row in rows}
        ).values_list("model_id", "environment_id", "pk")
    }
    served: dict[int, dict[Slot, set[int]]] = defaultdict(lambda: defaultdict(set))
    for node, triton_model, number, model, environment in rows:
        if (endpoint := keys.get((model, environment))) is not None:
            served[node][(triton_model, number)].add(endpoint)
    return [
        Machine(
            pk=node.pk,
            name=node.name,
            grpc_address=node.grpc_address,
            metrics_address=node.metrics_address,
            dcgm_address=node.dcgm_address,
            host_metrics_address=node.host_metrics_address,
            repository=node.repository,
            gpus=tuple(node.gpus),
            endpoints={slot: tuple(sorted(of)) for slot, of in served[node.pk].items()},
        )
        for node in nodes
    ]
