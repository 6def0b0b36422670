"""The desired state of a gateway, as a pure function of what was decided.

`render` turns the state of every endpoint into a `Snapshot`: listeners, one route table for each
environment, one cluster for each (model, version). It names no gateway product; an adapter writes
it in its own words. Equal states give equal snapshots, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import lru_cache

from console.errors import Conflict, Invalid
from deployments.rules.fallbacks import Fallback, FallbackAnswer, fallback_answer
from deployments.rules.splits import WHOLE

_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}\Z")
_ENVIRONMENT = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}\Z")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")


class Mode(StrEnum):
    """How an endpoint answers: by its versions, by the contract's rules, or not at all."""

    NORMAL = "normal"
    FALLBACK = "fallback"
    OPEN = "open"


class ClusterKind(StrEnum):
    VERSION = "version"
    SHADOW = "shadow"
    FALLBACK = "fallback"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """Identity of one group of answers; its name is also the key of its statistics.

    Copies sent to a mirror are counted apart from live traffic, hence a kind of their own.
    """

    environment: str
    model: str
    kind: ClusterKind
    version: int | None = None

    @property
    def name(self) -> str:
        stem = f"{self.environment}/{self.model}"
        if self.kind is ClusterKind.VERSION:
            return f"{stem}/{self.version}"
        if self.kind is ClusterKind.SHADOW:
            return f"{stem}/{self.version}/shadow"
        return f"{stem}/{self.kind.value}"

    @classmethod
    def parse(cls, name: str) -> ClusterKey | None:
        """The key that has this name; None for a cluster that is none of ours."""
        match name.split("/"):
            case [environment, model, ("fallback" | "open") as kind]:
                return cls(environment, model, ClusterKind(kind))
            case [environment, model, version] if version.isdecimal():
                return cls(environment, model, ClusterKind.VERSION, int(version))
            case [environment, model, version, "shadow"] if version.isdecimal():
                return cls(environment, model, ClusterKind.SHADOW, int(version))
        return None


@dataclass(frozen=True, slots=True, order=True)
class NodeAddress:
    """Where a node's Triton takes inference over HTTP."""

    node: str
    host: str
    http_port: int


@dataclass(frozen=True, slots=True)
class Target:
    """One version that is ready: its name and number inside Triton, and the nodes that hold it."""

    triton_model: str
    triton_version: int
    nodes: tuple[NodeAddress, ...]


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """Requests whose `header` has exactly this `value` go to `version`, whatever the weights."""

    header: str
    value: str
    version: int


@dataclass(frozen=True, slots=True)
class Mirror:
    """A share of the split's requests is copied to `version`; its answers are thrown away."""

    version: int
    basis_points: int = WHOLE


@dataclass(frozen=True, slots=True)
class EndpointState:
    """What was decided for one (model, environment); weights are in basis points of 10000."""

    environment: str
    model: str
    revision: int
    mode: Mode = Mode.NORMAL
    weights: Mapping[int, int] = field(default_factory=dict)
    targets: Mapping[int, Target] = field(default_factory=dict)
    sticky_header: str = "x-user-id"
    header_rules: tuple[HeaderRule, ...] = ()
    mirror: Mirror | None = None
    timeout_ms: int = 500
    fallback: Fallback | None = None
    unavailable_code: str = "model_unavailable"
    retry_after_s: int = 30


@dataclass(frozen=True, slots=True)
class GatewayState:
    """All that one gateway should serve; `listeners` gives each environment its own port."""

    listeners: Mapping[str, int]
    endpoints: tuple[EndpointState, ...] = ()
    listen_address: str = "127.0.0.1"
    access_log: str = "/dev/stdout"


