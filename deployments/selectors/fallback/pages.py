"""What answers at an endpoint while no model may, and how often each part of it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.models import User
from deployments.adapters import rule_store
from deployments.models import Endpoint, EndpointMode
from deployments.selectors.traffic.endpoints import find_endpoint
from models_registry.models import ServiceContract
from models_registry.rules import contract_document
from models_registry.rules.contract_types import ContractDocument, Fallback


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule in force; `answered` and `unjudged` are rows of the last hour."""

    number: int
    name: str
    when: str
    response: Mapping[str, Any]
    answered: int
    unjudged: int


@dataclass(frozen=True, slots=True)
class FallbackPage:
    """`document` is the contract that holds, None where there is none."""

    endpoint: Endpoint
    mode: str
    revision: int | None
    document: ContractDocument | None
    rules: tuple[RuleLine, ...] = ()
    fixed_answered: int = 0

    @property
    def fallback(self) -> Fallback | None:
        return self.document.fallback if self.document else None

    @property
    def answers_now(self) -> bool:
        """Whether callers meet the fallback at this moment."""
        return self.mode == EndpointMode.FALLBACK


def fallback_page(environment: str, model: str, *, user: User) -> FallbackPage:
    """The fallback that is in force at an endpoint; two queries. Raises NotFound."""
    endpoint = find_endpoint(environment, model, user=user)
    contract = ServiceContract.objects.holding().filter(model=endpoint.model_id).first()
    mode = endpoint.current.mode if endpoint.current else EndpointMode.NORMAL
    if contract is None:
        return FallbackPage(endpoint, mode, None, None)
    document = contract_document.load(bytes(contract.payload), "json")
    counts = rule_store.last_hour(f"{environment}/{model}") if document.fallback.rules else {}
    rules = tuple(
        RuleLine(
            number=number,
            name=rule.name,
            when=rule.when,
            response=rule.response,
            answered=counts.get(("answered", rule.name), 0),
            unjudged=counts.get(("unjudged", rule.name), 0),
        )
        for number, rule in enumerate(document.fallback.rules, start=1)
    )
    fixed = counts.get(("answered", rule_store.FIXED), 0)
    return FallbackPage(endpoint, mode, contract.revision, document, rules, fixed)
