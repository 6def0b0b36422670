"""What changes in the limits of drift, of validation and of rollouts."""

from __future__ import annotations

from collections.abc import Iterator

from models_registry.rules.contract_changes import (
    Change,
    Effect,
    NumberChange,
    change,
    effect_of,
    number_change,
)
from models_registry.rules.contract_document import ContractDocument
from models_registry.rules.contract_terms import (
    Value,
    Word,
    duration_text,
    gettext_noop,
    number_text,
)
from models_registry.rules.contract_types import ValidationGate
from models_registry.rules.equivalence import LOSSY, tolerance

_WORDS = {
    "samples": Word(gettext_noop("Inputs compared at validation")),
    "seed": Word(gettext_noop("Seed of the validation's inputs")),
    "atol": Word(gettext_noop("Absolute tolerance")),
    "rtol": Word(gettext_noop("Relative tolerance")),
    "p95_ms": Word(gettext_noop("Latency budget at validation (P95)")),
    "start": Word(gettext_noop("First share of a new version")),
    "step": Word(gettext_noop("Share added at each step")),
    "every": Word(gettext_noop("Time between steps")),
    "max_error_rate": Word(gettext_noop("Error rate that stops a rollout")),
    "max_p99_ms": Word(gettext_noop("P99 that stops a rollout")),
    "min_requests": Word(gettext_noop("Requests before a rollout is judged")),
}
_DEFAULT = Word(gettext_noop("the default"))


_TIMEOUT = Word(gettext_noop("Time-out of a request"))
_IDEMPOTENT = Word(gettext_noop("A request that failed may be run again"))


def request_changes(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    """What is said of one request. Who waits longer than is given gets nothing.

    A time-out that follows from the latency limit is told as that limit's change.
    """
    if before.request.timeout_ms != after.request.timeout_ms:
        yield from number_change(
            NumberChange(
                "/request/timeout_ms",
                _TIMEOUT,
                before.timeout_ms,
                after.timeout_ms,
                "stronger",
                "ms",
                callers_build_on_it=True,
            )
        )
    old, new = before.request.idempotent, after.request.idempotent
    if old != new:
        effect: Effect = "stronger" if new else "weaker"
        yield change("/request/idempotent", _IDEMPOTENT, old, new, effect)


def limit_changes(before: ContractDocument, after: ContractDocument) -> Iterator[Change]:
    """Limits of drift, validation and rollout: one row each."""
    old_drift, new_drift = before.drift, after.drift
    old, new = before.validation, after.validation
    a, b = before.rollout, after.rollout
    for number in (
        NumberChange(
            "/drift/feature_drift_score",
            Word(gettext_noop("Feature drift that raises an alert")),
            old_drift.feature_drift_score if old_drift else None,
            new_drift.feature_drift_score if new_drift else None,
            "weaker",
        ),
        NumberChange(
            "/drift/model_output_entropy/above",
            Word(gettext_noop("Entropy of outputs that raises an alert")),
            old_drift.entropy_above if old_drift else None,
            new_drift.entropy_above if new_drift else None,
            "weaker",
        ),
        NumberChange(
            "/drift/model_output_entropy/for",
            Word(gettext_noop("How long the entropy must be above its limit")),
            old_drift.entropy_for_seconds if old_drift else None,
            new_drift.entropy_for_seconds if new_drift else None,
            "weaker",
            "s",
        ),
        NumberChange(
            "/validation/samples", _WORDS["samples"], old.samples, new.samples, "stronger"
        ),
        NumberChange("/validation/seed", _WORDS["seed"], old.seed, new.seed, "neutral"),
        NumberChange("/validation/atol", _WORDS["atol"], old.atol, new.atol, "weaker"),
        NumberChange("/validation/rtol", _WORDS["rtol"], old.rtol, new.rtol, "weaker"),
        NumberChange(
            "/validation/p95_ms", _WORDS["p95_ms"], old.p95_ms, new.p95_ms, "weaker", "ms"
        ),
        NumberChange("/rollout/start", _WORDS["start"], a.start, b.start, "weaker", "%"),
        NumberChange("/rollout/step", _WORDS["step"], a.step, b.step, "weaker", "%"),
        NumberChange(
            "/rollout/analysis/max_error_rate",
            _WORDS["max_error_rate"],
            a.analysis.max_error_rate,
            b.analysis.max_error_rate,
            "weaker",
            "%",
        ),
        NumberChange(
            "/rollout/analysis/max_p99_ms",
            _WORDS["max_p99_ms"],
            a.analysis.max_p99_ms,
            b.analysis.max_p99_ms,
            "weaker",
            "ms",
        ),
        NumberChange(
            "/rollout/analysis/min_requests",
            _WORDS["min_requests"],
            a.analysis.min_requests,
            b.analysis.min_requests,
            "neutral",
        ),
    ):
        yield from number_change(number)
    yield from _derived(old, new)
    if a.every_seconds != b.every_seconds:
        effect = effect_of(a.every_seconds, b.every_seconds, higher_is="stronger")
        seconds = a.every_seconds, b.every_seconds
        times = duration_text(a.every_seconds), duration_text(b.every_seconds)
        yield change("/rollout/every", _WORDS["every"], *seconds, effect, shown=times)


def _derived(old: ValidationGate, new: ValidationGate) -> Iterator[Change]:
    """Tolerances of optimised versions; one that is not named has covenant/v1's default."""
    for kind in sorted({*old.derived, *new.derived}):
        before, after = old.derived.get(kind), new.derived.get(kind)
        for field in ("atol", "rtol"):
            one = getattr(before, field) if before else None
            other = getattr(after, field) if after else None
            if one == other:
                continue
            limits = _tolerated(old, kind, field), _tolerated(new, kind, field)
            effect: Effect = "neutral"
            if limits[0] != limits[1]:
                effect = effect_of(*limits, higher_is="weaker")
            at, shown = f"/validation/derived/{kind}/{field}", (_limit(one), _limit(other))
            yield change(at, _WORDS[field], one, other, effect, name=kind, shown=shown)


def _tolerated(gate: ValidationGate, kind: str, field: str) -> float:
    """What is tolerated of such a version, said by the contract or not."""
    if kind in gate.derived:
        return float(getattr(gate.derived[kind], field))
    if kind in LOSSY:
        return float(getattr(tolerance(("FP32",), optimisation=kind), field))
    return float(getattr(gate, field))


def _limit(value: float | None) -> Value:
    return _DEFAULT if value is None else number_text(value)