@dataclass(frozen=True, slots=True)
class Listener:
    environment: str
    address: str
    port: int
    access_log: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Hosts that answer for one key; a key without `target` is answered by the gateway itself."""

    key: ClusterKey
    target: Target | None

    @property
    def name(self) -> str:
        return self.key.name


@dataclass(frozen=True, slots=True)
class EndpointRoutes:
    """Routes of one endpoint; every value that names a destination is a cluster's name."""

    model: str
    mode: Mode
    split: tuple[tuple[str, int], ...]
    pinned: tuple[tuple[int, str], ...]
    header_rules: tuple[tuple[str, str, str], ...]
    mirror: tuple[str, int] | None
    sticky_header: str
    timeout_ms: int
    answer: str | None
    fallback: FallbackAnswer | None
    unavailable_code: str
    retry_after_s: int

    def destinations(self) -> frozenset[str]:
        """Names of every cluster that these routes may send a request to."""
        names = {name for name, _ in self.split} | {name for _, name in self.pinned}
        names |= {name for _, _, name in self.header_rules}
        names |= {self.mirror[0]} if self.mirror else set()
        return frozenset(names | ({self.answer} if self.answer else set()))


@dataclass(frozen=True, slots=True)
class RouteTable:
    environment: str
    endpoints: tuple[EndpointRoutes, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a gateway should do, whole; `version` names this content and its revisions."""

    version: str
    revisions: Mapping[tuple[str, str], int]
    listeners: tuple[Listener, ...]
    route_tables: tuple[RouteTable, ...]
    clusters: tuple[Cluster, ...]


def digest_of(part: Listener | RouteTable | Cluster) -> str:
    """Content hash of one resource: equal content, equal digest, on any machine."""
    if isinstance(part, RouteTable):
        lines = "\n".join([part.environment, *(_digest(endpoint) for endpoint in part.endpoints)])
        return hashlib.sha256(lines.encode()).hexdigest()[:16]
    return _digest(part)


@lru_cache(maxsize=16384)
def _digest(part: Listener | EndpointRoutes | Cluster) -> str:
    plain = json.dumps(asdict(part), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def render(state: GatewayState) -> Snapshot:
    """Every listener, route and cluster that the state asks for.

    An endpoint in normal mode that gives no version any weight is rendered as open: a gateway
    refuses a split whose weights are all zero, and callers deserve the contract's own 503.

    Raises Invalid for a state that no gateway could serve, Conflict for weight on a version that
    is not ready.
    """
    _check_listeners(state)
    endpoints = sorted(state.endpoints, key=lambda e: (e.environment, e.model))
    keys = [(e.environment, e.model) for e in endpoints]
    if len(set(keys)) != len(keys):
        raise Invalid("An endpoint stands twice in the gateway's state.", code="duplicate_endpoint")
    for endpoint in endpoints:
        _check_endpoint(endpoint, state.listeners)
    clusters = [cluster for endpoint in endpoints for cluster in _clusters(endpoint)]
    listeners = tuple(
        Listener(name, state.listen_address, port, state.access_log)
        for name, port in sorted(state.listeners.items())
    )
    tables = tuple(
        RouteTable(name, tuple(_routes(e) for e in endpoints if e.environment == name))
        for name in sorted(state.listeners)
    )
    revisions = {(e.environment, e.model): e.revision for e in endpoints}
    return Snapshot(
        version=_version([*listeners, *tables, *clusters], revisions),
        revisions=revisions,
        listeners=listeners,
        route_tables=tables,
        clusters=tuple(sorted(clusters, key=lambda c: c.name)),
    )


def effective_mode(endpoint: EndpointState) -> Mode:
    """The mode that callers meet: normal needs some version with weight."""
    if endpoint.mode is Mode.NORMAL and not any(endpoint.weights.values()):
        return Mode.OPEN
    return endpoint.mode


def _key(endpoint: EndpointState, kind: ClusterKind, version: int | None = None) -> ClusterKey:
    return ClusterKey(endpoint.environment, endpoint.model, kind, version)


def _clusters(endpoint: EndpointState) -> Iterable[Cluster]:
    for version, target in endpoint.targets.items():
        ordered = Target(target.triton_model, target.triton_version, tuple(sorted(target.nodes)))
        yield Cluster(_key(endpoint, ClusterKind.VERSION, version), ordered)
        if endpoint.mirror and endpoint.mirror.version == version:
            yield Cluster(_key(endpoint, ClusterKind.SHADOW, version), ordered)
    # Always there, so that a change of mode at 3 a.m. is a change of routes alone.
    yield Cluster(_key(endpoint, ClusterKind.OPEN), None)
    if endpoint.fallback:
        yield Cluster(_key(endpoint, ClusterKind.FALLBACK), None)


def _routes(endpoint: EndpointState) -> EndpointRoutes:
    mode = effective_mode(endpoint)
    answer = {
        Mode.FALLBACK: _key(endpoint, ClusterKind.FALLBACK).name,
        Mode.OPEN: _key(endpoint, ClusterKind.OPEN).name,
    }.get(mode)

    def of(version: int, kind: ClusterKind = ClusterKind.VERSION) -> str:
        return _key(endpoint, kind, version).name

    mirror = endpoint.mirror
    return EndpointRoutes(
        model=endpoint.model,
        mode=mode,
        # In the order of version numbers, so that a callers' hash moves as little as it can.
        split=tuple((of(v), weight) for v, weight in sorted(endpoint.weights.items()) if weight),
        pinned=tuple((v, of(v)) for v in sorted(endpoint.targets)),
        header_rules=tuple(
            (r.header.lower(), r.value, of(r.version)) for r in endpoint.header_rules
        ),
        mirror=(of(mirror.version, ClusterKind.SHADOW), mirror.basis_points) if mirror else None,
        sticky_header=endpoint.sticky_header.lower(),
        timeout_ms=endpoint.timeout_ms,
        answer=answer,
        fallback=fallback_answer(endpoint.fallback) if endpoint.fallback else None,
        unavailable_code=endpoint.unavailable_code,
        retry_after_s=endpoint.retry_after_s,
    )


def _check_listeners(state: GatewayState) -> None:
    for name, port in state.listeners.items():
        if not _ENVIRONMENT.match(name) or not 0 < port < 65536:
            raise Invalid(f"The listener {name!r}:{port} is not valid.", code="invalid_listener")
    if len(set(state.listeners.values())) != len(state.listeners):
        raise Invalid(
            "Two environments of one gateway share a port.",
            code="port_shared",
            hint="Give each environment a port of its own.",
        )


def _check_endpoint(endpoint: EndpointState, listeners: Mapping[str, int]) -> None:
    what = f"The endpoint {endpoint.environment}/{endpoint.model}"
    if endpoint.environment not in listeners:
        raise Invalid(f"{what} has no listener on this gateway.", code="no_listener")
    if not _NAME.match(endpoint.model):
        raise Invalid(f"{what} has a name no gateway takes.", code="invalid_name")
    _check_weights(what, endpoint)
    headers = [endpoint.sticky_header, *(rule.header for rule in endpoint.header_rules)]
    for header in headers:
        if not _HEADER.match(header):
            raise Invalid(f"{what} names {header!r}, which is no header.", code="invalid_header")
    for rule in endpoint.header_rules:
        if not rule.value.isprintable() or not 0 < len(rule.value) <= 256:
            raise Invalid(f"{what} compares {rule.header} with a bad value.", code="invalid_header")
    if endpoint.mode is Mode.FALLBACK and endpoint.fallback is None:
        raise Invalid(
            f"{what} has no fallback in its contract.",
            code="no_fallback",
            hint="Sign a contract with a fallback, or open the circuit instead.",
        )
    if not 1 <= endpoint.timeout_ms <= 600_000 or not 0 <= endpoint.retry_after_s <= 86_400:
        raise Invalid(f"{what} has a time-out outside 1 ms to 10 min.", code="invalid_timeout")
    if not _CODE.match(endpoint.unavailable_code):
        raise Invalid(f"{what} has an error code that is not snake_case.", code="invalid_code")
    for version, target in endpoint.targets.items():
        _check_target(f"{what}, version {version},", target)


def _check_weights(what: str, endpoint: EndpointState) -> None:
    if endpoint.weights and (
        sum(endpoint.weights.values()) != WHOLE or min(endpoint.weights.values()) < 0
    ):
        raise Invalid(f"{what} has weights that do not sum to 100 %.", code="invalid_weights")
    wanted = {version for version, weight in endpoint.weights.items() if weight}
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


def _version(
    parts: Iterable[Listener | RouteTable | Cluster], revisions: Mapping[tuple[str, str], int]
) -> str:
    lines = sorted(digest_of(part) for part in parts)
    lines += [f"{env}/{model}={revision}" for (env, model), revision in sorted(revisions.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
