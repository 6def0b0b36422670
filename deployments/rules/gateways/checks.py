"""What no gateway could serve, refused before one is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping

from console.errors import Conflict, Invalid
from deployments.rules.access.input_rules import InputRules
from deployments.rules.gateways.state import EndpointState, GatewayState, Mode, Target
from deployments.rules.traffic.slices import weights_of
from deployments.rules.traffic.splits import WHOLE

_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}\Z")
_ENVIRONMENT = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


def check_listeners(state: GatewayState) -> None:
    """Refuse names and ports that no gateway takes. Raises Invalid."""
    for name, port in state.listeners.items():
        if not _ENVIRONMENT.match(name) or not 0 < port < 65536:
            raise Invalid(f"The listener {name!r}:{port} is not valid.", code="invalid_listener")
    if len(set(state.listeners.values())) != len(state.listeners):
        raise Invalid(
            "Two environments of one gateway share a port.",
            code="port_shared",
            hint="Give each environment a port of its own.",
        )


def check_endpoint(endpoint: EndpointState, listeners: Mapping[str, int]) -> None:
    """Refuse an endpoint that no gateway could serve.

    Raises Invalid, or Conflict for weight on a version that is not ready.
    """
    what = f"The endpoint {endpoint.environment}/{endpoint.model}"
    if endpoint.environment not in listeners:
        raise Invalid(f"{what} has no listener on this gateway.", code="no_listener")
    if not _NAME.match(endpoint.model):
        raise Invalid(f"{what} has a name no gateway takes.", code="invalid_name")
    _check_weights(what, endpoint)
    _check_headers(what, endpoint)
    if endpoint.mode is Mode.FALLBACK and endpoint.fallback is None:
        raise Invalid(
            f"{what} has no fallback in its contract.",
            code="no_fallback",
            hint="Sign a contract with a fallback, or open the circuit instead.",
        )
    if not 1 <= endpoint.timeout_ms <= 600_000 or not 0 <= endpoint.retry_after_s <= 86_400:
        raise Invalid(f"{what} has a time-out outside 1 ms to 10 min.", code="invalid_timeout")
    if not 0 <= endpoint.probe <= WHOLE:
        raise Invalid(f"{what} tries a share outside 0 to 100 %.", code="invalid_weights")
    if not _CODE.match(endpoint.unavailable_code) or not _CODE.match(endpoint.invalid_code):
        raise Invalid(f"{what} has an error code that is not snake_case.", code="invalid_code")
    _check_inputs(what, endpoint.input_rules or InputRules((), ()))
    for version, target in endpoint.targets.items():
        _check_target(f"{what}, version {version},", target)


def _check_headers(what: str, endpoint: EndpointState) -> None:
    headers = [endpoint.sticky_header, *(rule.header for rule in endpoint.header_rules)]
    for header in headers:
        if not _HEADER.match(header):
            raise Invalid(f"{what} names {header!r}, which is no header.", code="invalid_header")
    for rule in endpoint.header_rules:
        if not rule.value.isprintable() or not 0 < len(rule.value) <= 256:
            raise Invalid(f"{what} compares {rule.header} with a bad value.", code="invalid_header")


def _check_inputs(what: str, rules: InputRules) -> None:
    """Names of tensors and sizes go to gateways as lines of text, which they may not break."""
    sizes = [size for rule in rules.inputs for size in rule.dims if isinstance(size, str)]
    names = [*(rule.name for rule in rules.inputs), *rules.outputs]
    if any(not name or _CONTROL.search(name) for name in names) or not all(
        _CODE.match(size) for size in sizes
    ):
        raise Invalid(f"{what} has a tensor with a name no gateway takes.", code="invalid_name")


def _check_weights(what: str, endpoint: EndpointState) -> None:
    if endpoint.weights and (
        sum(endpoint.weights.values()) != WHOLE or min(endpoint.weights.values()) < 0
    ):
        raise Invalid(f"{what} has weights that do not sum to 100 %.", code="invalid_weights")
    wanted = {version for version, weight in endpoint.weights.items() if weight}
    if endpoint.slices and weights_of(endpoint.slices) != {v: endpoint.weights[v] for v in wanted}:
        raise Invalid(f"{what} is laid out for other weights.", code="invalid_weights")
    wanted |= {rule.version for rule in endpoint.header_rules}
    if endpoint.mirror:
        wanted.add(endpoint.mirror.version)
        if not 0 < endpoint.mirror.basis_points <= WHOLE:
            raise Invalid(f"{what} mirrors a share outside 0 to 100 %.", code="invalid_weights")
    if missing := sorted(wanted - set(endpoint.targets)):
        raise Conflict(
            f"{what} sends traffic to version {missing[0]}, which is ready on no node.",
            code="not_ready",
            hint="Deploy the version first, or take its weight away.",
        )


def _check_target(what: str, target: Target) -> None:
    if not _NAME.match(target.triton_model) or target.triton_version < 1:
        raise Invalid(f"{what} has a Triton name that is not valid.", code="invalid_name")
    for node in target.nodes:
        if not _HOST.match(node.host) or not 0 < node.http_port < 65536:
            raise Invalid(f"{what} has a bad address on {node.node}.", code="invalid_address")
