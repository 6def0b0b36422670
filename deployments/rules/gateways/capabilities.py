"""What each gateway product can do of what Covenant asks, as data: for pages, and for refusals.

A capability that is only partly there names the part that is missing. What depends on how one
gateway is set up is read from its options, so the same product may answer differently twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from models_registry.rules.contract_terms import gettext_noop

PRODUCT_NAMES = {"envoy": "Envoy", "kong": "Kong", "kubernetes": "Kubernetes Gateway API"}


class Capability(StrEnum):
    """One thing that an endpoint may ask of the gateways of its environment."""

    WEIGHTS = "weights"
    STICKY = "sticky"
    MINIMAL_MOVEMENT = "minimal_movement"
    HEADER_RULES = "header_rules"
    TESTERS = "testers"
    MIRROR = "mirror"
    COMPARISON = "comparison"
    EXPERIMENTS = "experiments"
    RETRY_ONTO_BASELINE = "retry_onto_baseline"
    VALIDATION = "validation"
    AUTHENTICATION = "authentication"
    ALLOW_DENY = "allow_deny"
    RATE_LIMITS = "rate_limits"
    BODY_LIMIT = "body_limit"
    TIMEOUT = "timeout"
    CONCURRENCY = "concurrency"
    FALLBACK_FIXED = "fallback_fixed"
    FALLBACK_RULES = "fallback_rules"
    OPEN_CIRCUIT = "open_circuit"
    HALF_OPEN = "half_open"
    VERSION_STATISTICS = "version_statistics"
    ACKNOWLEDGEMENT = "acknowledgement"


class Level(StrEnum):
    """How far a capability goes."""

    FULL = "full"
    PART = "part"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Support:
    """How far one gateway supports one capability; `words` say what is missing, or why."""

    capability: Capability
    level: Level
    words: str = ""

    @property
    def usable(self) -> bool:
        """Whether it may be asked for at all."""
        return self.level is not Level.NONE


@dataclass(frozen=True, slots=True)
class Lack:
    """A gateway that cannot do something."""

    gateway: str
    product: str
    support: Support


_Table = Mapping[Capability, tuple[Level, str]]

_KONG: _Table = {
    Capability.WEIGHTS: (
        Level.PART,
        gettext_noop(
            "Kong's open source edition has no plugin for splits, and a target cannot rewrite a "
            "path: a split among versions runs a function of the bundled pre-function plugin."
        ),
    ),
    Capability.HEADER_RULES: (
        Level.PART,
        gettext_noop("Kong compares the values of headers without regard to case."),
    ),
    Capability.TESTERS: (
        Level.PART,
        gettext_noop("Kong compares the values of headers without regard to case."),
    ),
    Capability.MIRROR: (
        Level.NONE,
        gettext_noop("Kong has no plugin for mirroring in its open source edition."),
    ),
    Capability.COMPARISON: (
        Level.NONE,
        gettext_noop("Comparing outputs needs copies of requests."),
    ),
    Capability.EXPERIMENTS: (
        Level.NONE,
        gettext_noop("Kong does not tell the experiment who got which version."),
    ),
    Capability.RETRY_ONTO_BASELINE: (
        Level.NONE,
        gettext_noop("Kong retries within one upstream only."),
    ),
    Capability.VALIDATION: (Level.NONE, gettext_noop("Requests reach Triton as they came.")),
    Capability.AUTHENTICATION: (
        Level.NONE,
        gettext_noop("Callers and their keys are not sent to Kong."),
    ),
    Capability.ALLOW_DENY: (Level.NONE, gettext_noop("Allow and deny lists are not sent to Kong.")),
    Capability.RATE_LIMITS: (Level.NONE, gettext_noop("Rate limits are not sent to Kong.")),
    Capability.BODY_LIMIT: (Level.NONE, gettext_noop("The body limit is not sent to Kong.")),
    Capability.TIMEOUT: (
        Level.PART,
        gettext_noop(
            "Kong limits the time between two reads or writes, not that of the whole request."
        ),
    ),
    Capability.CONCURRENCY: (
        Level.NONE,
        gettext_noop("Kong has no limit on requests at one time."),
    ),
    Capability.FALLBACK_FIXED: (
        Level.PART,
        gettext_noop(
            "The answer is the contract's plain JSON, not tensors of the batch that was asked."
        ),
    ),
    Capability.FALLBACK_RULES: (
        Level.NONE,
        gettext_noop("Only the contract's fixed answer is sent to Kong."),
    ),
    Capability.HALF_OPEN: (
        Level.NONE,
        gettext_noop(
            "It answers by itself for all callers or for none, so nobody tries the way back."
        ),
    ),
    Capability.VERSION_STATISTICS: (
        Level.NONE,
        gettext_noop(
            "Kong counts by service; versions that share a split are counted together. Read "
            "Triton's own statistics instead."
        ),
    ),
    Capability.ACKNOWLEDGEMENT: (
        Level.PART,
        gettext_noop(
            "Kong says that a change is stored, and its workers take it up some seconds later: the "
            "acknowledgement waits for as long as Kong's own configuration says that may take."
        ),
    ),
}

_KUBERNETES: _Table = {
    Capability.STICKY: (
        Level.NONE,
        gettext_noop(
            "HTTPRoute cannot keep a caller on a version by a header of the caller's own."
        ),
    ),
    Capability.MINIMAL_MOVEMENT: (
        Level.NONE,
        gettext_noop("Without sticky callers each request is drawn anew."),
    ),
    Capability.MIRROR: (
        Level.NONE,
        gettext_noop(
            "HTTPRoute mirrors a request with the path of the version that answers it, and "
            "Triton's versions differ by their path."
        ),
    ),
    Capability.COMPARISON: (
        Level.NONE,
        gettext_noop("Sampled copies for comparison are not sent."),
    ),
    Capability.EXPERIMENTS: (Level.NONE, gettext_noop("Callers cannot be kept on a version.")),
    Capability.RETRY_ONTO_BASELINE: (
        Level.NONE,
        gettext_noop("HTTPRoute has no retry onto another backend."),
    ),
    Capability.VALIDATION: (Level.NONE, gettext_noop("HTTPRoute cannot look into a body.")),
    Capability.AUTHENTICATION: (
        Level.NONE,
        gettext_noop(
            "HTTPRoute has no authentication of callers; implementations have their own policies."
        ),
    ),
    Capability.ALLOW_DENY: (Level.NONE, gettext_noop("HTTPRoute has no allow and deny lists.")),
    Capability.RATE_LIMITS: (Level.NONE, gettext_noop("HTTPRoute has no rate limits.")),
    Capability.BODY_LIMIT: (Level.NONE, gettext_noop("HTTPRoute has no limit on bodies.")),
    Capability.CONCURRENCY: (
        Level.NONE,
        gettext_noop("HTTPRoute has no limit on requests at one time."),
    ),
    Capability.FALLBACK_FIXED: (Level.NONE, gettext_noop("HTTPRoute cannot answer by itself.")),
    Capability.FALLBACK_RULES: (Level.NONE, gettext_noop("HTTPRoute cannot answer by itself.")),
    Capability.OPEN_CIRCUIT: (
        Level.PART,
        gettext_noop(
            "Callers get the gateway's own 503, without the contract's error code and Retry-After."
        ),
    ),
    Capability.HALF_OPEN: (
        Level.NONE,
        gettext_noop(
            "It answers by itself for all callers or for none, so nobody tries the way back."
        ),
    ),
    Capability.VERSION_STATISTICS: (
        Level.NONE,
        gettext_noop(
            "The Gateway API has no statistics; read Triton's own, or those of the implementation."
        ),
    ),
    Capability.ACKNOWLEDGEMENT: (
        Level.PART,
        gettext_noop(
            "The controller says that it accepted a route, not that every proxy acts on it yet."
        ),
    ),
}

_TABLES: Mapping[str, _Table] = {"envoy": {}, "kong": _KONG, "kubernetes": _KUBERNETES}


def supports(product: str, options: Mapping[str, Any]) -> tuple[Support, ...]:
    """Every capability of one gateway, in the order of `Capability`.

    What a product's table does not name it does in full.
    """
    table = {**_TABLES[product], **_by_options(product, options)}
    return tuple(
        Support(capability, *table.get(capability, (Level.FULL, gettext_noop(""))))
        for capability in Capability
    )


def lacks(
    gateways: Iterable[tuple[str, str, Mapping[str, Any]]], capability: Capability
) -> tuple[Lack, ...]:
    """Those of the gateways `(name, product, options)` that cannot do this at all."""
    found = []
    for name, product, options in gateways:
        support = next(s for s in supports(product, options) if s.capability is capability)
        if not support.usable:
            found.append(Lack(name, product, support))
    return tuple(found)


def lack_words(lack: Lack) -> str:
    """One sentence for people: which gateway, of which product, and what is missing."""
    return f"The gateway {lack.gateway} is {PRODUCT_NAMES[lack.product]}: {lack.support.words}"


def _by_options(product: str, options: Mapping[str, Any]) -> _Table:
    if product == "kong" and options.get("functions") is False:
        why = gettext_noop(
            "This Kong runs no functions (untrusted_lua), so it cannot divide traffic."
        )
        return {
            Capability.WEIGHTS: (Level.NONE, why),
            Capability.STICKY: (Level.NONE, why),
            Capability.MINIMAL_MOVEMENT: (Level.NONE, why),
        }
    if product != "kubernetes":
        return {}
    table: dict[Capability, tuple[Level, str]] = {}
    if not options.get("backend_rewrites"):
        table[Capability.WEIGHTS] = (
            Level.NONE,
            gettext_noop(
                "It is not registered as one that rewrites the path of each backend "
                "(backend_rewrites), and Triton's versions differ by their path."
            ),
        )
    return table
