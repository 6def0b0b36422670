"""The endpoints whose model is measured: where versions answer, and what they were trained on."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.models import Endpoint, EndpointMode
from deployments.selectors.experiments.sampled_endpoints import infer_urls, longest_wait_s
from deployments.selectors.telemetry.shares import share_of_endpoint
from deployments.selectors.traffic.routing import Key, contracts_that_hold, ready_targets
from models_registry.models import ModelVersion, ReferenceSample
from models_registry.rules.contract_document import ContractDocument
from models_registry.selectors.reference_samples import reference_samples

MOST_ENDPOINTS = 200
"""Endpoints that one edge measures; the first ones by their age."""


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """Where a version's training data is kept: a training sample, or its recorded request."""

    version_id: int
    artifact_id: int
    recorded_request: bool = False


@dataclass(frozen=True, slots=True)
class MeasuredVersion:
    """A version that callers get; `urls` are where it takes inference, node by node."""

    number: int
    batched: bool
    urls: tuple[str, ...]
    trained_on: TrainedOn | None


@dataclass(frozen=True, slots=True)
class MeasuredEndpoint:
    """`probabilities` are the outputs that the contract bounds by 0 and 1, or that sum up to 1."""

    endpoint_id: int
    environment: str
    model: str
    versions: tuple[MeasuredVersion, ...]
    probabilities: frozenset[str]
    timeout_s: float


def measured_endpoints() -> dict[str, MeasuredEndpoint]:
    """Every endpoint ("env/model") to measure that has a version ready; five queries."""
    rows = (
        Endpoint.objects.select_related("model", "environment", "current", "telemetry_setting")
        .filter(current__mode=EndpointMode.NORMAL)
        .order_by("pk")
    )
    endpoints = list(rows)
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    wanted = [
        endpoint
        for endpoint in endpoints
        if share_of_endpoint(endpoint, contracts.get(endpoint.model_id))
    ][:MOST_ENDPOINTS]
    if not wanted:
        return {}
    targets = ready_targets({endpoint.environment_id for endpoint in wanted})
    versions = _versions(wanted)
    samples = reference_samples([version.pk for version in versions.values()])
    found = {}
    for endpoint in wanted:
        contract = contracts.get(endpoint.model_id)
        here = targets.get((endpoint.model_id, endpoint.environment_id), {})
        measured = tuple(
            MeasuredVersion(
                number=number,
                batched=version.facts.get("batch_axis") == 0,
                urls=infer_urls(here[number]),
                trained_on=_trained_on(version, samples),
            )
            for number in _carrying(endpoint)
            if number in here
            and here[number].nodes
            and (version := versions.get((endpoint.model_id, number))) is not None
        )
        if measured:
            found[str(endpoint)] = MeasuredEndpoint(
                endpoint.pk,
                endpoint.environment.name,
                endpoint.model.name,
                measured,
                _probabilities(contract),
                longest_wait_s(contract),
            )
    return found


def _carrying(endpoint: Endpoint) -> list[int]:
    weights = endpoint.current.weights if endpoint.current else {}
    return sorted(int(number) for number, points in weights.items() if points)


def _versions(endpoints: list[Endpoint]) -> dict[Key, ModelVersion]:
    """(Model id, number) → version, of those that carry traffic; one query."""
    numbers = {number for endpoint in endpoints for number in _carrying(endpoint)}
    rows = ModelVersion.objects.filter(
        model_id__in={endpoint.model_id for endpoint in endpoints}, number__in=numbers
    ).only("pk", "model_id", "number", "facts", "sample_id")
    return {(row.model_id, row.number): row for row in rows}


def _trained_on(version: ModelVersion, samples: dict[int, ReferenceSample]) -> TrainedOn | None:
    if (sample := samples.get(version.pk)) is not None:
        return TrainedOn(version.pk, sample.artifact_id)
    if version.sample_id is not None:
        return TrainedOn(version.pk, version.sample_id, recorded_request=True)
    return None


def _probabilities(contract: ContractDocument | None) -> frozenset[str]:
    if contract is None:
        return frozenset()
    return frozenset(
        one.name
        for one in contract.interface.outputs
        if (one.minimum, one.maximum) == (0, 1) or one.sums_to == 1
    )
