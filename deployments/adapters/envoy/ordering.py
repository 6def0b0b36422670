"""In which order one Envoy is told a new state, so that no request meets a gap.

Make before break: clusters before the routes that need them, routes before clusters are taken
away. Envoy acknowledges clusters only once they are warm (their first health check has ended), so
an acknowledgement says that routes may follow. A table of routes that needs no cluster beyond
those Envoy has is sent at once: a rollback never waits for some other model's new cluster.

Nothing here does I/O: `Delivery` is told what Envoy said and answers what to send.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deployments.adapters.envoy.resources import Resource, ResourceSet


class Kind(StrEnum):
    """The kinds of resources, by the word used in reports; sent in this order."""

    CLUSTERS = "clusters"
    LISTENERS = "listeners"
    SECRETS = "secrets"
    FILTERS = "filters"
    ROUTES = "routes"


@dataclass(frozen=True, slots=True)
class Message:
    """One response to send: all resources of its kind, under the hash of their contents."""

    kind: Kind
    nonce: str
    version: str
    resources: tuple[Resource, ...]


@dataclass(slots=True)
class _Channel:
    """What one Envoy was told of one kind, and what it said."""

    subscribed: bool = False
    names: frozenset[str] = frozenset()
    sent: Message | None = None
    in_flight: bool = False
    owed: bool = False
    accepted: dict[str, Resource] = field(default_factory=dict)
    accepted_version: str = ""
    refused_version: str = ""
    told_version: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """What an Envoy is known to hold, kept while its stream is down."""

    accepted: Mapping[Kind, dict[str, Resource]]
    versions: Mapping[Kind, str]


class Delivery:
    """State of one stream towards one Envoy.

    A cluster that no route leads to any more lingers for `linger_s` seconds of `clock`: requests
    that were on their way when the routes changed have chosen it already (measured: they would be
    answered with 503).
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        linger_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._linger_s = linger_s
        self._clock = clock
        self._left_at: dict[str, float] = {}
        self._channels = {kind: _Channel() for kind in Kind}
        self._memory = memory
        self._nonces = 0
        self._target: ResourceSet | None = None

    def aim(self, target: ResourceSet) -> None:
        """From now on this is what Envoy should have."""
        self._target = target
        for channel in self._channels.values():
            channel.refused_version = ""

    def subscribe(self, kind: Kind, names: Iterable[str], version: str) -> None:
        """Envoy asked for resources of a kind, `version` being what it says it has."""
        channel = self._channels[kind]
        wanted = frozenset(names)
        remembered = self._memory.versions.get(kind) if self._memory else None
        if self._memory and not channel.subscribed and version and version == remembered:
            # Same words, same content: it still holds what it held when its stream broke.
            channel.accepted = dict(self._memory.accepted[kind])
            channel.accepted_version = version
        channel.owed = channel.owed or not channel.subscribed or not wanted <= channel.names
        channel.subscribed = True
        channel.names = wanted

    def is_current(self, kind: Kind, nonce: str) -> bool:
        """Whether a request answers the newest message of its kind; older ones say nothing."""
        sent = self._channels[kind].sent
        return sent is not None and sent.nonce == nonce

    def accept(self, kind: Kind) -> None:
        """Envoy acknowledged the newest message of a kind."""
        channel = self._channels[kind]
        if channel.sent and channel.in_flight:
            channel.accepted = {resource.name: resource for resource in channel.sent.resources}
            channel.accepted_version = channel.sent.version
            channel.in_flight = False

    def refuse(self, kind: Kind, reason: str) -> None:
        """Envoy refused the newest message of a kind, and keeps what it had.

        Of clusters it takes the good ones all the same, and names the others in its reason.
        """
        channel = self._channels[kind]
        if channel.sent is None:
            return
        channel.in_flight = False
        channel.refused_version, channel.told_version = channel.sent.version, ""
        if kind is Kind.CLUSTERS:
            good = {r.name: r for r in channel.sent.resources if r.name not in reason}
            channel.accepted = {**channel.accepted, **good}

    def messages(self) -> list[Message]:
        """What to send now; call after every change."""
        target = self._target
        if target is None:
            return []
        found: list[Message] = []
        for kind in Kind:
            channel = self._channels[kind]
            if not channel.subscribed or channel.in_flight:
                continue
            if kind is Kind.ROUTES and self._channels[Kind.FILTERS].in_flight:
                # A route may turn on a check whose lists are only now on their way.
                continue
            resources = self._wanted(kind, target)
            if resources is None:
                continue
            version = _version(resources)
            if not channel.owed and version in (channel.told_version, channel.refused_version):
                continue
            self._nonces += 1
            channel.sent = Message(kind, str(self._nonces), version, resources)
            channel.in_flight, channel.owed, channel.told_version = True, False, version
            found.append(channel.sent)
        return found

    def in_effect(self) -> bool:
        """Whether Envoy acts on the whole target; clusters yet to be taken away do not matter."""
        target = self._target
        if target is None:
            return False
        clusters, listeners, secrets, filters, routes = (
            self._channels[kind].accepted for kind in Kind
        )
        return (
            all(_same(clusters.get(name), wanted) for name, wanted in target.clusters.items())
            and set(listeners) == set(target.listeners)
            and all(_same(listeners[name], wanted) for name, wanted in target.listeners.items())
            and all(_same(secrets.get(name), wanted) for name, wanted in target.secrets.items())
            and all(_same(filters.get(name), wanted) for name, wanted in target.filters.items())
            and all(_same(routes.get(name), wanted) for name, wanted in target.routes.items())
        )

    def memory(self) -> Memory:
        """What Envoy holds, for its next stream."""
        return Memory(
            accepted={kind: dict(channel.accepted) for kind, channel in self._channels.items()},
            versions={kind: channel.accepted_version for kind, channel in self._channels.items()},
        )

    def _wanted(self, kind: Kind, target: ResourceSet) -> tuple[Resource, ...] | None:
        if kind is Kind.CLUSTERS:
            return self._wanted_clusters(target)
        if kind is Kind.ROUTES:
            return self._wanted_routes(target)
        if kind is Kind.SECRETS:
            return self._asked_for(kind, target.secrets)
        if kind is Kind.FILTERS:
            return self._asked_for(kind, target.filters)
        return tuple(target.listeners[name] for name in sorted(target.listeners))

    def _asked_for(
        self, kind: Kind, resources: Mapping[str, Resource]
    ) -> tuple[Resource, ...] | None:
        """Those that Envoy names; it keeps what it has of one that is not to be had."""
        names = sorted(self._channels[kind].names & set(resources))
        return tuple(resources[name] for name in names) or None

    def _wanted_clusters(self, target: ResourceSet) -> tuple[Resource, ...]:
        """The target's clusters, and old ones that routes in force still lead to."""
        routes = self._channels[Kind.ROUTES]
        in_force = [*routes.accepted.values(), *(routes.sent.resources if routes.sent else ())]
        needed = {name for table in in_force for name in table.needs}
        held = self._channels[Kind.CLUSTERS].accepted
        needed |= self._lingering(set(held) - needed - set(target.clusters))
        kept = {name: held[name] for name in needed if name in held}
        clusters = {**kept, **target.clusters}
        return tuple(clusters[name] for name in sorted(clusters))

    def _lingering(self, left: set[str]) -> set[str]:
        """Those of the clusters without a route that have been so for too short to go."""
        now = self._clock()
        self._left_at = {name: self._left_at.get(name, now) for name in left}
        return {name for name, since in self._left_at.items() if now - since < self._linger_s}

    def lingers(self) -> bool:
        """Whether some cluster is still to go: look again after `linger_s`."""
        return bool(self._left_at) and self._linger_s > 0

    def _wanted_routes(self, target: ResourceSet) -> tuple[Resource, ...] | None:
        """Tables whose clusters Envoy has; the older table of those that must wait."""
        clusters = self._channels[Kind.CLUSTERS]
        routes = self._channels[Kind.ROUTES]
        chosen: list[Resource] = []
        for name in sorted(routes.names & set(target.routes)):
            table = target.routes[name]
            older = routes.accepted.get(name)
            if table.needs <= set(clusters.accepted):
                chosen.append(table)
            elif older is not None:
                chosen.append(older)
            elif clusters.refused_version:
                # There is nothing older to keep: better one model without hosts than none at all.
                chosen.append(table)
            else:
                return None
        return tuple(chosen) if chosen or routes.names <= set(target.routes) else None


def _same(have: Resource | None, want: Resource) -> bool:
    return have is not None and have.digest == want.digest


def _version(resources: Iterable[Resource]) -> str:
    lines = "\n".join(f"{resource.name} {resource.digest}" for resource in resources)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]
