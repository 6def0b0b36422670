"""Objectives as OpenSLO v1 documents: https://github.com/OpenSLO/OpenSLO, README.

Each endpoint becomes a `Service`, each objective an `SLO` with its indicator inline: good and
valid requests as Prometheus counters. Alert policies are left out: OpenSLO allows one condition
in a policy, and a burn-rate alert here has two windows; the Prometheus rules have them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from deployments.rules.objectives.prometheus_rules import (
    PromisedEndpoint,
    good_and_valid,
    selector_of,
)
from deployments.rules.objectives.slo import Objective

VERSION: Final = "openslo/v1"
MODEL: Final = "covenant-model"
ENVIRONMENT: Final = "covenant-environment"
OBJECTIVE: Final = "covenant-objective"
THRESHOLD: Final = "covenant-threshold-ms"
"""Annotations that lead back from a document to what it was made of."""
LONGEST_NAME: Final = 63
CALENDAR: Final = {"startTime": "2026-01-01 00:00:00", "timeZone": "UTC"}
"""From when on months are counted; each begins on its first day."""


def documents(endpoints: Sequence[PromisedEndpoint]) -> list[dict[str, Any]]:
    """All documents: of each endpoint its service, then its objectives."""
    found: list[dict[str, Any]] = []
    services: set[str] = set()
    for endpoint in endpoints:
        service = object_name(endpoint.environment, endpoint.model, taken=services)
        services.add(service)
        found += _of_endpoint(endpoint, service)
    return found


def object_name(*parts: str, taken: Collection[str] = ()) -> str:
    """A name as RFC 1123 has it: `_` is `-`; what is too long or taken ends in a digest.

    >>> object_name("production", "fraud_detector", "latency")
    'production-fraud-detector-latency'
    """
    name = "-".join(parts).replace("_", "-").strip("-").lower()
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    digest = hashlib.sha256("/".join(parts).encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9].rstrip('-')}-{digest}"


def _of_endpoint(endpoint: PromisedEndpoint, service: str) -> Iterator[dict[str, Any]]:
    place = f"{endpoint.environment}/{endpoint.model}"
    marks = {ENVIRONMENT: endpoint.environment, MODEL: endpoint.model}
    yield {
        "apiVersion": VERSION,
        "kind": "Service",
        "metadata": {"name": service, "displayName": place, "annotations": marks},
        "spec": {"description": f"The model {endpoint.model} in {endpoint.environment}."},
    }
    for objective in endpoint.objectives:
        more = {OBJECTIVE: objective.name}
        if objective.threshold_ms is not None:
            more[THRESHOLD] = f"{objective.threshold_ms:.12g}"
        name = object_name(service, objective.name)
        yield {
            "apiVersion": VERSION,
            "kind": "SLO",
            "metadata": {
                "name": name,
                "displayName": f"{objective.name} of {place}",
                "annotations": {**marks, **more},
            },
            "spec": {
                "description": _sentence(objective, endpoint.revision),
                "service": service,
                "indicator": _indicator(endpoint, objective, name),
                "timeWindow": [_window(objective)],
                "budgetingMethod": "Occurrences",
                "objectives": [{"displayName": objective.name, "target": _target(objective)}],
            },
        }


def _indicator(endpoint: PromisedEndpoint, objective: Objective, name: str) -> dict[str, Any]:
    selector = selector_of(endpoint.environment, endpoint.model)
    good, valid = good_and_valid(objective, selector, "")
    return {
        "metadata": {"name": name},
        "spec": {
            "ratioMetric": {
                "counter": True,
                "good": _source(f"sum({good})"),
                "total": _source(f"sum({valid})"),
            }
        },
    }


def _source(query: str) -> dict[str, Any]:
    return {"metricSource": {"type": "Prometheus", "spec": {"query": query}}}


def _window(objective: Objective) -> dict[str, Any]:
    if objective.window_days is None:
        return {"duration": "1M", "isRolling": False, "calendar": dict(CALENDAR)}
    return {"duration": f"{objective.window_days}d", "isRolling": True}


def _target(objective: Objective) -> float:
    return float(Fraction(str(objective.target)) / 100)


def _sentence(objective: Objective, revision: int) -> str:
    kept = (
        f"are answered within {objective.threshold_ms:g} ms"
        if objective.threshold_ms is not None
        else "end without a fault of the provider"
    )
    return f"{objective.target:g} % of requests {kept} (contract, revision {revision})."
