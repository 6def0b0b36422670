"""The typed view of a service contract. `contract_document.load` makes it from a checked text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from console.rules.canonical import JsonValue, digest

DEFAULT_TIMEOUT_MS = 500
LONGEST_DERIVED_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output; a dimension that varies is a name, the batch is `batch`."""

    name: str
    dtype: str
    dims: tuple[str | int, ...]
    minimum: float | None = None
    maximum: float | None = None
    nan: Literal["refuse", "allow"] = "refuse"
    sums_to: float | None = None
    """What the values along the last axis of an output add up to; None: nothing is promised."""


@dataclass(frozen=True, slots=True)
class Interface:
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class LatencyObjective:
    """`target` percent of requests are answered within `threshold_ms`, over `window`."""

    threshold_ms: float
    target: float
    window: str
    name: Literal["latency"] = "latency"


@dataclass(frozen=True, slots=True)
class AvailabilityObjective:
    """`target` percent of requests end without the provider's fault, over `window`."""

    target: float
    window: str
    name: Literal["availability"] = "availability"


@dataclass(frozen=True, slots=True)
class RequestClause:
    """How one request is treated. `timeout_ms` None: as `ContractDocument.timeout_ms` says."""

    timeout_ms: int | None = None
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """An error answer that callers may rely on."""

    status: int
    code: str
    retry: bool
    counts_against: Literal["caller", "provider", "none"]


@dataclass(frozen=True, slots=True)
class FallbackRule:
    """`response` is the answer to rows of which `when`, a condition over the inputs, is true."""

    name: str
    when: str
    response: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class FallbackExample:
    """One row of inputs and the answer that the rules must give to it."""

    inputs: Mapping[str, JsonValue]
    response: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Fallback:
    """What answers while the model is down: the first rule that holds, else `response`."""

    response: Mapping[str, JsonValue]
    rules: tuple[FallbackRule, ...] = ()
    examples: tuple[FallbackExample, ...] = ()


@dataclass(frozen=True, slots=True)
class Logging:
    required: tuple[str, ...]
    retention_days: int


@dataclass(frozen=True, slots=True)
class Drift:
    """Limits of drift; None where no limit is promised."""

    feature_drift_score: float | None = None
    entropy_above: float | None = None
    entropy_for_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class DerivedTolerance:
    """How far an optimised version may be from the source; `atol` of int8 is a share of the
    output's largest value."""

    atol: float
    rtol: float


@dataclass(frozen=True, slots=True)
class ValidationGate:
    """`derived` holds the tolerances of optimised versions by their kind (fp16, int8 …)."""

    samples: int = 100
    seed: int = 0
    atol: float = 1e-5
    rtol: float = 1e-4
    p95_ms: float = 50.0
    derived: Mapping[str, DerivedTolerance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RolloutAnalysis:
    """Limits in percent of requests and in milliseconds."""

    max_error_rate: float = 1.0
    max_p99_ms: float = 80.0
    min_requests: int = 100


@dataclass(frozen=True, slots=True)
class Rollout:
    """Shares in percent of traffic."""

    start: float = 5.0
    step: float = 5.0
    every_seconds: int = 900
    analysis: RolloutAnalysis = field(default_factory=RolloutAnalysis)


@dataclass(frozen=True, slots=True)
class ContractDocument:
    """A contract that passed every check; `canonical` holds exactly the bytes that are signed."""

    canonical: bytes
    model: str
    interface: Interface
    objectives: tuple[LatencyObjective | AvailabilityObjective, ...]
    errors: tuple[ErrorMeaning, ...]
    fallback: Fallback
    logging: Logging
    load_qps: float | None
    drift: Drift | None
    explanation_method: Literal["none", "shap"]
    validation: ValidationGate
    rollout: Rollout
    approvals: Mapping[str, tuple[str, ...]]
    valid_until: date | None = None
    """The last day (UTC) on which the promise holds; None: until another takes its place."""
    revision: int | None = None
    """The revision that the document says it is; most say nothing."""
    request: RequestClause = RequestClause()

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical bytes, 64 hex digits."""
        return digest(self.canonical)

    @property
    def latency(self) -> LatencyObjective | None:
        found = (o for o in self.objectives if isinstance(o, LatencyObjective))
        return next(found, None)

    @property
    def availability(self) -> AvailabilityObjective | None:
        found = (o for o in self.objectives if isinstance(o, AvailabilityObjective))
        return next(found, None)

    @property
    def timeout_ms(self) -> int:
        """Milliseconds after which a caller gets 504 instead of an answer.

        What `request.timeout_ms` says; else ten times the latency objective's threshold, which is
        on a percentile and not on the worst, at least half a second and at most a minute.
        """
        if self.request.timeout_ms is not None:
            return self.request.timeout_ms
        threshold = self.latency.threshold_ms if self.latency else 0
        return int(min(max(10 * threshold, DEFAULT_TIMEOUT_MS), LONGEST_DERIVED_TIMEOUT_MS))

    @property
    def unavailable_code(self) -> str:
        """The code of the 503 that callers get while the circuit is open."""
        return self._code_of(503, "model_unavailable")

    @property
    def invalid_input_code(self) -> str:
        """The code of the 422 that callers get for a request the schema refuses."""
        return self._code_of(422, "invalid_input")

    @property
    def fallback_outputs(self) -> dict[str, JsonValue]:
        """The fallback's value for every output, or empty when it is plain JSON only."""
        response = self.fallback.response
        names = [output.name for output in self.interface.outputs if output.name in response]
        return {name: response[name] for name in names}

    def _code_of(self, status: int, otherwise: str) -> str:
        return next((e.code for e in self.errors if e.status == status), otherwise)
