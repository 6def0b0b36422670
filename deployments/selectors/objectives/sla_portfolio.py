"""All promises that a person may see: the worst first, by pages, of now or of a month."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.db.models import Count, F, IntegerField, QuerySet, Value
from django.db.models.functions import Coalesce, Concat
from django.db.models.lookups import Exact
from django.urls import reverse

from console.errors import FieldError, Invalid
from console.models import Team, User
from deployments.models import Endpoint
from deployments.rules.objectives import slo
from deployments.rules.objectives.sla_months import RANKS, worst_share
from deployments.rules.objectives.slo import Promise
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.objectives.promises import attainments, last_hour, objectives_of
from deployments.selectors.objectives.sla_counts import traffic_by
from deployments.selectors.objectives.sla_types import (
    MonthReport,
    ObjectiveReport,
    SlaRow,
    attained_text,
    objective_report,
)
from deployments.selectors.traffic.routing import contracts_that_held, contracts_that_hold
from models_registry.models import ServiceContract

TREND_MONTHS = 6
MOST_ROWS = 2_000
"""In one document: what is left out is counted."""

AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class PortfolioFilter:
    """What to show; empty fields filter nothing."""

    environment: str = ""
    team: str = ""
    state: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.environment or self.team or self.state or self.q)


@dataclass(frozen=True, slots=True)
class MonthPortfolio:
    """Promises over one month, the worst first; `left_out` more than `MOST_ROWS` were found."""

    first: date
    rows: list[SlaRow]
    left_out: int

    def count(self, state: str) -> int:
        """How many are in a state."""
        return sum(row.state == state for row in self.rows)


def promised(wanted: PortfolioFilter, *, user: User) -> QuerySet[Endpoint]:
    """Endpoints with a promise as they were last sorted (see `SlaStanding`), the worst first.

    Raises Invalid for a state that there is none of.
    """
    rows = _promised(user).select_related("model__team", "environment", "sla_standing")
    if wanted.environment:
        rows = rows.filter(environment__name=wanted.environment)
    if wanted.team:
        rows = rows.filter(model__team__slug=wanted.team)
    if wanted.q:
        rows = rows.filter(model__name__icontains=wanted.q)
    rows = rows.annotate(
        sla_rank=Coalesce(
            F("sla_standing__rank"), Value(RANKS[Promise.NO_DATA]), output_field=IntegerField()
        ),
        sla_name=Concat("environment__name", Value("/"), "model__name"),
    )
    if wanted.state:
        rows = rows.filter(Exact(F("sla_rank"), RANKS[_state(wanted.state)]))
    return rows.order_by("sla_rank", "sla_name", "pk")


def state_counts(wanted: PortfolioFilter, *, user: User) -> dict[str, int]:
    """How many promises were in each state when they were last sorted, of those that match."""
    anyhow = PortfolioFilter(wanted.environment, wanted.team, "", wanted.q)
    ranks = promised(anyhow, user=user).order_by().values_list(F("sla_rank"))
    numbers = dict(ranks.annotate(Count("pk")))
    return {state.value: numbers.get(rank, 0) for state, rank in RANKS.items()}


def teams_of(user: User) -> list[Team]:
    """Teams to filter by: those whose promises the person may see."""
    return list(
        Team.objects.filter(pk__in=_promised(user).values("model__team")).order_by("name")[:200]
    )


def sla_list(now: datetime, *, user: User) -> list[SlaRow]:
    """Every promise that the user may see, over its objectives' own windows that end now."""
    return rows_of(list(promised(PortfolioFilter(), user=user)[:MOST_ROWS]), now)


def rows_of(endpoints: Sequence[Endpoint], now: datetime) -> list[SlaRow]:
    """These endpoints' promises counted anew, the worst first; six queries, however many."""
    contracts = contracts_that_hold({endpoint.model_id for endpoint in endpoints})
    standing = attainments(contracts, endpoints, now)
    burns = last_hour({one.pk for one in endpoints}, now)
    rows = []
    for endpoint in endpoints:
        pairs = standing.get(endpoint.pk, [])
        burn = burns.get(endpoint.pk)
        rows.append(_row(endpoint, [objective_report(*pair, burn) for pair in pairs]))
    return in_order(rows)


