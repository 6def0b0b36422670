"""What pages and the API are given of endpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deployments.models import Endpoint, Incident
from deployments.rules.objectives.slo import Attainment, Objective, Promise
from deployments.selectors.incidents.rollback_policies import Standing
from deployments.selectors.statistics.live_numbers import LiveNumbers, VersionNumbers
from deployments.selectors.traffic.acknowledgements import GatewayWord
from models_registry.models import ServiceContract


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint in a list; weights in percent, shares 0 to 1, None where nothing is known."""

    environment: str
    model: str
    url: str
    mode: str
    weights: dict[int, float]
    revision: int
    split_state: str
    ready_versions: list[int]
    requests_per_second: float | None
    error_share: float | None
    p99_ms: float | None
    measured_at: datetime | None
    limit_ms: float | None
    promise: Promise
    budget_left: float | None


@dataclass(frozen=True, slots=True)
class SplitView:
    """One revision as people read it; weights in percent, mirror `{version, percent}`.

    `moved` is the percentage of sticky callers who got another version by it.
    """

    revision: int
    mode: str
    weights: dict[int, float]
    state: str
    cause: str
    author: str
    reason: str
    created_at: datetime
    applied_at: datetime | None
    sticky_header: str
    header_rules: list[dict[str, Any]]
    mirror: dict[str, Any] | None
    testers: list[dict[str, Any]] = field(default_factory=list)
    moved: float = 0.0


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version at an endpoint: its share, whether it may be raised, and where it is.

    `against_policy`: it was released by breaking the glass. `shadow`: what a mirror's copies did.
    """

    number: int
    percent: float
    ready: bool
    why_not: str
    nodes: list[str]
    deployment_id: str
    release_id: str
    state: str
    live: VersionNumbers | None
    against_policy: bool = False
    shadow: VersionNumbers | None = None


@dataclass(frozen=True, slots=True)
class PromiseStrip:
    """Now (the last half minute) against the contract, and what is left of the window's budget."""

    p99_ms: float | None = None
    limit_ms: float | None = None
    error_share: float | None = None
    error_limit: float | None = None
    budget_left: float | None = None
    state: Promise = Promise.NO_DATA
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ModeChoice:
    mode: str
    allowed: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class CallExample:
    """How to call the endpoint: address and a request that this model takes, as JSON text."""

    url: str
    request: str


@dataclass(frozen=True, slots=True)
class EndpointPage:
    """Everything that the page of one endpoint shows but its charts."""

    endpoint: Endpoint
    environment: str
    model: str
    split: SplitView | None
    applied_revision: int | None
    weights: dict[int, float]
    versions: list[VersionLine]
    gateways: list[GatewayWord]
    promise: PromiseStrip
    rollback_target: int | None
    rollback_why_not: str
    modes: list[ModeChoice]
    contract: ServiceContract | None
    history: list[SplitView]
    listeners: list[str]
    call: CallExample | None
    live: LiveNumbers | None
    objectives: list[tuple[Objective, Attainment]] = field(default_factory=list)
    rollback_gone: bool = False
    incident: Incident | None = None
    standing: Standing | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """Where a version runs, and with how much of the traffic there."""

    environment: str
    percent: float
    nodes: list[str]
    state: str
