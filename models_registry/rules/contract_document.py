"""The service contract document: read, checked, typed, and the exact bytes that are signed.

What is submitted is what is signed: nothing is added to the document. Where an optional section
is left out, the typed view carries the defaults of `covenant/v1`, which never change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any, Literal, cast

from console.errors import FieldError, Invalid
from console.rules.canonical import canonical_bytes, loads_strict
from models_registry.rules.contract_checks import semantic_faults
from models_registry.rules.contract_faults import schema, schema_faults
from models_registry.rules.contract_types import (
    AvailabilityObjective,
    ContractDocument,
    DerivedTolerance,
    Drift,
    ErrorMeaning,
    Fallback,
    FallbackExample,
    FallbackRule,
    Interface,
    LatencyObjective,
    Logging,
    RequestClause,
    Rollout,
    RolloutAnalysis,
    Tensor,
    ValidationGate,
)
from models_registry.rules.contract_yaml import MAX_BYTES, load_yaml

__all__ = [
    "AvailabilityObjective",
    "ContractDocument",
    "ErrorMeaning",
    "LatencyObjective",
    "Tensor",
    "from_json",
    "load",
    "schema",
    "seconds_of",
    "to_json",
    "window_days",
]

Media = Literal["json", "yaml", "auto"]
CALENDAR_MONTH = "calendar_month"
_MAX_FAULTS = 50
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def load(source: str | bytes, media: Media = "auto") -> ContractDocument:
    """The contract written in `source` as JSON or YAML (`auto`: JSON when it starts with `{`).

    Raises `Invalid` with `invalid_json` or `invalid_yaml` when the text cannot be read, and with
    `invalid_contract` and one `FieldError` for every fault when the document is wrong.
    """
    text = _as_text(source)
    if media == "json" or (media == "auto" and text.lstrip().startswith("{")):
        return from_json(loads_strict(text))
    return from_json(load_yaml(text))


def from_json(body: object) -> ContractDocument:
    """The contract in an already read JSON value; raises as `load` does."""
    canonical = canonical_bytes(body)
    if len(canonical) > MAX_BYTES:
        raise _invalid([FieldError("", f"is larger than {MAX_BYTES} bytes")])
    # Read back, so that numbers have one type whatever the document was written in.
    settled = loads_strict(canonical)
    faults = schema_faults(settled)
    if isinstance(settled, dict) and not faults:
        faults = semantic_faults(settled)
    if faults:
        raise _invalid(faults)
    return _typed(canonical, cast(dict[str, Any], settled))


def to_json(document: ContractDocument) -> dict[str, Any]:
    """The document as JSON values, equal to what was submitted."""
    return cast(dict[str, Any], json.loads(document.canonical))


def seconds_of(duration: str) -> int:
    """Seconds of a checked duration: `15m` is 900."""
    return int(duration[:-1]) * _SECONDS[duration[-1]]


def window_days(window: str) -> int | None:
    """Days of a rolling window (`28d` is 28), None for the calendar month."""
    return None if window == CALENDAR_MONTH else int(window[:-1])


def _as_text(source: str | bytes) -> str:
    if len(source) > MAX_BYTES:
        raise _invalid([FieldError("", f"is larger than {MAX_BYTES} bytes")])
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid([FieldError("", f"is not UTF-8 text (byte {error.start})")]) from error


def _typed(canonical: bytes, body: dict[str, Any]) -> ContractDocument:
    objectives = tuple(_objective(item) for item in body["objectives"])
    return ContractDocument(
        canonical=canonical,
        model=body["model"],
        interface=Interface(
            inputs=tuple(_tensor(item) for item in body["interface"]["inputs"]),
            outputs=tuple(_tensor(item) for item in body["interface"]["outputs"]),
        ),
        objectives=objectives,
        errors=tuple(ErrorMeaning(**item) for item in body["errors"]),
        fallback=_fallback(body["fallback"]),
        logging=Logging(tuple(body["logging"]["required"]), body["logging"]["retention_days"]),
        load_qps=float(body["load"]["qps"]) if "load" in body else None,
        drift=_drift(body.get("drift")),
        explanation_method=body.get("explanation", {"method": "none"})["method"],
        validation=_validation(body.get("validation", {})),
        rollout=_rollout(body.get("rollout", {}), objectives),
        approvals={name: tuple(roles) for name, roles in body.get("approvals", {}).items()},
        valid_until=date.fromisoformat(body["valid_until"]) if "valid_until" in body else None,
        revision=body.get("revision"),
        request=RequestClause(**body.get("request", {})),
    )


def _tensor(item: Mapping[str, Any]) -> Tensor:
    return Tensor(
        name=item["name"],
        dtype=item["dtype"],
        dims=tuple(item["dims"]),
        minimum=item.get("min"),
        maximum=item.get("max"),
        nan=item.get("nan", "refuse"),
        sums_to=item.get("sums_to"),
    )


def _fallback(item: Mapping[str, Any]) -> Fallback:
    return Fallback(
        response=item["response"],
        rules=tuple(FallbackRule(**rule) for rule in item.get("rules", ())),
        examples=tuple(FallbackExample(**example) for example in item.get("examples", ())),
    )


def _objective(item: Mapping[str, Any]) -> LatencyObjective | AvailabilityObjective:
    target, window = float(item["target"]), item["window"]
    if item["name"] == "latency":
        return LatencyObjective(float(item["threshold_ms"]), target, window)
    return AvailabilityObjective(target, window)


def _drift(item: Mapping[str, Any] | None) -> Drift | None:
    if item is None:
        return None
    entropy = item.get("model_output_entropy")
    return Drift(
        feature_drift_score=item.get("feature_drift_score"),
        entropy_above=entropy["above"] if entropy else None,
        entropy_for_seconds=seconds_of(entropy["for"]) if entropy else None,
    )


def _validation(item: Mapping[str, Any]) -> ValidationGate:
    usual = ValidationGate()
    return ValidationGate(
        samples=int(item.get("samples", usual.samples)),
        seed=int(item.get("seed", usual.seed)),
        atol=float(item.get("atol", usual.atol)),
        rtol=float(item.get("rtol", usual.rtol)),
        p95_ms=float(item.get("p95_ms", usual.p95_ms)),
        derived={
            kind: DerivedTolerance(float(limits["atol"]), float(limits["rtol"]))
            for kind, limits in item.get("derived", {}).items()
        },
    )


def _rollout(
    item: Mapping[str, Any], objectives: tuple[LatencyObjective | AvailabilityObjective, ...]
) -> Rollout:
    usual, limits = Rollout(), item.get("analysis", {})
    promised = next((o.threshold_ms for o in objectives if isinstance(o, LatencyObjective)), 80.0)
    analysis = RolloutAnalysis(
        max_error_rate=float(limits.get("max_error_rate", usual.analysis.max_error_rate)),
        max_p99_ms=float(limits.get("max_p99_ms", promised)),
        min_requests=int(limits.get("min_requests", usual.analysis.min_requests)),
    )
    return Rollout(
        start=float(item.get("start", usual.start)),
        step=float(item.get("step", usual.step)),
        every_seconds=seconds_of(item["every"]) if "every" in item else usual.every_seconds,
        analysis=analysis,
    )


def _invalid(faults: list[FieldError]) -> Invalid:
    first = faults[0]
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return Invalid(
        f"The contract cannot be used: {first.pointer or 'it'} {first.detail}{more}.",
        code="invalid_contract",
        hint="Mend the places named; docs/contract.md describes every field.",
        errors=tuple(faults[:_MAX_FAULTS]),
    )
