"""How each promise stands, looked at every few minutes, so that thousands can be sorted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from deployments.models import Endpoint, SlaStanding
from deployments.rules.objectives import slo
from deployments.rules.objectives.sla_months import RANKS, month_of, months_until, worst_share
from deployments.rules.objectives.slo import Promise, month_bounds
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.objectives.promises import attainments, objectives_of
from deployments.selectors.objectives.sla_counts import traffic_by
from deployments.selectors.objectives.sla_portfolio import AT_ONCE, TREND_MONTHS
from deployments.selectors.objectives.sla_types import month_report
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ServiceContract

MONTHS_EVERY = timedelta(hours=6)
"""Months that are over change by exclusions alone; the trend says when it was counted."""


def look_at_promises(*, now: datetime) -> int:
    """Note how every promise stands; gives how many. A hundred at a time, each its own write.

    This is derived from what is counted, never a fact of its own: it is no entry in the trail.
    """
    keys = list(
        Endpoint.objects.filter(
            model__in=ServiceContract.objects.holding().order_by().values("model")
        )
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    for begin in range(0, len(keys), AT_ONCE):
        some = Endpoint.objects.filter(pk__in=keys[begin : begin + AT_ONCE])
        _look(list(some.select_related("model", "environment", "sla_standing")), now)
    SlaStanding.objects.exclude(endpoint__in=keys).delete()
    return len(keys)


def _look(endpoints: Sequence[Endpoint], now: datetime) -> None:
    contracts = contracts_that_hold({one.model_id for one in endpoints})
    standing = attainments(contracts, endpoints, now)
    old = [one for one in endpoints if _months_are_old(one, now)]
    months = _months(old, contracts, now) if old else {}
    rows = []
    for endpoint in endpoints:
        attained = [one for _, one in standing.get(endpoint.pk, [])]
        state = slo.worst([one.promise for one in attained])
        before = getattr(endpoint, "sla_standing", None)
        fresh = endpoint.pk in months
        rows.append(
            SlaStanding(
                endpoint=endpoint,
                state=state,
                rank=RANKS[state],
                budget_left_share=worst_share([one.budget_left_share for one in attained]),
                months=months.get(endpoint.pk, before.months if before else {}),
                counted_at=now,
                months_counted_at=now if fresh else (before.months_counted_at if before else None),
            )
        )
    SlaStanding.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["endpoint"],
        update_fields=[
            "state",
            "rank",
            "budget_left_share",
            "months",
            "counted_at",
            "months_counted_at",
        ],
    )


def _months_are_old(endpoint: Endpoint, now: datetime) -> bool:
    standing = getattr(endpoint, "sla_standing", None)
    counted = standing.months_counted_at if standing is not None else None
    return counted is None or now - counted > MONTHS_EVERY


def _months(
    endpoints: Sequence[Endpoint], contracts: dict[int, Any], now: datetime
) -> dict[int, dict[str, Any]]:
    firsts = months_until(month_of(now), TREND_MONTHS)
    start, end = month_bounds(firsts[0])[0], month_bounds(firsts[-1])[1]
    keys = [one.pk for one in endpoints]
    counted = traffic_by(keys, start, end, "month", excluded=excluded_spans(keys, start, end))
    found: dict[int, dict[str, Any]] = {}
    for endpoint in endpoints:
        contract = contracts.get(endpoint.model_id)
        objectives = objectives_of(contract) if contract else []
        here = {month_of(at): traffic for at, traffic in counted.get(endpoint.pk, {}).items()}
        reports = [month_report(first, here.get(first), objectives) for first in firsts]
        found[endpoint.pk] = {
            f"{one.first:%Y-%m}": {
                "state": Promise(one.state).value,
                "requests": one.requests,
                "left": one.budget_left_share,
            }
            for one in reports
        }
    return found
