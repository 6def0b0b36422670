"""What a gateway does with each request of an endpoint, as its contract and its policy say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deployments.models import Endpoint
from deployments.rules.access.input_rules import ServedInterface, rules_of
from deployments.rules.access.rules import AccessRules
from deployments.rules.traffic.retries import baseline_of
from models_registry.models import ModelVersion
from models_registry.rules.contract_document import ContractDocument
from models_registry.rules.contract_types import DEFAULT_TIMEOUT_MS


def served_interface(version: ModelVersion) -> ServedInterface:
    """What a version's export found of its inputs; no query."""
    return ServedInterface.from_facts(version.facts, version.config_origins)


def request_fields(
    endpoint: Endpoint,
    contract: ContractDocument | None,
    access: AccessRules,
    served: Iterable[ServedInterface],
) -> Mapping[str, Any]:
    """The fields of an `EndpointState` that speak of one request.

    The policy's time-out goes before the contract's. Without a contract only what holds for every
    model is checked.
    """
    weights = endpoint.current.weights if endpoint.current else {}
    baseline = baseline_of({int(number): points for number, points in weights.items()})
    fields: dict[str, Any] = {
        "timeout_ms": DEFAULT_TIMEOUT_MS,
        "retry_onto": baseline if access.retries.onto_baseline else None,
    }
    if contract is not None:
        fields |= {
            "timeout_ms": contract.timeout_ms,
            "input_rules": rules_of(contract.interface, served),
            "invalid_code": contract.invalid_input_code,
            "idempotent": contract.request.idempotent,
        }
    if access.limits.timeout_ms is not None:
        fields["timeout_ms"] = access.limits.timeout_ms
    return fields
