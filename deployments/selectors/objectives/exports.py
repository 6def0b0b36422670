"""What contracts promise, in the forms that other tools read."""

from __future__ import annotations

import yaml
from django.conf import settings

from console.models import User
from deployments.rules.objectives import openslo as openslo_rules
from deployments.rules.objectives.prometheus_rules import PromisedEndpoint, rule_file
from deployments.selectors.objectives.promises import objectives_of
from deployments.selectors.traffic.endpoints import filtered
from models_registry.models import ServiceContract
from models_registry.rules import contract_document

HEAD = (
    "# Generated from the contracts that hold; made anew by `covenant export prometheus-rules`.\n"
)


def promised_endpoints(
    *, user: User, environment: str = "", model: str = ""
) -> list[PromisedEndpoint]:
    """Endpoints that the user may see whose contract has objectives, by name (two queries)."""
    endpoints = list(
        filtered(user=user, environment=environment, model=model).order_by(
            "environment__name", "model__name"
        )
    )
    rows = (
        ServiceContract.objects.holding()
        .filter(model_id__in={endpoint.model_id for endpoint in endpoints})
        .order_by("model_id", "-revision")
        .distinct("model_id")
        .values_list("model_id", "revision", "document")
    )
    held = {
        model_id: (revision, tuple(objectives_of(contract_document.from_json(document))))
        for model_id, revision, document in rows
    }
    return [
        PromisedEndpoint(endpoint.environment.name, endpoint.model.name, *held[endpoint.model_id])
        for endpoint in endpoints
        if endpoint.model_id in held and held[endpoint.model_id][1]
    ]


def prometheus_rules(*, user: User, environment: str = "", model: str = "") -> str:
    """Recording and alert rules of the endpoints that the user may see, as a rule file."""
    promised = promised_endpoints(user=user, environment=environment, model=model)
    content = rule_file(promised, settings.CONFIG.base_url)
    return HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def openslo(*, user: User, environment: str = "", model: str = "") -> str:
    """The objectives of the endpoints that the user may see, as OpenSLO v1 documents."""
    promised = promised_endpoints(user=user, environment=environment, model=model)
    documents = openslo_rules.documents(promised)
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=1000)
