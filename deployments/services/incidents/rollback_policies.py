"""When an endpoint goes down the levels by itself: what people decide on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from console import live
from console.actors import Actor, require
from console.errors import FieldError, Invalid, Stale
from console.services import audit
from deployments.models import Endpoint, RollbackPolicy
from deployments.rules.incidents import rollback_policies as rules
from deployments.selectors.incidents.rollback_policies import policy_in_force
from deployments.services.traffic.splits import locked_endpoint


def set_policy(
    *,
    environment: str,
    model: str,
    automatic: bool,
    document: Mapping[str, Any],
    expected_revision: int | None,
    actor: Actor,
    reason: str = "",
) -> RollbackPolicy:
    """Decide it anew; what is left out of the document has its default. The same again is once.

    Switching it off leaves the traffic as it is at that moment.

    Raises Invalid with a pointer for each fault, Stale when another revision is in force, NotFound,
    NotAllowed.
    """
    require(actor, "rollback_policy.change")
    if not isinstance(automatic, bool):
        raise Invalid(
            "Say whether it is automatic.",
            code="invalid_policy",
            errors=(FieldError("/automatic", "true or false."),),
        )
    policy = rules.parse_policy(document)
    wanted = rules.policy_json(policy)
    with transaction.atomic():
        endpoint = locked_endpoint(environment, model, actor, "rollback_policy.change")
        row = (
            RollbackPolicy.objects.select_for_update(of=("self",)).filter(endpoint=endpoint).first()
        )
        before = policy_in_force(endpoint, row)
        if row is not None and (before.automatic, before.policy) == (automatic, policy):
            return row
        if expected_revision is not None and expected_revision != before.revision:
            raise Stale(
                f"The rollback policy of {endpoint} is revision {before.revision} by now.",
                hint="Look at it again, then make your change.",
            )
        if row is None:
            row = RollbackPolicy(endpoint=endpoint, revision=0)
        row.automatic, row.document, row.changed_by = automatic, wanted, actor.user
        row.revision += 1
        if not automatic:
            # A re-deploy that somebody asked for goes on; the rule begins anew when it is on again.
            row.progress = {name: row.progress[name] for name in row.progress if name != "rule"}
        row.save()
        live.publish(f"endpoint:{endpoint}", "rollback_policy.changed")
        audit.record(
            actor=actor,
            action="rollback_policy.change",
            subject=str(endpoint),
            subject_url=f"/endpoints/{endpoint}/rollback-policy/",
            reason=reason.strip(),
            before={"automatic": before.automatic, **rules.policy_json(before.policy)},
            after={"automatic": automatic, **wanted},
        )
    return row


def locked_policy(endpoint: Endpoint, actor: Actor) -> RollbackPolicy:
    """The endpoint's row, locked; made with the environment's default where there is none.

    A row that no person made has revision 0. Belongs inside a transaction.
    """
    RollbackPolicy.objects.get_or_create(
        endpoint=endpoint,
        defaults={
            "automatic": endpoint.environment.production,
            "document": rules.policy_json(rules.RollbackPolicy()),
            "revision": 0,
            "changed_by": actor.user,
        },
    )
    return RollbackPolicy.objects.select_for_update(of=("self",)).get(endpoint=endpoint)
