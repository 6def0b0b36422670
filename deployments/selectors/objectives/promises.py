"""What contracts promise, and how the counted traffic meets it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from deployments.models import Endpoint
from deployments.rules.objectives.slo import Attainment, Objective, attain, window_start
from deployments.rules.objectives.spans import Span, left_over
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.statistics.rollups import traffic_between
from models_registry.rules.contract_document import ContractDocument, window_days


def objectives_of(contract: ContractDocument) -> list[Objective]:
    """The contract's objectives as the arithmetic takes them."""
    found: list[Objective] = []
    if latency := contract.latency:
        found.append(
            Objective(
                "latency", latency.target, window_days(latency.window), float(latency.threshold_ms)
            )
        )
    if availability := contract.availability:
        found.append(
            Objective("availability", availability.target, window_days(availability.window))
        )
    return found


def counted_between(
    endpoint_ids: Collection[int], start: datetime, end: datetime
) -> dict[int, Traffic]:
    """What promises count of each endpoint in a stretch of time: without what its seats left out.

    One query more than `traffic_between`, and those of each endpoint that has something left out.
    """
    excluded = excluded_spans(endpoint_ids, start, end)
    found = traffic_between([pk for pk in endpoint_ids if pk not in excluded], start, end)
    for pk, spans in excluded.items():
        for part in left_over(Span(start, end), spans):
            counted = traffic_between([pk], part.start, part.end).get(pk, Traffic())
            found[pk] = found.get(pk, Traffic()) + counted
    return found


def attainments(
    contracts: dict[int, ContractDocument], endpoints: Collection[Endpoint], now: datetime
) -> dict[int, list[tuple[Objective, Attainment]]]:
    """How each endpoint stands over its objectives' own windows that end now.

    Three queries for each different window (usually one).
    """
    wanted: dict[datetime, list[tuple[Endpoint, Objective]]] = {}
    for endpoint in endpoints:
        contract = contracts.get(endpoint.model_id)
        for objective in objectives_of(contract) if contract else ():
            wanted.setdefault(window_start(objective, now), []).append((endpoint, objective))
    found: dict[int, list[tuple[Objective, Attainment]]] = {}
    for start, pairs in wanted.items():
        counted = counted_between(
            {endpoint.pk for endpoint, _ in pairs}, start, now + timedelta(minutes=1)
        )
        for endpoint, objective in pairs:
            attained = attain(objective, counted.get(endpoint.pk, Traffic()))
            found.setdefault(endpoint.pk, []).append((objective, attained))
    return found
