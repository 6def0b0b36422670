"""The service contract of the documentation, and a way to change one place of it."""

from __future__ import annotations

from typing import Any

from models_registry.rules.contract_document import load, to_json

SAMPLE = """\
apiVersion: covenant/v1
kind: ServiceContract
model: fraud_detector
interface:
  inputs:  [{name: features, dtype: FP32, dims: [batch, 10], min: -10, max: 10, nan: refuse}]
  outputs: [{name: risk_score, dtype: FP32, dims: [batch, 1], min: 0, max: 1}]
objectives:
  - {name: latency, threshold_ms: 80, target: 99.0, window: 28d}        # P99 ≤ 80 ms
  - {name: availability, target: 99.9, window: 28d}                     # no 5xx, no time-out
load: {qps: 2000}
errors:                                                                  # what a caller may rely on
  - {status: 422, code: invalid_input, retry: false, counts_against: caller}
  - {status: 503, code: model_unavailable, retry: true, counts_against: provider}
fallback: {response: {risk_score: 0.3, reason: model_down}, rules: []}   # L2
logging: {required: [x_request_id, model_version, status, duration_ms], retention_days: 30}
drift: {feature_drift_score: 0.3, model_output_entropy: {above: 0.5, for: 5m}}
explanation: {method: none}
validation: {samples: 100, seed: 0, atol: 1.0e-5, rtol: 1.0e-4, p95_ms: 50}
rollout: {start: 5, step: 5, every: 15m,
          analysis: {max_error_rate: 1.0, max_p99_ms: 80, min_requests: 100}}
approvals: {staging: [], production: [sre]}
"""

GONE = object()
"""The value of a place that is taken away."""


def body() -> dict[str, Any]:
    return to_json(load(SAMPLE))


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The sample's body with the values at JSON pointers replaced; `GONE` takes a place away."""
    document: Any = body()
    for pointer, value in changes:
        *parents, last = pointer.strip("/").split("/")
        place = document
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        key: Any = last
        if isinstance(place, list):
            key = len(place) if last == "-" else int(last)
            place[key : key + 1] = [] if value is GONE else [value]
        elif value is GONE:
            del place[key]
        else:
            place[key] = value
    result: dict[str, Any] = document
    return result
