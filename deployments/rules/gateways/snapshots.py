"""The desired state of a gateway, as a pure function of what was decided.

`render` turns the state of every endpoint into a `Snapshot`: listeners, one route table for each
environment, one cluster for each (model, version). It names no gateway product; an adapter writes
it in its own words. Equal states give equal snapshots, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache

from console.errors import Invalid
from deployments.rules.access.caller_directory import NOBODY, CallerDirectory, Certificate
from deployments.rules.access.input_rules import InputRules
from deployments.rules.access.rules import OPEN, AccessRules
from deployments.rules.fallback.fallbacks import FallbackAnswer, fallback_answer
from deployments.rules.gateways.checks import check_endpoint, check_listeners
from deployments.rules.gateways.state import EndpointState, GatewayState, Mode, Target
from deployments.rules.traffic.retries import on_trial, prepared
from deployments.rules.traffic.slices import fresh

EDGE_CLUSTER = "covenant_edge"
"""Name of the cluster of the edge process, which is no endpoint's: `ClusterKey` has none for it."""


SAMPLES_CLUSTER = "covenant_samples"
"""The same process, for copies of requests: they never take room from what callers wait for."""


class ClusterKind(StrEnum):
    VERSION = "version"
    SHADOW = "shadow"
    CANDIDATE = "candidate"
    RETRIED = "retried"
    FALLBACK = "fallback"
    RULES = "rules"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """Identity of one group of answers; its name is also the key of its statistics.

    Copies sent to a mirror are counted apart from live traffic, hence a kind of their own. What a
    version on trial fails is asked of the baseline: RETRIED counts its requests, CANDIDATE are its
    hosts there, and counts nothing of its own.
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
        if self.version is not None:
            return f"{stem}/{self.version}/{self.kind.value}"
        return f"{stem}/{self.kind.value}"

    @classmethod
    def parse(cls, name: str) -> ClusterKey | None:
        """The key that has this name; None for a cluster that is none of ours."""
        match name.split("/"):
            case [environment, model, ("fallback" | "rules" | "open") as kind]:
                return cls(environment, model, ClusterKind(kind))
            case [environment, model, version] if version.isdecimal():
                return cls(environment, model, ClusterKind.VERSION, int(version))
            case [environment, model, version, ("shadow" | "retried") as kind] if (
                version.isdecimal()
            ):
                return cls(environment, model, ClusterKind(kind), int(version))
        return None


@dataclass(frozen=True, slots=True)
class Listener:
    environment: str
    address: str
    port: int
    access_log: str
    edge: bool = False
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """Hosts that answer for one key; a key without `target` is answered by the gateway itself.

    The edge, where it is named, is asked before the gateway answers.
    """

    key: ClusterKey
    target: Target | None
    edge: tuple[str, int] | None = None
    members: tuple[str, ...] = ()
    """Clusters that are tried one after the other, in place of a target of its own."""
    most_requests: int | None = None

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
    sampled: tuple[str, int] | None = None
    experiment: str | None = None
    probe: int = 0
    access: AccessRules = OPEN
    input_rules: InputRules | None = None
    invalid_code: str = "invalid_input"
    idempotent: bool = False
    retried: tuple[tuple[str, str, str], ...] = ()
    """Of a version on trial its cluster, the one that asks the baseline when it fails, and its
    hosts there."""
    rules: str | None = None
    """Who answers inferences in place of `answer`, where the contract has rules."""

    def destinations(self) -> frozenset[str]:
        """Names of every cluster that these routes may send a request to."""
        names = {name for name, _ in self.split} | {name for _, name in self.pinned}
        names |= {name for _, _, name in self.header_rules}
        names |= {name for _, *others in self.retried for name in others}
        names |= {self.mirror[0]} if self.mirror else set()
        names |= {SAMPLES_CLUSTER} if self.sampled else set()
        return frozenset(names | {name for name in (self.answer, self.rules) if name})


@dataclass(frozen=True, slots=True)
class RouteTable:
    environment: str
    endpoints: tuple[EndpointRoutes, ...]
    edge: bool = False
    directory: CallerDirectory = NOBODY


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a gateway should do, whole; `version` names this content and its revisions."""

    version: str
    revisions: Mapping[tuple[str, str], int]
    listeners: tuple[Listener, ...]
    route_tables: tuple[RouteTable, ...]
    clusters: tuple[Cluster, ...]
    edge: tuple[str, int] | None = None
    certificates: tuple[Certificate, ...] = ()


def digest_of(part: Listener | RouteTable | Cluster | Certificate) -> str:
    """Content hash of one resource: equal content, equal digest, on any machine."""
    if isinstance(part, RouteTable):
        lines = "\n".join(
            [
                f"{part.environment} {part.edge}",
                _digest(part.directory),
                *(_digest(endpoint) for endpoint in part.endpoints),
            ]
        )
        return hashlib.sha256(lines.encode()).hexdigest()[:16]
    return _digest(part)


