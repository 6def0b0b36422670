"""A contract's fields in the order in which people read them, whatever order they were kept in."""

from __future__ import annotations

from typing import Any

_READING_ORDER = (
    "apiVersion", "kind", "model", "revision", "valid_until", "interface", "inputs", "outputs",
    "objectives", "load", "request", "errors", "fallback", "logging", "drift", "explanation",
    "validation", "rollout", "approvals", "name", "dtype", "dims", "min", "max", "nan",
    "sums_to", "threshold_ms", "target", "window", "qps", "timeout_ms", "idempotent",
    "status", "code",
    "retry",
    "counts_against", "when", "response", "rules", "examples", "required", "retention_days",
    "feature_drift_score", "model_output_entropy", "above", "for", "method",
    "samples", "seed", "atol", "rtol", "p95_ms", "derived", "simplify", "graph",
    "fp16", "int8", "start", "step", "every", "analysis",
    "max_error_rate", "max_p99_ms", "min_requests", "staging", "production",
)  # fmt: skip
_RANK = {name: rank for rank, name in enumerate(_READING_ORDER)}


def rank(name: str) -> int:
    """Where a field stands in the reading order; names of a document's own come last."""
    return _RANK.get(name, len(_RANK))


def in_reading_order(body: Any) -> Any:
    """The same document; fields with names of their own (a fallback's) come last, by name."""
    if isinstance(body, dict):
        names = sorted(body, key=lambda name: (rank(name), name))
        return {name: in_reading_order(body[name]) for name in names}
    if isinstance(body, list):
        return [in_reading_order(item) for item in body]
    return body
