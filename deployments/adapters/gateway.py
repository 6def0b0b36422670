"""What Covenant asks of a gateway, whatever product it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from deployments.rules.histograms import Histogram
from deployments.rules.snapshots import Snapshot


class Outcome(StrEnum):
    """What became of a snapshot at one gateway."""

    APPLIED = "applied"
    REFUSED = "refused"
    PENDING = "pending"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """One gateway's answer: `reason` in its own words when refused, `took_ms` when applied."""

    gateway: str
    outcome: Outcome
    reason: str = ""
    took_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """Counts of one cluster since its gateway started, and its latencies in milliseconds.

    `server_5xx` contains what the gateway said for a model that did not answer (504, 503).
    """

    name: str
    counters: Mapping[str, int]
    latency: Histogram


@dataclass(frozen=True, slots=True)
class GatewaySample:
    """One reading of one gateway. Another `started_at` (epoch seconds) means that it restarted."""

    gateway: str
    started_at: float
    version: str
    clusters: Mapping[str, ClusterSample]


class GatewayAdapter(Protocol):
    """Every gateway product stands behind these two questions."""

    async def apply(self, snapshot: Snapshot, *, timeout_s: float) -> tuple[ApplyResult, ...]:
        """Make every gateway act on the snapshot; returns what each said within the time."""
        ...

    async def observe(self) -> tuple[GatewaySample, ...]:
        """Read every gateway that can be reached."""
        ...
