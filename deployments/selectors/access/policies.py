"""An endpoint's access policy, as its page and the API show it."""

from __future__ import annotations

from console.models import User
from deployments.models import AccessPolicy, Endpoint
from deployments.rules.access.rules import OPEN, AccessRules
from deployments.selectors.access.rules import stored_rules
from deployments.selectors.traffic.endpoints import find_endpoint


def policy_at(
    environment: str, model: str, *, user: User
) -> tuple[Endpoint, AccessPolicy | None, AccessRules]:
    """An endpoint, its stored policy and its rules; two queries. Raises NotFound."""
    endpoint = find_endpoint(environment, model, user=user)
    policy = AccessPolicy.objects.select_related("changed_by").filter(endpoint=endpoint).first()
    if policy is None:
        return endpoint, None, OPEN
    return endpoint, policy, stored_rules(policy.document)
