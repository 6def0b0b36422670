"""What every endpoint of some environments should do, read from rows as pure data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

from deployments.models import (
    Deployment,
    Endpoint,
    NodeState,
    Placement,
    PlacementState,
    TrafficSplit,
)
from deployments.rules.access.input_rules import ServedInterface
from deployments.rules.fallback.fallbacks import Fallback, Output
from deployments.rules.gateways.state import (
    EndpointState,
    HeaderRule,
    Mirror,
    Mode,
    NodeAddress,
    Sampling,
    Target,
)
from deployments.rules.traffic import slices
from deployments.selectors.access.request_rules import request_fields, served_interface
from deployments.selectors.access.rules import access_rules
from deployments.selectors.experiments.sampled_pairs import Observed, Pair, observed
from deployments.selectors.telemetry.shares import share_of_endpoint
from models_registry.models import ServiceContract
from models_registry.rules import contract_document

Key = tuple[int, int]
"""Model id and environment id: what an endpoint is of."""

Served = dict[Key, dict[int, ServedInterface]]


def endpoint_states(environment_ids: Collection[int]) -> list[EndpointState]:
    """The wanted state of each endpoint in these environments; five queries."""
    endpoints = list(
        Endpoint.objects.filter(environment_id__in=environment_ids)
        .select_related("model", "environment", "current", "access_policy", "telemetry_setting")
        .order_by("pk")
    )
    watched = observed(endpoints)
    targets, served = ready_versions(environment_ids)
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    return [
        _endpoint_state(
            endpoint,
            targets.get((endpoint.model_id, endpoint.environment_id), {}),
            contracts.get(endpoint.model_id),
            watched,
            served.get((endpoint.model_id, endpoint.environment_id), {}),
        )
        for endpoint in endpoints
    ]


def ready_versions(
    environment_ids: Collection[int],
) -> tuple[dict[Key, dict[int, Target]], Served]:
    """For each endpoint its versions that are ready, with the nodes that can be reached, and what
    each takes.

    A version whose every node is lost stays, without a node: its share is answered with the
    contract's 503 until one is back, and nobody else's traffic changes.
    """
    placements = (
        Placement.objects.filter(
            state=PlacementState.READY,
            deployment__removed_at__isnull=True,
            deployment__release__environment_id__in=environment_ids,
        )
        .select_related("node", "deployment__generation", "deployment__release__version")
        .order_by("node__name")
    )
    nodes: dict[tuple[Key, int], list[NodeAddress]] = defaultdict(list)
    deployments: dict[tuple[Key, int], Deployment] = {}
    for placement in placements:
        release = placement.deployment.release
        slot = ((release.version.model_id, release.environment_id), release.version.number)
        deployments[slot] = placement.deployment
        addresses = nodes[slot]
        if placement.node.state != NodeState.LOST:
            addresses.append(node_address(placement.node.name, placement.node.http_address))
    targets: dict[Key, dict[int, Target]] = defaultdict(dict)
    served: Served = defaultdict(dict)
    for (key, number), deployment in deployments.items():
        targets[key][number] = Target(
            deployment.generation.triton_model, number, tuple(nodes[(key, number)])
        )
        served[key][number] = served_interface(deployment.release.version)
    return targets, served


def ready_targets(environment_ids: Collection[int]) -> dict[Key, dict[int, Target]]:
    """The versions of `ready_versions`, without what they take; one query."""
    targets, _ = ready_versions(environment_ids)
    return targets


def node_address(name: str, http_address: str) -> NodeAddress:
    """A node's `host:port` as the gateway wants it."""
    host, _, port = http_address.rpartition(":")
    return NodeAddress(name, host.strip("[]"), int(port))


def contracts_that_hold(
    model_ids: Iterable[int],
) -> dict[int, contract_document.ContractDocument]:
    """The contract that holds for each model, typed; models without one are missing.

    One that expired holds until another takes its place: no fallback, error code or objective of
    what serves goes away at midnight.
    """
    rows = (
        ServiceContract.objects.holding()
        .filter(model_id__in=list(model_ids))
        .order_by("model_id", "-revision")
        .distinct("model_id")
        .values_list("model_id", "payload")
    )
    return {model_id: _document(bytes(payload)) for model_id, payload in rows}


