"""One promise over one month, in full: for its page, its PDF, its CSV and the API."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from deployments.models import Endpoint, Exclusion, MaintenanceWindow
from deployments.models.objectives import AgreedSpan, AgreementState
from deployments.rules.objectives import slo
from deployments.rules.objectives.sla_months import budget_line, is_over, month_of, months_until
from deployments.rules.objectives.slo import Objective, Promise
from deployments.rules.objectives.spans import Span, ceil_minute, clip
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.causes.occurrences import Occurrence, occurrences
from deployments.selectors.incidents.pages import incidents_between
from deployments.selectors.incidents.spells import spells_of
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.objectives.promises import attainments, last_hour, objectives_of
from deployments.selectors.objectives.sla_counts import Steps, traffic_by
from deployments.selectors.objectives.sla_types import (
    DayReport,
    LeftOut,
    MonthReport,
    ObjectiveReport,
    SlaPage,
    attained_text,
    day_report,
    month_report,
    objective_report,
)
from deployments.selectors.statistics.coverage import coverage
from deployments.selectors.statistics.rollups import traffic_between
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import ServiceContract
from models_registry.rules import contract_document

TREND_MONTHS = 12
MOST_CHANGES = 60
MOST_LEFT_OUT = 50
# What a business owner asks about: not each step of a rollout, nor each node that was ready.
NO_CHANGES = ("deploy.ready", "split.rollout", "incident.ended", "incident.began")


def sla(endpoint: Endpoint, month: str, now: datetime) -> SlaPage:
    """A month of an endpoint against the contract that held at its end. Raises Invalid.

    About two dozen queries, whatever happened in the month.
    """
    first = slo.parse_month(month, now)
    start, end = slo.month_bounds(first)
    contract = _contract_of(endpoint, end)
    objectives = _objectives(contract)
    excluded = excluded_spans([endpoint.pk], start, end)
    left_out = _left_out(endpoint, Span(start, end), now)
    hours = traffic_by([endpoint.pk], start, end, "hour", excluded=excluded, statuses=True)
    counted = hours.get(endpoint.pk, {})
    days = _days(counted)
    total = sum(counted.values(), Traffic())
    incidents = incidents_between(endpoint, start, end)
    burn = last_hour([endpoint.pk], now).get(endpoint.pk)
    until = min(end, max(now, start))
    covered = coverage(endpoint, start, until, now=now)
    reports = [objective_report(one, slo.attain(one, total), burn) for one in objectives]
    return SlaPage(
        environment=endpoint.environment.name,
        model=endpoint.model.name,
        description=endpoint.model.description,
        month=f"{first:%Y-%m}",
        first=first,
        start=start,
        end=end,
        is_over=is_over(first, now),
        contract=contract,
        signatures=(list(contract.signatures.select_related("signer", "key")) if contract else []),
        objectives=reports,
        now=_now(endpoint, now, burn),
        days=_calendar(first, end, days, objectives),
        requests=total.requests,
        statuses=dict(sorted(total.statuses.items())),
        state=slo.worst([report.state for report in reports]),
        budget_lines=[budget_line(one, counted, start=start, end=until) for one in objectives],
        months=trend(endpoint, first, objectives),
        incidents=incidents,
        spells=spells_of(incidents),
        changes=_changes(endpoint, start, end),
        left_out=left_out,
        with_everything=(
            _gross(endpoint, start, end, objectives) if any(one.counted for one in left_out) else []
        ),
        observed_share=covered.share,
        unobserved=list(covered.missing),
    )


def trend(
    endpoint: Endpoint, last: date, objectives: Sequence[Objective], months: int = TREND_MONTHS
) -> list[MonthReport]:
    """The months up to `last`, oldest first, judged by these objectives."""
    firsts = months_until(last, months)
    start, end = slo.month_bounds(firsts[0])[0], slo.month_bounds(last)[1]
    excluded = excluded_spans([endpoint.pk], start, end)
    counted = traffic_by([endpoint.pk], start, end, "month", excluded=excluded)
    by_month = {month_of(at): traffic for at, traffic in counted.get(endpoint.pk, {}).items()}
    return [month_report(first, by_month.get(first), objectives) for first in firsts]


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
            state = day.states.get(report.name, Promise.NO_DATA)
            writer.writerow(
                _line(page, day.date.isoformat(), report, attained, state, day.requests)
            )
    for report in page.objectives:
        writer.writerow(
            _line(page, page.month, report, report.attained, report.state, page.requests)
        )
    return out.getvalue()


def _line(
    page: SlaPage,
    period: str,
    report: ObjectiveReport,
    attained: float | None,
    state: str,
    requests: int,
) -> list[object]:
    named = [page.environment, page.model, period, report.name, report.target]
    return [*named, attained_text(attained, report.target), state, requests]


def _contract_of(endpoint: Endpoint, end: datetime) -> ServiceContract | None:
    """The contract that held when the month ended; of a month before any, the one that holds."""
    held = ServiceContract.objects.filter(model_id=endpoint.model_id, in_force_at__lt=end)
    return (
        held.order_by("-in_force_at").first()
        or ServiceContract.objects.holding().filter(model_id=endpoint.model_id).first()
    )


def _objectives(contract: ServiceContract | None) -> list[Objective]:
    if contract is None:
        return []
    return objectives_of(contract_document.from_json(contract.document))


def _now(endpoint: Endpoint, now: datetime, burn: Traffic | None) -> list[ObjectiveReport]:
    documents = contracts_that_hold([endpoint.model_id])
    return [
        objective_report(objective, attained, burn)
        for objective, attained in attainments(documents, [endpoint], now).get(endpoint.pk, [])
    ]


def _days(hours: Steps) -> dict[date, Traffic]:
    found: dict[date, Traffic] = {}
    for at, traffic in sorted(hours.items()):
        day = at.astimezone(UTC).date()
        found[day] = found.get(day, Traffic()) + traffic
    return found


def _calendar(
    first: date, end: datetime, days: dict[date, Traffic], objectives: Sequence[Objective]
) -> list[DayReport]:
    dates = (first + timedelta(days=index) for index in range((end.date() - first).days))
    return [day_report(day, days.get(day), objectives) for day in dates]


def _gross(
    endpoint: Endpoint, start: datetime, end: datetime, objectives: Sequence[Objective]
) -> list[ObjectiveReport]:
    """What the objectives would be, had nothing been left out."""
    everything = traffic_between([endpoint.pk], start, end).get(endpoint.pk, Traffic())
    return [objective_report(one, slo.attain(one, everything)) for one in objectives]


def _changes(endpoint: Endpoint, start: datetime, end: datetime) -> list[Occurrence]:
    found = occurrences(endpoint, start, end, most=200)
    return [one for one in found if one.kind not in NO_CHANGES][-MOST_CHANGES:]


def _left_out(endpoint: Endpoint, month: Span, now: datetime) -> list[LeftOut]:
    """Maintenance and exclusions that meet the month and were not withdrawn, oldest first."""
    meets = {"endpoint": endpoint, "starts_at__lt": month.end, "ends_at__gt": month.start}
    windows = MaintenanceWindow.objects.filter(**meets)
    exclusions = Exclusion.objects.filter(**meets)
    found = []
    for kind, rows in (("maintenance", windows), ("exclusion", exclusions)):
        wanted = rows.exclude(state=AgreementState.WITHDRAWN).prefetch_related("agreements__person")
        found += [
            _of_span(kind, row, month, now) for row in wanted.order_by("starts_at")[:MOST_LEFT_OUT]
        ]
    return sorted(found, key=lambda one: one.span)


def _of_span(kind: str, row: AgreedSpan, month: Span, now: datetime) -> LeftOut:
    agreements = row.agreements.all()  # type: ignore[attr-defined]
    span = Span(row.starts_at, row.ends_at)
    is_agreed = row.state == AgreementState.AGREED
    # Nothing is left out of what has not been counted yet.
    passed = clip(span, Span(month.start, min(month.end, ceil_minute(now))))
    return LeftOut(
        kind=kind,
        span=span,
        reason=row.reason,
        evidence=getattr(row, "evidence", ""),
        words=tuple((str(one.person), one.seat) for one in agreements),
        state="planned" if is_agreed and span.start > now else row.state,
        counted=passed if is_agreed else None,
    )
