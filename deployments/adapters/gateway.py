"""What Covenant asks of a gateway, whatever product it is, and what it hears back.

Applying is not a call with an answer: a gateway may be away, slow, or say no, and each gateway
says so by itself. So one sets what a gateway should have, and its words come as events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from deployments.rules.gateways.snapshots import Snapshot
from deployments.rules.statistics.histograms import Histogram


@dataclass(frozen=True, slots=True)
class Connected:
    """A gateway is there; `build` is the version of its program."""

    node_id: str
    peer: str
    build: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """A gateway went away, or only its line to us did; it serves on with what it has."""

    node_id: str


@dataclass(frozen=True, slots=True)
class Acked:
    """A gateway acts on this snapshot, `took_ms` after it was set (or after it connected)."""

    node_id: str
    snapshot: Snapshot
    took_ms: float


@dataclass(frozen=True, slots=True)
class Nacked:
    """A gateway refused a part of this snapshot, in its own words, and keeps what it had."""

    node_id: str
    snapshot: Snapshot
    resource_type: str
    reason: str


Word = Connected | Disconnected | Acked | Nacked


@dataclass(frozen=True, slots=True)
class Registration:
    """A gateway as it is registered: where it is managed, and what its product needs besides.

    `options` name where a secret lies, never the secret itself (see `gateway_secrets`).
    """

    name: str
    product: str
    admin_url: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


class GatewayAdapter(Protocol):
    """Control of all gateways of one product, told apart by their node ids."""

    async def start(self, address: str) -> int:
        """Begin, on "host:port" where gateways come to us; returns the port."""
        ...

    async def stop(self) -> None:
        """End; the gateways serve on with what they have."""
        ...

    def register(self, gateways: Iterable[Registration]) -> None:
        """Say which gateways of this product there are; those left out are let go."""
        ...

    def set_snapshot(self, node_id: str, snapshot: Snapshot) -> None:
        """Say what a gateway should have from now on; it answers with `Acked` or `Nacked`."""
        ...

    def connected(self) -> frozenset[str]:
        """Node ids of the gateways that can be told something now."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """Counts of one cluster since its gateway started, and its latencies in milliseconds.

    `server_5xx` contains what the gateway said for a model that did not answer (504, 503).
    """

    name: str
    counters: Mapping[str, int]
    latency: Histogram


Callers = Mapping[tuple[str, str], Mapping[str, int]]
"""(environment, model) -> counts by the name of an answer (see `rules.statistics.answers`)."""


@dataclass(frozen=True, slots=True)
class GatewaySample:
    """One reading of one gateway: what its clusters did, and what its callers got.

    `started_at` is in epoch seconds, and known to 2 s at best: it is now less `uptime_s`, which
    gateways tell in whole seconds. A gateway whose `uptime_s` exceeds the time since the last
    reading did not restart in between, whatever the clocks say.
    """

    gateway: str
    started_at: float
    uptime_s: float
    clusters: Mapping[str, ClusterSample]
    callers: Callers = field(default_factory=dict)