def contracts_that_held(
    model_ids: Iterable[int], end: datetime
) -> dict[int, contract_document.ContractDocument]:
    """The contract that held for each model at `end`; where none did yet, the one that holds."""
    wanted = set(model_ids)
    rows = (
        ServiceContract.objects.filter(model_id__in=wanted, in_force_at__lt=end)
        .order_by("model_id", "-in_force_at")
        .distinct("model_id")
        .values_list("model_id", "payload")
    )
    held = {model_id: _document(bytes(payload)) for model_id, payload in rows}
    return {**contracts_that_hold(wanted - held.keys()), **held}


@lru_cache(maxsize=1024)
def _document(payload: bytes) -> contract_document.ContractDocument:
    """Contracts never change once proposed, and reading one strictly takes longer than all else."""
    return contract_document.load(payload)


def fallback_of(contract: contract_document.ContractDocument) -> Fallback:
    """The contract's level 2 answer in the form that the gateway's rules take."""
    outputs = tuple(
        Output(tensor.name, tensor.dtype, tensor.dims) for tensor in contract.interface.outputs
    )
    return Fallback(
        response=contract.fallback.response,
        outputs=outputs if contract.fallback_outputs else (),
    )


def header_rules_of(stored: Iterable[dict[str, Any]]) -> tuple[HeaderRule, ...]:
    """Header rules as they are stored on a split."""
    return tuple(HeaderRule(one["header"], one["value"], int(one["version"])) for one in stored)


def testers_of(split: TrafficSplit) -> tuple[HeaderRule, ...]:
    """A split's testers, as rules on the sticky header."""
    return tuple(
        HeaderRule(split.sticky_header, one["caller"], int(one["version"])) for one in split.testers
    )


def mirror_of(stored: dict[str, Any] | None) -> Mirror | None:
    """A mirror as it is stored on a split."""
    return Mirror(int(stored["version"]), int(stored["basis_points"])) if stored else None


def _endpoint_state(
    endpoint: Endpoint,
    targets: dict[int, Target],
    contract: contract_document.ContractDocument | None,
    watched: Observed,
    served: dict[int, ServedInterface],
) -> EndpointState:
    split = endpoint.current
    access = access_rules(endpoint)
    weights = {int(number): points for number, points in split.weights.items()} if split else {}
    rules = (*testers_of(split), *header_rules_of(split.header_rules)) if split else ()
    mirror = mirror_of(split.mirror) if split else None
    wanted = {number for number, points in weights.items() if points}
    wanted |= {rule.version for rule in rules} | ({mirror.version} if mirror else set())
    # A version that stopped being ready must cost its own share only: it stays, without a node.
    absent = {number: Target(endpoint.model.name, number, ()) for number in wanted - set(targets)}
    return EndpointState(
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        revision=split.revision if split else 0,
        mode=Mode(split.mode) if split else Mode.NORMAL,
        weights=weights,
        slices=slices.of_split(split.slices, weights) if split else (),
        targets={**targets, **absent},
        sticky_header=split.sticky_header if split else "x-user-id",
        header_rules=rules,
        mirror=mirror,
        probe=split.probe if split else 0,
        fallback=fallback_of(contract) if contract else None,
        rules_fallback=bool(contract and contract.fallback.rules),
        unavailable_code=contract.unavailable_code if contract else "model_unavailable",
        access=access,
        **request_fields(endpoint, contract, access, served.values()),
        sampling=_sampling(
            watched.pairs.get(endpoint.pk), targets, share_of_endpoint(endpoint, contract)
        ),
        experiment=endpoint.pk in watched.experiments,
    )


def _sampling(pair: Pair | None, targets: dict[int, Target], measured: int) -> Sampling | None:
    """For two versions to compare, unless one of them is ready nowhere; or to measure the model.

    `measured`: the basis points that are looked at for drift. The larger share serves both.
    """
    ready = {number for number, target in targets.items() if target.nodes}
    compared = pair is not None and ready.issuperset(pair)
    points = max(measured if ready else 0, Sampling().basis_points if compared else 0)
    return Sampling(points) if points else None
