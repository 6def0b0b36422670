"""Whether a promise is being kept: one row for each endpoint with a contract, one month in full."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.urls import reverse

from console.models import User
from deployments.models import Endpoint, MinuteRollup
from deployments.rules.objectives import slo
from deployments.rules.objectives.slo import Attainment, Objective, Promise
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.objectives.promises import (
    attainments,
    objectives_of,
)
from deployments.selectors.statistics.rollups import (
    rows_between,
    traffic_between,
    traffic_of_rows,
)
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ContractSignature, ServiceContract

BURN_SPAN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ObjectiveReport:
    """One objective over one span; `attained` in percent, budget in requests, None: no requests."""

    name: str
    sentence: str
    target: float
    threshold_ms: float | None
    attained: float | None
    good: float
    valid: int
    budget_total: float
    budget_left: float
    budget_left_share: float | None
    burn_rate: float | None
    state: Promise
    exact: bool


@dataclass(frozen=True, slots=True)
class DayReport:
    """One day of the calendar; `attained` in percent by objective, missing without requests."""

    date: date
    state: Promise
    requests: int
    attained: dict[str, float]


@dataclass(frozen=True, slots=True)
class SlaRow:
    """A promise in the list: its objectives over their own windows, ending now."""

    environment: str
    model: str
    url: str
    state: Promise
    budget_left_share: float | None
    objectives: list[ObjectiveReport]


@dataclass(frozen=True, slots=True)
class SlaPage:
    """One endpoint's month; `now` holds the objectives over their own windows."""

    environment: str
    model: str
    month: str
    start: datetime
    end: datetime
    contract: ServiceContract | None
    signatures: list[ContractSignature]
    objectives: list[ObjectiveReport]
    now: list[ObjectiveReport]
    days: list[DayReport]
    requests: int
    statuses: dict[str, int]
    state: Promise


def sla_list(now: datetime, *, user: User) -> list[SlaRow]:
    """Every endpoint that the user may see whose model has a contract that holds."""
    endpoints = list(
        Endpoint.objects.visible_to(user)
        .filter(model__in=ServiceContract.objects.holding().values("model"))
        .select_related("model", "environment")
        .order_by("environment__name", "model__name")
    )
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    standing = attainments(contracts, endpoints, now)
    burns = traffic_between({one.pk for one in endpoints}, now - BURN_SPAN, now)
    rows = []
    for endpoint in endpoints:
        reports = [
            _report(objective, attained, burns.get(endpoint.pk))
            for objective, attained in standing.get(endpoint.pk, [])
        ]
        left = [r.budget_left_share for r in reports if r.budget_left_share is not None]
        names = (endpoint.environment.name, endpoint.model.name)
        rows.append(
            SlaRow(
                *names,
                url=reverse("deployments:sla-detail", args=names),
                state=slo.worst([report.state for report in reports]),
                budget_left_share=min(left) if left else None,
                objectives=reports,
            )
        )
    return rows


def sla(endpoint: Endpoint, month: str, now: datetime) -> SlaPage:
    """A month of an endpoint against the contract that holds. Raises Invalid for a bad month."""
    first = slo.parse_month(month, now)
    start, end = slo.month_bounds(first)
    contract = ServiceContract.objects.holding().filter(model_id=endpoint.model_id).first()
    documents = contracts_that_hold([endpoint.model_id])
    document = documents.get(endpoint.model_id)
    objectives = objectives_of(document) if document else []
    days = _days(rows_between(endpoint, start, end))
    total = sum(days.values(), Traffic())
    burn = traffic_between([endpoint.pk], now - BURN_SPAN, now).get(endpoint.pk)
    reports = [_report(one, slo.attain(one, total), burn) for one in objectives]
    return SlaPage(
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        month=f"{first:%Y-%m}",
        start=start,
        end=end,
        contract=contract,
        signatures=(list(contract.signatures.select_related("signer", "key")) if contract else []),
        objectives=reports,
        now=[
            _report(objective, attained, burn)
            for objective, attained in attainments(documents, [endpoint], now).get(endpoint.pk, [])
        ],
        days=_calendar(first, end, days, objectives),
        requests=total.requests,
        statuses=dict(total.statuses),
        state=slo.worst([report.state for report in reports]),
    )


def sla_csv(page: SlaPage) -> str:
    """The month as CSV: a row for each objective of each day, then of the whole month."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        [
            "environment",
            "model",
            "period",
            "objective",
            "target_percent",
            "attained_percent",
            "state",
            "requests",
        ]
    )
    for day in page.days:
        for report in page.objectives:
            attained = day.attained.get(report.name)
            shown = "" if attained is None else f"{attained:.4f}"
            writer.writerow(
                [
                    page.environment,
                    page.model,
                    day.date.isoformat(),
                    report.name,
                    report.target,
                    shown,
                    day.state,
                    day.requests,
                ]
            )
    for report in page.objectives:
        shown = "" if report.attained is None else f"{report.attained:.4f}"
        writer.writerow(
            [
                page.environment,
                page.model,
                page.month,
                report.name,
                report.target,
                shown,
                report.state,
                page.requests,
            ]
        )
    return out.getvalue()


def _report(objective: Objective, attained: Attainment, burn: Traffic | None) -> ObjectiveReport:
    recent = slo.attain(objective, burn) if burn else None
    return ObjectiveReport(
        name=objective.name,
        sentence=_sentence(objective),
        target=objective.target,
        threshold_ms=objective.threshold_ms,
        attained=attained.attained,
        good=attained.good,
        valid=attained.valid,
        budget_total=attained.budget_total,
        budget_left=attained.budget_left,
        budget_left_share=attained.budget_left_share,
        burn_rate=recent.burn_rate if recent else None,
        state=attained.promise,
        exact=attained.exact,
    )


def _sentence(objective: Objective) -> str:
    if objective.threshold_ms is not None:
        return f"{objective.target:g} % of answers within {objective.threshold_ms:g} ms"
    return f"{objective.target:g} % of requests answered without a fault of ours"


def _days(rows: Iterable[MinuteRollup]) -> dict[date, Traffic]:
    grouped: dict[date, list[MinuteRollup]] = {}
    for row in rows:
        grouped.setdefault(row.minute.astimezone(UTC).date(), []).append(row)
    return {day: traffic_of_rows(here) for day, here in grouped.items()}


def _calendar(
    first: date, end: datetime, days: dict[date, Traffic], objectives: list[Objective]
) -> list[DayReport]:
    count = (end.date() - first).days
    return [
        _day(first + timedelta(days=index), days.get(first + timedelta(days=index)), objectives)
        for index in range(count)
    ]


def _day(day: date, traffic: Traffic | None, objectives: list[Objective]) -> DayReport:
    if traffic is None:
        return DayReport(day, Promise.NO_DATA, 0, {})
    each = {one.name: slo.attain(one, traffic) for one in objectives}
    return DayReport(
        date=day,
        state=slo.worst([one.promise for one in each.values()]),
        requests=traffic.requests,
        attained={name: one.attained for name, one in each.items() if one.attained is not None},
    )
