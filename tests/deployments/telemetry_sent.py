"""Export requests of OTLP metrics as documents, for tests of the intake."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

NANO = 10**9


def at_ns(moment: datetime) -> int:
    return int(moment.timestamp() * NANO)


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def request(
    *metrics: dict[str, Any],
    model: str = "fraud_detector",
    version: str = "1",
    resource: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A request of one resource that names the endpoint."""
    named = {
        "covenant.environment": "production",
        "covenant.model": model,
        "covenant.version": version,
        **(resource or {}),
    }
    attributes = [attribute(key, value) for key, value in named.items()]
    scope = {"scope": {"name": "tests"}, "metrics": list(metrics)}
    return {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [scope]}]}


def gauge(name: str, value: float, *, at: datetime, **labels: str) -> dict[str, Any]:
    point = {
        "timeUnixNano": str(at_ns(at)),
        # JSON has no number for those that are none.
        "asDouble": value if math.isfinite(value) else "NaN",
        "attributes": [attribute(key, text) for key, text in labels.items()],
    }
    return {"name": name, "gauge": {"dataPoints": [point]}}


def sums(
    name: str,
    value: int,
    *,
    at: datetime,
    start: datetime,
    monotonic: bool,
    cumulative: bool = True,
) -> dict[str, Any]:
    point = {
        "timeUnixNano": str(at_ns(at)),
        "startTimeUnixNano": str(at_ns(start)),
        "asInt": str(value),
    }
    found = {
        "dataPoints": [point],
        "aggregationTemporality": 2 if cumulative else 1,
        "isMonotonic": monotonic,
    }
    return {"name": name, "sum": found}


def histogram(
    name: str,
    *,
    count: int,
    total: float,
    at: datetime,
    least: float | None = None,
    most: float | None = None,
) -> dict[str, Any]:
    point: dict[str, Any] = {"timeUnixNano": str(at_ns(at)), "count": str(count), "sum": total}
    if least is not None and most is not None:
        point |= {"min": least, "max": most}
    return {"name": name, "histogram": {"dataPoints": [point], "aggregationTemporality": 1}}
