"""Changing who may call an endpoint, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import Invalid, Stale
from console.services import audit
from deployments.models import AccessPolicy, Endpoint, TokenIssuer
from deployments.rules.access.policies import (
    asked_of_gateways,
    parse_policy,
    policy_document,
    unknown_issuers,
)
from deployments.rules.access.rules import OPEN, AccessRules
from deployments.rules.gateways.capabilities import lacks
from deployments.selectors.gateways.capabilities import gateways_of, refuse_lacks
from deployments.services.gateways.desired import wake_gateways
from deployments.services.traffic.splits import locked_endpoint, need_reason


def set_access_policy(
    *,
    environment: str,
    model: str,
    policy: Mapping[str, Any],
    expected_revision: int | None,
    reason: str,
    actor: Actor,
) -> AccessPolicy:
    """Put a policy in force, whole; fields left out have their defaults.

    `expected_revision` is that of the policy looked at (0: none yet), None to replace whatever is
    there. The same policy again is given back as it stands. Raises Invalid with a pointer for each
    fault, Conflict `not_by_gateway`, Stale, NotFound, NotAllowed.
    """
    require(actor, "access.change")
    rules = parse_policy(policy)
    need_reason(reason)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "access.change")
        found = AccessPolicy.objects.select_related("changed_by").filter(endpoint=endpoint).first()
        document = policy_document(rules)
        if found is not None and found.document == document:
            return found
        _check_revision(endpoint, found, expected_revision)
        _check_issuers(endpoint, rules)
        known = gateways_of(environment)
        for capability in asked_of_gateways(rules):
            refuse_lacks(lacks(known, capability))
        before = found.document if found else None
        changed = found or AccessPolicy(endpoint=endpoint, revision=0)
        changed.document, changed.changed_by = document, actor.user
        changed.revision += 1
        changed.save()
        wake_gateways()
        live.publish(f"endpoint:{endpoint}", "access.changed", {"revision": changed.revision})
        audit.record(
            actor=actor,
            action="access.change",
            subject=str(endpoint),
            subject_url=f"/endpoints/{endpoint}/access/",
            reason=reason.strip(),
            before=before,
            after=document,
        )
    return changed


def _check_revision(endpoint: Endpoint, found: AccessPolicy | None, expected: int | None) -> None:
    revision = found.revision if found else 0
    if expected is None or expected == revision:
        return
    who = f" by {found.changed_by.username}" if found else ""
    raise Stale(
        f"The access policy of {endpoint} has changed{who} since revision {expected}: it is now "
        f"revision {revision}.",
        hint="Look at the present policy, then apply your change to it.",
    )


def _check_issuers(endpoint: Endpoint, rules: AccessRules) -> None:
    if rules == OPEN or not rules.issuers:
        return
    known = set(
        TokenIssuer.objects.select_for_update()
        .filter(environment_id=endpoint.environment_id)
        .values_list("name", flat=True)
    )
    if faults := unknown_issuers(rules, known):
        raise Invalid(
            f"{endpoint.environment.name} has no such token issuer: {faults[0].detail}",
            code="unknown_issuer",
            hint="Register the issuer first, under Callers.",
            errors=faults,
        )
