"""What the API server refuses of the objects that Covenant writes, by their published schemas."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

JSON = Mapping[str, Any]

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_DURATION = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]{1,256}\Z")
_RULE = {"name", "matches", "filters", "backendRefs", "timeouts", "retry", "sessionPersistence"}
_FILTERS = {
    "RequestHeaderModifier": "requestHeaderModifier",
    "ResponseHeaderModifier": "responseHeaderModifier",
    "RequestMirror": "requestMirror",
    "RequestRedirect": "requestRedirect",
    "URLRewrite": "urlRewrite",
}
_MOST = 16


def faults_of(kind: str, one: JSON) -> list[str]:
    """Every fault of an object, in the words in which the API server tells them."""
    name = one["metadata"]["name"]
    wanted = _LABEL if kind == "Service" else _SUBDOMAIN
    found = [] if wanted.match(name) else [f'metadata.name: Invalid value: "{name}"']
    check = {"Service": _service, "EndpointSlice": _slice, "HTTPRoute": _route}[kind]
    return [*found, *check(one)]


def _service(one: JSON) -> Iterable[str]:
    if not one["spec"].get("ports"):
        yield "spec.ports: Required value"


def _slice(one: JSON) -> Iterable[str]:
    if one.get("addressType") not in ("IPv4", "IPv6", "FQDN"):
        yield f'addressType: Unsupported value: "{one.get("addressType")}"'
    for index, endpoint in enumerate(one.get("endpoints", ())):
        for address in endpoint["addresses"]:
            place = f"endpoints[{index}].addresses[0]"
            try:
                parsed = ipaddress.ip_address(address)
            except ValueError:
                yield f'{place}: Invalid value: "{address}": must be a valid IP address'
                continue
            if parsed.is_loopback:
                yield (
                    f'{place}: Invalid value: "{address}": may not be in the loopback range '
                    "(127.0.0.0/8, ::1/128)"
                )


def _route(one: JSON) -> Iterable[str]:
    spec = one["spec"]
    for field in set(spec) - {"parentRefs", "hostnames", "rules"}:
        yield f"spec.{field}: field not declared in schema"
    rules = spec["rules"]
    if len(rules) > _MOST:
        yield f"spec.rules: Too many: {len(rules)}: must have at most {_MOST} items"
    for index, rule in enumerate(rules):
        place = f"spec.rules[{index}]"
        for field in set(rule) - _RULE:
            yield f"{place}.{field}: field not declared in schema"
        yield from _filters(f"{place}.filters", rule.get("filters", ()))
        for field, value in rule.get("timeouts", {}).items():
            if not _DURATION.match(value):
                yield f'{place}.timeouts.{field}: Invalid value: "{value}"'
        for number, match in enumerate(rule.get("matches", ())):
            yield from _match(f"{place}.matches[{number}]", match)
        backends = rule.get("backendRefs", ())
        if len(backends) > _MOST:
            yield f"{place}.backendRefs: Too many: {len(backends)}: must have at most 16 items"
        for number, backend in enumerate(backends):
            here = f"{place}.backendRefs[{number}]"
            if not 0 <= backend.get("weight", 1) <= 1_000_000:
                yield f"{here}.weight: Invalid value: {backend['weight']}"
            if "port" not in backend:
                yield f"{here}: Must have port for Service reference"
            yield from _filters(f"{here}.filters", backend.get("filters", ()))


def _filters(place: str, filters: Iterable[JSON]) -> Iterable[str]:
    seen = set()
    for index, one in enumerate(filters):
        kind = one.get("type")
        if kind not in _FILTERS:
            yield f'{place}[{index}].type: Unsupported value: "{kind}"'
        elif set(one) != {"type", _FILTERS[kind]}:
            yield f"{place}[{index}]: filter.{_FILTERS[kind]} must be specified for {kind}"
        if kind in seen and kind != "RequestMirror":
            yield f"{place}: {kind} filter cannot be repeated"
        seen.add(kind)


def _match(place: str, match: JSON) -> Iterable[str]:
    path = match.get("path", {})
    if path.get("type") in ("Exact", "PathPrefix") and not path["value"].startswith("/"):
        yield f"{place}.path: value must be an absolute path and start with '/'"
    if len(path.get("value", "/")) > 1024:
        yield f"{place}.path.value: Too long: may not be more than 1024 bytes"
    for index, header in enumerate(match.get("headers", ())):
        if not _HEADER.match(header["name"]) or not 1 <= len(header["value"]) <= 4096:
            yield f"{place}.headers[{index}]: Invalid value"
