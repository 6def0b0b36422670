"""An endpoint's access policy as people write it: a JSON document, read strictly.

Every fault is told with the JSON pointer of its place, all of them at once. A field left out has
its default; one that nobody knows is refused, so that no typing error opens a door.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from console.errors import FieldError, Invalid
from deployments.rules.access.rules import (
    AccessRules,
    RateLimit,
    RequestLimits,
    Retries,
    Validation,
)
from deployments.rules.gateways.capabilities import Capability

MOST_CALLERS = 5000
MOST_NETWORKS = 1000
MOST_REQUESTS = 10_000_000
MOST_BODY_BYTES = 64 * 1024 * 1024
MOST_TIMEOUT_MS = 300_000
MOST_CONCURRENT = 100_000
SHORTEST_MS, LONGEST_MS = 100, 24 * 3600 * 1000

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_PERIOD = re.compile(r"([1-9][0-9]{0,8})(ms|s|m|h)\Z")
# A header's value carries it, and it stands in the gateway's words: visible ASCII only.
_CALLER = re.compile(r"[!-~]{1,200}\Z")
_ISSUER = re.compile(r"[A-Za-z0-9_-]{1,60}\Z")


def parse_policy(document: object) -> AccessRules:
    """The rules that a document asks for.

    Raises Invalid `invalid_access_policy` with a pointer for each fault.
    """
    reader = _Reader()
    root = reader.mapping(
        document,
        "",
        {"authentication", "allow", "deny", "rate_limits", "limits", "retries", "validation"},
    )
    who = reader.part(root, "authentication", {"required", "api_key", "issuers"})
    allow = reader.part(root, "allow", {"callers", "networks"})
    deny = reader.part(root, "deny", {"callers", "networks"})
    rates = reader.part(root, "rate_limits", {"per_caller", "total"})
    limits = reader.part(root, "limits", {"max_body_bytes", "timeout_ms", "max_concurrent"})
    retries = reader.part(root, "retries", {"onto_baseline"})
    rules = AccessRules(
        required=reader.flag(who, "/authentication/required", default=False),
        api_key=reader.flag(who, "/authentication/api_key", default=False),
        issuers=reader.names(who, "/authentication/issuers", _read_issuer, 20),
        allow_callers=reader.names(allow, "/allow/callers", _read_caller, MOST_CALLERS),
        allow_networks=reader.names(allow, "/allow/networks", _read_network, MOST_NETWORKS),
        deny_callers=reader.names(deny, "/deny/callers", _read_caller, MOST_CALLERS),
        deny_networks=reader.names(deny, "/deny/networks", _read_network, MOST_NETWORKS),
        per_caller=reader.rate(rates, "/rate_limits/per_caller"),
        total=reader.rate(rates, "/rate_limits/total"),
        limits=RequestLimits(
            max_body_bytes=reader.number(limits, "/limits/max_body_bytes", 1, MOST_BODY_BYTES),
            timeout_ms=reader.number(limits, "/limits/timeout_ms", 1, MOST_TIMEOUT_MS),
            max_concurrent=reader.number(limits, "/limits/max_concurrent", 1, MOST_CONCURRENT),
        ),
        retries=Retries(reader.flag(retries, "/retries/onto_baseline", default=True)),
        validation=reader.validation(root),
    )
    reader.faults.extend(_contradictions(rules))
    if reader.faults:
        raise Invalid(
            "The access policy cannot be used: "
            + "; ".join(f"{fault.pointer or '/'}: {fault.detail}" for fault in reader.faults[:3]),
            code="invalid_access_policy",
            hint="Correct the places named; fields left out have their defaults.",
            errors=tuple(reader.faults),
        )
    return rules


def policy_document(rules: AccessRules) -> dict[str, Any]:
    """The rules as a whole document, every field written out, in its one stored form."""
    return {
        "authentication": {
            "required": rules.required,
            "api_key": rules.api_key,
            "issuers": list(rules.issuers),
        },
        "allow": {"callers": list(rules.allow_callers), "networks": list(rules.allow_networks)},
        "deny": {"callers": list(rules.deny_callers), "networks": list(rules.deny_networks)},
        "rate_limits": {"per_caller": _rate(rules.per_caller), "total": _rate(rules.total)},
        "limits": {
            "max_body_bytes": rules.limits.max_body_bytes,
            "timeout_ms": rules.limits.timeout_ms,
            "max_concurrent": rules.limits.max_concurrent,
        },
        "retries": {"onto_baseline": rules.retries.onto_baseline},
        "validation": rules.validation.value,
    }


def unknown_issuers(rules: AccessRules, known: Collection[str]) -> tuple[FieldError, ...]:
    """A fault for each issuer that the environment does not have."""
    return tuple(
        FieldError(f"/authentication/issuers/{index}", f"No token issuer is called {name}.")
        for index, name in enumerate(rules.issuers)
        if name not in known
    )


def asked_of_gateways(rules: AccessRules) -> tuple[Capability, ...]:
    """What a gateway has to be able to do, for these rules to hold."""
    asked = {
        Capability.AUTHENTICATION: rules.identifies,
        Capability.ALLOW_DENY: bool(rules.allow_callers or rules.deny_callers)
        or rules.has_networks,
        Capability.RATE_LIMITS: rules.has_rates,
        Capability.BODY_LIMIT: rules.limits.max_body_bytes is not None,
        Capability.TIMEOUT: rules.limits.timeout_ms is not None,
        Capability.CONCURRENCY: rules.limits.max_concurrent is not None,
    }
    return tuple(capability for capability, is_asked in asked.items() if is_asked)


def period_words(per_ms: int) -> str:
    """A bucket's period as the document writes it, in the largest unit that divides it."""
    for unit, size in sorted(_UNITS_MS.items(), key=lambda item: -item[1]):
        if per_ms % size == 0:
            return f"{per_ms // size}{unit}"
    raise AssertionError("every whole number of milliseconds has a unit")