def month_portfolio(
    month: str, now: datetime, wanted: PortfolioFilter, *, user: User
) -> MonthPortfolio:
    """All matching promises over one month (for documents). Raises Invalid for a bad month."""
    first = slo.parse_month(month, now)
    start, end = slo.month_bounds(first)
    found = promised(PortfolioFilter(wanted.environment, wanted.team, "", wanted.q), user=user)
    endpoints = list(found[: MOST_ROWS + 1])
    left_out = found.count() - MOST_ROWS if len(endpoints) > MOST_ROWS else 0
    rows = []
    for begin in range(0, min(len(endpoints), MOST_ROWS), AT_ONCE):
        rows += _month_rows(endpoints[begin : begin + AT_ONCE][: MOST_ROWS - begin], start, end)
    state = _state(wanted.state) if wanted.state else None
    kept = [row for row in rows if state is None or row.state == state]
    return MonthPortfolio(first, in_order(kept), left_out)


def in_order(rows: Collection[SlaRow]) -> list[SlaRow]:
    """The worst first, then by name."""
    return sorted(rows, key=lambda row: (RANKS[row.state], row.environment, row.model))


def portfolio_csv(portfolio: MonthPortfolio) -> str:
    """One row for each objective of each promise over the month."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        [
            "environment",
            "model",
            "team",
            "month",
            "objective",
            "target_percent",
            "attained_percent",
            "state",
            "good",
            "valid",
            "budget_left_requests",
        ]
    )
    month = f"{portfolio.first:%Y-%m}"
    for row in portfolio.rows:
        for one in row.objectives:
            attained = attained_text(one.attained, one.target)
            named = (row.environment, row.model, row.team, month, one.name, one.target)
            counted = (f"{one.good:.0f}", one.valid, f"{one.budget_left:.0f}")
            writer.writerow((*named, attained, one.state, *counted))
    return out.getvalue()


def _promised(user: User) -> QuerySet[Endpoint]:
    return Endpoint.objects.visible_to(user).filter(
        model__in=ServiceContract.objects.holding().order_by().values("model")
    )


def _month_rows(endpoints: Sequence[Endpoint], start: datetime, end: datetime) -> list[SlaRow]:
    keys = [one.pk for one in endpoints]
    contracts = contracts_that_held({one.model_id for one in endpoints}, end)
    excluded = excluded_spans(keys, start, end)
    counted = traffic_by(keys, start, end, "month", excluded=excluded)
    rows = []
    for endpoint in endpoints:
        traffic = sum(counted.get(endpoint.pk, {}).values(), Traffic())
        contract = contracts.get(endpoint.model_id)
        objectives = objectives_of(contract) if contract else []
        reports = [objective_report(one, slo.attain(one, traffic)) for one in objectives]
        rows.append(_row(endpoint, reports, traffic.requests))
    return rows


def _row(endpoint: Endpoint, reports: list[ObjectiveReport], requests: int = 0) -> SlaRow:
    names = (endpoint.environment.name, endpoint.model.name)
    return SlaRow(
        *names,
        team=endpoint.model.team.name if endpoint.model.team else "",
        url=reverse("deployments:sla-detail", args=names),
        state=slo.worst([report.state for report in reports]),
        budget_left_share=worst_share([report.budget_left_share for report in reports]),
        objectives=reports,
        requests=requests,
        months=_months(endpoint),
    )


def _months(endpoint: Endpoint) -> list[MonthReport]:
    """The trend as it was last counted; empty before."""
    standing = getattr(endpoint, "sla_standing", None)
    months = standing.months if standing is not None else {}
    return [
        MonthReport(
            first=date.fromisoformat(f"{month}-01"),
            state=Promise(said["state"]),
            requests=said["requests"],
            budget_left_share=said["left"],
            attained={},
        )
        for month, said in sorted(months.items())[-TREND_MONTHS:]
    ]


def _state(text: str) -> Promise:
    try:
        return Promise(text)
    except ValueError as error:
        raise Invalid(
            f"{text[:20]!r} is no state of a promise.",
            code="unknown_state",
            hint="States are broken, at_risk, no_data and kept.",
            errors=(FieldError("/state", "is no state of a promise"),),
        ) from error