@lru_cache(maxsize=16384)
def _digest(
    part: Listener | EndpointRoutes | Cluster | CallerDirectory | Certificate,
) -> str:
    plain = json.dumps(asdict(part), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def render(state: GatewayState) -> Snapshot:
    """Every listener, route and cluster that the state asks for.

    An endpoint in normal mode that gives no version any weight is rendered as open: a gateway
    refuses a split whose weights are all zero, and callers deserve the contract's own 503.

    Raises Invalid for a state that no gateway could serve, Conflict for weight on a version that
    is not ready.
    """
    check_listeners(state)
    endpoints = sorted(state.endpoints, key=lambda e: (e.environment, e.model))
    keys = [(e.environment, e.model) for e in endpoints]
    if len(set(keys)) != len(keys):
        raise Invalid("An endpoint stands twice in the gateway's state.", code="duplicate_endpoint")
    for endpoint in endpoints:
        check_endpoint(endpoint, state.listeners)
    clusters = [one for endpoint in endpoints for one in _clusters(endpoint, state.edge)]
    listeners = tuple(
        Listener(
            name,
            state.listen_address,
            port,
            state.access_log,
            edge=bool(state.edge),
            tls=name in state.certificates,
        )
        for name, port in sorted(state.listeners.items())
    )
    edge = state.edge is not None
    tables = tuple(
        RouteTable(
            name,
            tuple(_routes(e, edge=edge) for e in endpoints if e.environment == name),
            edge,
            state.directories.get(name, NOBODY),
        )
        for name in sorted(state.listeners)
    )
    certificates = tuple(one for _, one in sorted(state.certificates.items()) if one)
    revisions = {(e.environment, e.model): e.revision for e in endpoints}
    return Snapshot(
        version=_version([*listeners, *tables, *clusters, *certificates], revisions, state.edge),
        revisions=revisions,
        listeners=listeners,
        route_tables=tables,
        clusters=tuple(sorted(clusters, key=lambda c: c.name)),
        edge=state.edge,
        certificates=certificates,
    )


def effective_mode(endpoint: EndpointState) -> Mode:
    """The mode that callers meet: normal needs some version with weight."""
    if endpoint.mode is Mode.NORMAL and not any(endpoint.weights.values()):
        return Mode.OPEN
    return endpoint.mode


def _key(endpoint: EndpointState, kind: ClusterKind, version: int | None = None) -> ClusterKey:
    return ClusterKey(endpoint.environment, endpoint.model, kind, version)


def _clusters(endpoint: EndpointState, edge: tuple[str, int] | None) -> Iterable[Cluster]:
    for version, target in endpoint.targets.items():
        ordered = Target(target.triton_model, target.triton_version, tuple(sorted(target.nodes)))
        most = endpoint.access.limits.max_concurrent
        yield Cluster(_key(endpoint, ClusterKind.VERSION, version), ordered, most_requests=most)
        if endpoint.mirror and endpoint.mirror.version == version:
            yield Cluster(_key(endpoint, ClusterKind.SHADOW, version), ordered)
    yield from _retrying_clusters(endpoint)
    # Always there, so that a change of mode at 3 a.m. is a change of routes alone.
    yield Cluster(_key(endpoint, ClusterKind.OPEN), None)
    if endpoint.fallback:
        yield Cluster(_key(endpoint, ClusterKind.FALLBACK), None)
    if endpoint.fallback and endpoint.rules_fallback and edge:
        yield Cluster(_key(endpoint, ClusterKind.RULES), None, edge)


def _retrying_clusters(endpoint: EndpointState) -> Iterable[Cluster]:
    for version, onto in prepared(endpoint):
        target = endpoint.targets[version]
        ordered = Target(target.triton_model, target.triton_version, tuple(sorted(target.nodes)))
        candidate = _key(endpoint, ClusterKind.CANDIDATE, version)
        baseline = _key(endpoint, ClusterKind.VERSION, onto)
        yield Cluster(candidate, ordered, most_requests=endpoint.access.limits.max_concurrent)
        yield Cluster(
            _key(endpoint, ClusterKind.RETRIED, version),
            None,
            members=(candidate.name, baseline.name),
        )


def _routes(endpoint: EndpointState, *, edge: bool) -> EndpointRoutes:
    mode = effective_mode(endpoint)
    answer = {
        Mode.FALLBACK: _key(endpoint, ClusterKind.FALLBACK).name,
        Mode.OPEN: _key(endpoint, ClusterKind.OPEN).name,
    }.get(mode)

    def of(version: int, kind: ClusterKind = ClusterKind.VERSION) -> str:
        return _key(endpoint, kind, version).name

    mirror = endpoint.mirror
    sampling = endpoint.sampling if edge else None
    name = f"{endpoint.environment}/{endpoint.model}"
    return EndpointRoutes(
        model=endpoint.model,
        mode=mode,
        # A version may stand in several places: a caller's hash moves as little as it can.
        split=tuple((of(v), points) for v, points in endpoint.slices or fresh(endpoint.weights)),
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
        sampled=(name, sampling.basis_points) if sampling else None,
        experiment=name if endpoint.experiment and edge else None,
        probe=endpoint.probe if answer and any(endpoint.weights.values()) else 0,
        access=endpoint.access,
        input_rules=endpoint.input_rules,
        invalid_code=endpoint.invalid_code,
        idempotent=endpoint.idempotent,
        retried=tuple(
            (of(v), of(v, ClusterKind.RETRIED), of(v, ClusterKind.CANDIDATE))
            for v in on_trial(endpoint)
        ),
        rules=_key(endpoint, ClusterKind.RULES).name
        if mode is Mode.FALLBACK and endpoint.rules_fallback and edge
        else None,
    )


def _version(
    parts: Iterable[Listener | RouteTable | Cluster | Certificate],
    revisions: Mapping[tuple[str, str], int],
    edge: tuple[str, int] | None,
) -> str:
    lines = [f"edge={edge}", *sorted(digest_of(part) for part in parts)]
    lines += [f"{env}/{model}={revision}" for (env, model), revision in sorted(revisions.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