def _rate(limit: RateLimit | None) -> dict[str, Any] | None:
    if limit is None:
        return None
    return {
        "requests": limit.requests,
        "per": period_words(limit.per_ms),
        "burst": limit.burst,
    }


def _contradictions(rules: AccessRules) -> list[FieldError]:
    """What is well written, and yet would let nobody in or keep nobody out."""
    if rules.identifies:
        return []
    faults: list[FieldError] = []
    if rules.required:
        faults.append(
            FieldError(
                "/authentication/required",
                "Nobody could call: allow API keys, or name a token issuer.",
            )
        )
    for pointer, callers in (
        ("/allow/callers", rules.allow_callers),
        ("/deny/callers", rules.deny_callers),
    ):
        if callers:
            faults.append(
                FieldError(pointer, "Without API keys or token issuers no caller has a name.")
            )
    return faults


def _read_issuer(value: str) -> str:
    if not _ISSUER.match(value):
        raise ValueError("Use the name of a token issuer: letters, digits, - and _.")
    return value


def _read_caller(value: str) -> str:
    if not _CALLER.match(value):
        raise ValueError("A caller's name has 1 to 200 visible ASCII characters, without spaces.")
    return value


def _read_network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value.strip()))
    except ValueError as fault:
        if "host bits" in str(fault):
            right = ipaddress.ip_network(value.strip(), strict=False)
            raise ValueError(f"The network of this address is {right}.") from fault
        raise ValueError("Use an address or a network, such as 10.0.0.0/8.") from fault


class _Reader:
    """Reads a document's fields, and remembers every fault."""

    def __init__(self) -> None:
        self.faults: list[FieldError] = []

    def fault(self, pointer: str, detail: str) -> None:
        self.faults.append(FieldError(pointer, detail))

    def mapping(self, value: object, pointer: str, known: set[str]) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self.fault(pointer, "This is an object.")
            return {}
        for name in value:
            if name not in known:
                escaped = str(name).replace("~", "~0").replace("/", "~1")
                self.fault(
                    f"{pointer}/{escaped}", f"Unknown field. Known: {', '.join(sorted(known))}."
                )
        return value

    def part(self, root: Mapping[str, Any], name: str, known: set[str]) -> Mapping[str, Any]:
        return self.mapping(root.get(name, {}), f"/{name}", known)

    def flag(self, part: Mapping[str, Any], pointer: str, *, default: bool) -> bool:
        value = part.get(_last(pointer), default)
        if isinstance(value, bool):
            return value
        self.fault(pointer, "This is true or false.")
        return default

    def number(self, part: Mapping[str, Any], pointer: str, least: int, most: int) -> int | None:
        value = part.get(_last(pointer))
        if value is None or (type(value) is int and least <= value <= most):
            return value
        self.fault(pointer, f"This is a whole number from {least} to {most}, or null.")
        return None

    def names(
        self, part: Mapping[str, Any], pointer: str, read: Callable[[str], str], most: int
    ) -> tuple[str, ...]:
        values = part.get(_last(pointer), [])
        if not isinstance(values, list):
            self.fault(pointer, "This is a list.")
            return ()
        if len(values) > most:
            self.fault(pointer, f"At most {most}.")
            return ()
        found: dict[str, None] = {}
        for index, value in enumerate(values):
            try:
                if not isinstance(value, str):
                    raise ValueError("This is a string.")
                found[read(value)] = None
            except ValueError as fault:
                self.fault(f"{pointer}/{index}", str(fault))
        return tuple(found)

    def rate(self, part: Mapping[str, Any], pointer: str) -> RateLimit | None:
        value = part.get(_last(pointer))
        if value is None:
            return None
        before = len(self.faults)
        limit = self.mapping(value, pointer, {"requests", "per", "burst"})
        requests = self.number(limit, f"{pointer}/requests", 1, MOST_REQUESTS)
        if requests is None and len(self.faults) == before:
            self.fault(f"{pointer}/requests", "This is needed.")
        burst = self.number(limit, f"{pointer}/burst", 1, MOST_REQUESTS)
        per_ms = self.period(limit.get("per", "1s"), f"{pointer}/per")
        if requests is None:
            return None
        return RateLimit(requests, per_ms, burst if burst is not None else requests)

    def period(self, value: object, pointer: str) -> int:
        match = _PERIOD.match(value) if isinstance(value, str) else None
        per_ms = int(match[1]) * _UNITS_MS[match[2]] if match else 0
        if not SHORTEST_MS <= per_ms <= LONGEST_MS:
            self.fault(pointer, "This is a time from 100ms to 24h, such as 1s or 10m.")
            return 1000
        return per_ms

    def validation(self, root: Mapping[str, Any]) -> Validation:
        value = root.get("validation", Validation.REFUSE.value)
        if isinstance(value, str) and value in [one.value for one in Validation]:
            return Validation(value)
        self.fault("/validation", "This is refuse or off.")
        return Validation.REFUSE


def _last(pointer: str) -> str:
    return pointer.rpartition("/")[2]
