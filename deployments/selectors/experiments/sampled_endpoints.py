"""The endpoints whose two versions are compared: where each answers, and what its contract says."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from deployments.models import Endpoint
from deployments.rules.experiments.comparisons import OutputRule, Tolerance
from deployments.rules.gateways.state import Target
from deployments.selectors.experiments.sampled_pairs import observed
from deployments.selectors.traffic.routing import contracts_that_hold, ready_targets
from models_registry.rules.contract_document import ContractDocument

FEWEST_SECONDS = 1.0
DEFAULT_SECONDS = 5.0
"""How long a version may take where no contract says more."""


@dataclass(frozen=True, slots=True)
class SampledEndpoint:
    """`baseline_urls` and `candidate_urls` are where each version takes inference, node by node."""

    environment: str
    model: str
    baseline: int
    candidate: int
    baseline_urls: tuple[str, ...]
    candidate_urls: tuple[str, ...]
    outputs: tuple[OutputRule, ...]
    tolerance: Tolerance
    timeout_s: float


def sampled_endpoints() -> dict[str, SampledEndpoint]:
    """Every endpoint ("env/model") where both versions of a pair are ready; five queries."""
    endpoints = list(
        Endpoint.objects.select_related("model", "environment", "current").order_by("pk")
    )
    pairs = observed(endpoints).pairs
    wanted = [endpoint for endpoint in endpoints if endpoint.pk in pairs]
    targets = ready_targets({endpoint.environment_id for endpoint in wanted})
    contracts = contracts_that_hold({endpoint.model_id for endpoint in wanted})
    found = {}
    for endpoint in wanted:
        here = targets.get((endpoint.model_id, endpoint.environment_id), {})
        baseline, candidate = pairs[endpoint.pk]
        baseline_urls = infer_urls(here[baseline]) if baseline in here else ()
        candidate_urls = infer_urls(here[candidate]) if candidate in here else ()
        if baseline_urls and candidate_urls:
            contract = contracts.get(endpoint.model_id)
            found[str(endpoint)] = SampledEndpoint(
                endpoint.environment.name,
                endpoint.model.name,
                baseline,
                candidate,
                baseline_urls,
                candidate_urls,
                _outputs(contract),
                _tolerance(contract),
                longest_wait_s(contract),
            )
    return found


def infer_urls(target: Target) -> tuple[str, ...]:
    """Where a version takes inference, node by node."""
    path = f"/v2/models/{quote(target.triton_model)}/versions/{target.triton_version}/infer"
    return tuple(
        f"http://{f'[{node.host}]' if ':' in node.host else node.host}:{node.http_port}{path}"
        for node in target.nodes
    )


def _outputs(contract: ContractDocument | None) -> tuple[OutputRule, ...]:
    if contract is None:
        return ()
    return tuple(
        OutputRule(
            one.name, one.dtype, one.dims, one.minimum, one.maximum, nan_allowed=one.nan == "allow"
        )
        for one in contract.interface.outputs
    )


def _tolerance(contract: ContractDocument | None) -> Tolerance:
    if contract is None:
        return Tolerance()
    return Tolerance(contract.validation.atol, contract.validation.rtol)


def longest_wait_s(contract: ContractDocument | None) -> float:
    """Well above what callers are kept waiting: the gateway's own numbers judge how fast it is."""
    if contract is None or contract.latency is None:
        return DEFAULT_SECONDS
    return max(20 * contract.latency.threshold_ms / 1000, FEWEST_SECONDS)
