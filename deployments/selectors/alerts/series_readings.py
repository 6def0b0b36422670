"""Values of measured series over a window, with the limits that contracts set for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from django.db import connection

from deployments.rules.alerts.catalogue import Reading, Readings, Target
from deployments.rules.alerts.questions import Question
from deployments.rules.statistics.measurements import minute_of
from deployments.selectors.alerts.things import Things
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.rules.contract_document import ContractDocument

OF_CONTRACTS: dict[str, Callable[[ContractDocument], float | None]] = {
    "feature_drift_score": lambda c: c.drift.feature_drift_score if c.drift else None,
    "model_output_entropy": lambda c: c.drift.entropy_above if c.drift else None,
}
"""Series that a contract may set the limit of."""

_SUMMED = """
select s.name, s.endpoint_id, s.node_id, s.device, s.version, s.label,
       sum(m.total) / nullif(sum(m.count), 0), max(m.maximum), min(m.minimum),
       (array_agg(m.newest order by m.minute desc))[1]
from deployments_measuredseries s
join deployments_seriesminute m on m.series_id = s.id
where s.name = any(%s) and m.minute >= %s and m.minute <= %s
group by s.id
"""
_COLUMN = {"mean": 6, "max": 7, "min": 8, "newest": 9}


def series_readings(
    questions: Collection[Question], things: Things, now: datetime
) -> dict[Question, Readings]:
    """What each series question is answered; a query for each window, one for contracts.

    A window takes whole minutes: those that it touches.
    """
    found: dict[Question, Readings] = {question: {} for question in questions}
    limits = _limits(questions, things)
    by_window: dict[int, list[Question]] = defaultdict(list)
    for question in questions:
        by_window[question.window_s].append(question)
    for window_s, asked in by_window.items():
        rows = _rows({one.signal.key for one in asked}, now - timedelta(seconds=window_s), now)
        for question in asked:
            found[question] = _answer(question, rows, things, limits)
    return found


def _answer(
    question: Question,
    rows: Iterable[tuple[object, ...]],
    things: Things,
    limits: dict[tuple[str, int], float],
) -> Readings:
    column, name = _COLUMN[question.aggregate], question.signal.key
    found = {}
    for row in rows:
        if row[0] != name or row[column] is None:
            continue
        target = Target(row[1], row[2], row[3], row[4], row[5])  # type: ignore[arg-type]
        if not things.exists(target):
            continue
        limit = limits.get((name, target.endpoint)) if target.endpoint is not None else None
        found[target] = Reading(float(row[column]), limit)  # type: ignore[arg-type]
    return found


def _rows(names: set[str], start: datetime, end: datetime) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(_SUMMED, [sorted(names), minute_of(start), minute_of(end)])
        rows: list[tuple[object, ...]] = cursor.fetchall()
    return rows


def _limits(questions: Collection[Question], things: Things) -> dict[tuple[str, int], float]:
    """(Series, endpoint) → its contract's limit, where one is asked for and set."""
    names = {one.signal.key for one in questions if one.own_limit} & OF_CONTRACTS.keys()
    if not names:
        return {}
    contracts = contracts_that_hold({one.model for one in things.endpoints.values()})
    found = {}
    for endpoint in things.endpoints.values():
        contract = contracts.get(endpoint.model)
        for name in names if contract else ():
            limit = OF_CONTRACTS[name](contract) if contract else None
            if limit is not None:
                found[(name, endpoint.key)] = limit
    return found
