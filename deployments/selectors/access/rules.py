"""The access rules that hold at an endpoint, read from its stored policy."""

from __future__ import annotations

import json
import logging
from functools import lru_cache

from console.errors import Invalid
from deployments.models import Endpoint
from deployments.rules.access.policies import parse_policy
from deployments.rules.access.rules import OPEN, AccessRules

CLOSED = AccessRules(deny_networks=("0.0.0.0/0", "::/0"))
"""What holds when a stored policy cannot be read: nobody gets in, instead of everybody."""

log = logging.getLogger(__name__)


def access_rules(endpoint: Endpoint) -> AccessRules:
    """An endpoint's rules; no query when its `access_policy` was selected with it."""
    policy = getattr(endpoint, "access_policy", None)
    if policy is None:
        return OPEN
    return stored_rules(policy.document)


def stored_rules(document: object) -> AccessRules:
    """The rules of a stored document; those that let nobody in when it cannot be read."""
    return _rules(json.dumps(document, sort_keys=True))


@lru_cache(maxsize=4096)
def _rules(document: str) -> AccessRules:
    try:
        return parse_policy(json.loads(document))
    except Invalid:
        log.exception("an access policy cannot be read; its endpoint refuses everybody")
        return CLOSED
