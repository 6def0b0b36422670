"""What contracts promise, and how the counted traffic meets it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from deployments.models import Endpoint
from deployments.rules.objectives.slo import Attainment, Objective, attain, window_start
from deployments.rules.objectives.spans import MINUTE, floor_minute
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.statistics.rollups import traffic_between
from models_registry.rules.contract_document import ContractDocument, window_days

BURN_SPAN = timedelta(hours=1)


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

    One query more than `traffic_between`.
    """
    excluded = excluded_spans(endpoint_ids, start, end)
    return traffic_between(endpoint_ids, start, end, excluded=excluded)


def last_hour(endpoint_ids: Collection[int], now: datetime) -> dict[int, Traffic]:
    """What each endpoint counted in the last hour, as alerts on burn rates look at it: without
    what its seats left out, whole minutes, with the one that `now` lies in."""
    minute = floor_minute(now)
    return counted_between(endpoint_ids, minute - BURN_SPAN, minute + MINUTE)


def attainments(
    contracts: dict[int, ContractDocument], endpoints: Collection[Endpoint], now: datetime
) -> dict[int, list[tuple[Objective, Attainment]]]:
    """How each endpoint stands over its objectives' own windows that end now.

    Whole minutes, with the one that `now` lies in. Four queries for each different window
    (usually one).
    """
    wanted: dict[datetime, list[tuple[Endpoint, Objective]]] = {}
    for endpoint in endpoints:
        contract = contracts.get(endpoint.model_id)
        for objective in objectives_of(contract) if contract else ():
            wanted.setdefault(window_start(objective, now), []).append((endpoint, objective))
    found: dict[int, list[tuple[Objective, Attainment]]] = {}
    for start, pairs in wanted.items():
        ids = {endpoint.pk for endpoint, _ in pairs}
        counted = counted_between(ids, floor_minute(start), floor_minute(now) + MINUTE)
        for endpoint, objective in pairs:
            attained = attain(objective, counted.get(endpoint.pk, Traffic()))
            found.setdefault(endpoint.pk, []).append((objective, attained))
    return found
