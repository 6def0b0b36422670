"""What capabilities of gateways are called, and why one is missing, in the reader's language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils.translation import gettext, gettext_lazy

from deployments.rules.gateways.capabilities import PRODUCT_NAMES, Capability, Lack, lacks
from deployments.selectors.gateways.capabilities import gateways_of

_NAMES = {
    Capability.WEIGHTS: gettext_lazy("Weights among several versions"),
    Capability.STICKY: gettext_lazy("Callers stay on their version"),
    Capability.MINIMAL_MOVEMENT: gettext_lazy("Only the needed share of callers moves"),
    Capability.HEADER_RULES: gettext_lazy("Rules by header"),
    Capability.TESTERS: gettext_lazy("Testers pinned to a version"),
    Capability.MIRROR: gettext_lazy("Mirror"),
    Capability.COMPARISON: gettext_lazy("Sampled comparison of outputs"),
    Capability.EXPERIMENTS: gettext_lazy("Experiments"),
    Capability.RETRY_ONTO_BASELINE: gettext_lazy("Retry onto the old version"),
    Capability.VALIDATION: gettext_lazy("Bad requests refused with 422"),
    Capability.AUTHENTICATION: gettext_lazy("API keys and tokens of callers"),
    Capability.ALLOW_DENY: gettext_lazy("Allow and deny lists"),
    Capability.RATE_LIMITS: gettext_lazy("Rate limits"),
    Capability.BODY_LIMIT: gettext_lazy("Limit on bodies"),
    Capability.TIMEOUT: gettext_lazy("Time-out of a request"),
    Capability.CONCURRENCY: gettext_lazy("Requests at one time"),
    Capability.FALLBACK_FIXED: gettext_lazy("Fallback: the contract’s fixed answer"),
    Capability.FALLBACK_RULES: gettext_lazy("Fallback: the contract’s rules"),
    Capability.OPEN_CIRCUIT: gettext_lazy("Open circuit with the contract’s error"),
    Capability.HALF_OPEN: gettext_lazy("Return by a trial share"),
    Capability.VERSION_STATISTICS: gettext_lazy("Statistics by version"),
    Capability.ACKNOWLEDGEMENT: gettext_lazy("Acknowledgement of each change"),
}


def capability_name(key: str) -> str:
    """A capability's name for people."""
    return str(_NAMES[Capability(key)])


def lacking_words(environment: str, wanted: Iterable[Capability]) -> Mapping[str, str]:
    """Why each of these cannot be had in an environment, by capability; empty where all can.

    One query. Templates show a control as disabled with these words before anybody tries.
    """
    known = gateways_of(environment)
    found = {}
    for capability in wanted:
        if missing := lacks(known, capability):
            found[capability.value] = " ".join(map(_sentence, missing))
    return found


def _sentence(lack: Lack) -> str:
    return gettext("The gateway %(name)s is %(product)s: %(why)s") % {
        "name": lack.gateway,
        "product": PRODUCT_NAMES[lack.product],
        "why": gettext(lack.support.words),
    }
