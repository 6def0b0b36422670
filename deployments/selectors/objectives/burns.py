"""How fast each endpoint burns its error budgets, as the alerts and the pages take it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from deployments.models import Endpoint
from deployments.rules.objectives import burn_rates
from deployments.rules.objectives.burn_rates import Burn
from deployments.rules.objectives.slo import Objective, attain
from deployments.rules.objectives.spans import MINUTE, floor_minute
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.objectives.promises import counted_between, objectives_of
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ServiceContract


@dataclass(frozen=True, slots=True)
class EndpointBurn:
    """One burn-rate alert of one objective of one endpoint.

    Rates are times the even pace, None without valid requests; `valid` and `bad` are requests of
    the long window.
    """

    endpoint_id: int
    objective: str
    severity: str
    long_s: int
    short_s: int
    factor: float
    long_rate: float | None
    short_rate: float | None
    valid: int
    bad: float
    firing: bool


def burns(now: datetime, *, endpoints: Collection[Endpoint] | None = None) -> list[EndpointBurn]:
    """Every burn-rate alert of the endpoints (all whose model has a contract, if None).

    The queries do not grow with the number of endpoints: endpoints, contracts, exclusions, and
    what each of five stretches of time takes. Counts are kept by the minute: a window reaches
    from its first whole minute to the end of the one that `now` lies in.
    """
    if endpoints is None:
        held = ServiceContract.objects.holding().values("model")
        endpoints = list(Endpoint.objects.filter(model__in=held))
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    promised = [
        (endpoint.pk, objectives_of(contracts[endpoint.model_id]))
        for endpoint in endpoints
        if endpoint.model_id in contracts
    ]
    spans = traffic_of_spans([pk for pk, _ in promised], now)
    return [
        _row(endpoint_id, objective, burn)
        for endpoint_id, objectives in promised
        for objective in objectives
        for burn in burns_of(objective, spans[endpoint_id])
    ]


def burns_of(objective: Objective, spans: dict[timedelta, Traffic]) -> Iterator[Burn]:
    """An objective's alerts by what was counted in each stretch of time."""
    for policy in burn_rates.POLICIES:
        long, short = attain(objective, spans[policy.long]), attain(objective, spans[policy.short])
        yield burn_rates.judge(policy, objective, long, short)


def traffic_of_spans(
    endpoint_ids: Collection[int], now: datetime
) -> dict[int, dict[timedelta, Traffic]]:
    """What each endpoint counted in each of the alerts' stretches of time that end now.

    Read as pieces that do not overlap and added up, so that no minute is read twice.
    """
    found: dict[int, dict[timedelta, Traffic]] = {pk: {} for pk in endpoint_ids}
    minute = floor_minute(now)
    end = minute + MINUTE
    so_far: dict[int, Traffic] = {pk: Traffic() for pk in endpoint_ids}
    for span in burn_rates.SPANS:
        start = minute - span
        counted = counted_between(endpoint_ids, start, end)
        for pk in endpoint_ids:
            so_far[pk] += counted.get(pk, Traffic())
            found[pk][span] = so_far[pk]
        end = start
    return found


def _row(endpoint_id: int, objective: Objective, burn: Burn) -> EndpointBurn:
    return EndpointBurn(
        endpoint_id=endpoint_id,
        objective=objective.name,
        severity=burn.severity,
        long_s=burn.long_s,
        short_s=burn.short_s,
        factor=burn.factor,
        long_rate=burn.long_rate,
        short_rate=burn.short_rate,
        valid=burn.valid,
        bad=burn.bad,
        firing=burn.firing,
    )
