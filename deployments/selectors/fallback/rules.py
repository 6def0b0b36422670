"""The contracts that hold and have fallback rules, as the edge serves them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from console.errors import CovenantError
from deployments.rules.fallback.rule_answers import ServedRules, served_rules
from deployments.selectors.traffic.routing import fallback_of
from models_registry.models import ServiceContract
from models_registry.rules import contract_document

log = logging.getLogger(__name__)

Key = tuple[str, int]
"""Model's name and its contract's revision, which never changes."""


def rules_in_force(known: Mapping[Key, ServedRules]) -> dict[Key, ServedRules]:
    """The rules of every contract that holds and has any; what is `known` is not read again.

    One query, and one more where a contract is new. A contract whose rules cannot be used is left
    out: its fixed response answers.
    """
    rows = (
        ServiceContract.objects.holding()
        .order_by("model_id", "-revision")
        .distinct("model_id")
        .values_list("model__name", "revision", "pk", "document__fallback__rules")
    )
    wanted = {(name, revision): pk for name, revision, pk, rules in rows if rules}
    fresh = [pk for key, pk in wanted.items() if key not in known]
    payloads = (
        dict(ServiceContract.objects.filter(pk__in=fresh).values_list("pk", "payload"))
        if fresh
        else {}
    )
    found = {}
    for key, pk in wanted.items():
        if key in known:
            found[key] = known[key]
        elif pk in payloads:
            try:
                document = contract_document.load(bytes(payloads[pk]), "json")
                found[key] = served_rules(document, fallback_of(document), key[1])
            except CovenantError:
                log.exception("the rules of %s, revision %s, cannot be used", *key)
    return found
