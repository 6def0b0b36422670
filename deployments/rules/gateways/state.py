"""What was decided for each endpoint of a gateway: plain data that `snapshots.render` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deployments.rules.access.caller_directory import CallerDirectory, Certificate
from deployments.rules.access.input_rules import InputRules
from deployments.rules.access.rules import OPEN, AccessRules
from deployments.rules.fallback.fallbacks import Fallback
from deployments.rules.traffic.splits import WHOLE


class Mode(StrEnum):
    """How an endpoint answers: by its versions, by the contract's rules, or not at all."""

    NORMAL = "normal"
    FALLBACK = "fallback"
    OPEN = "open"


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
class Sampling:
    """A share of the split's requests is copied to the edge.

    There two versions answer them, or drift is measured by them, or both.
    """

    basis_points: int = 500


@dataclass(frozen=True, slots=True)
class EndpointState:
    """What was decided for one (model, environment); weights are in basis points of 10000.

    `slices` is the layout of the weights on the line of callers' hashes (see
    `rules.traffic.slices`); without one it is by version numbers.


    `probe` are the basis points of inference requests that reach the versions while the mode has
    all others answered by the gateway: a half-open return. `input_rules` are None where no contract
    says what fits. `idempotent` allows a request to be run twice; `retry_onto` is the version that
    is asked when one with less than half of the weight fails. `rules_fallback`: the fallback has
    rules, which the edge is asked for before the fixed response is given.
    """

    environment: str
    model: str
    revision: int
    mode: Mode = Mode.NORMAL
    weights: Mapping[int, int] = field(default_factory=dict)
    slices: tuple[tuple[int, int], ...] = ()
    targets: Mapping[int, Target] = field(default_factory=dict)
    sticky_header: str = "x-user-id"
    header_rules: tuple[HeaderRule, ...] = ()
    mirror: Mirror | None = None
    sampling: Sampling | None = None
    experiment: bool = False
    probe: int = 0
    timeout_ms: int = 500
    fallback: Fallback | None = None
    rules_fallback: bool = False
    unavailable_code: str = "model_unavailable"
    retry_after_s: int = 30
    access: AccessRules = OPEN
    input_rules: InputRules | None = None
    invalid_code: str = "invalid_input"
    idempotent: bool = False
    retry_onto: int | None = None


@dataclass(frozen=True, slots=True)
class GatewayState:
    """All that one gateway should serve; `listeners` gives each environment its own port."""

    listeners: Mapping[str, int]
    endpoints: tuple[EndpointState, ...] = ()
    listen_address: str = "127.0.0.1"
    access_log: str = "/dev/stdout"
    edge: tuple[str, int] | None = None
    """Where the gateway reaches the edge process; None where there is none."""
    directories: Mapping[str, CallerDirectory] = field(default_factory=dict)
    """Whom it knows, by environment."""
    certificates: Mapping[str, Certificate | None] = field(default_factory=dict)
    """Environments whose listener speaks TLS; None: with the certificate that it has already."""
