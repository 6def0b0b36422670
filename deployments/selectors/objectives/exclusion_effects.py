"""What an exclusion does to a promise, told before anybody agrees to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime

from deployments.models import AgreementState, Endpoint, Exclusion
from deployments.rules.objectives import slo
from deployments.rules.objectives.effects import ExclusionEffect
from deployments.rules.objectives.sla_months import month_of
from deployments.rules.objectives.slo import Attainment, Objective
from deployments.rules.objectives.spans import MINUTE, Span, clip, left_over, union
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.objectives.exclusions import excluded_spans
from deployments.selectors.objectives.pages import SetAside
from deployments.selectors.objectives.promises import objectives_of
from deployments.selectors.statistics.rollups import traffic_between
from deployments.selectors.traffic.routing import contracts_that_held

MOST_FORESEEN = 5
"""Proposals of one endpoint whose effect its page tells: each costs several sums of a month."""


def exclusion_effects(exclusion: Exclusion) -> list[ExclusionEffect]:
    """Each objective of the months that the exclusion lies in: two at most.

    By the contract of the month's end, and without whatever else the seats left out. Nine queries
    for each month at most.
    """
    span = Span(exclusion.starts_at, exclusion.ends_at)
    months = dict.fromkeys((month_of(span.start), month_of(span.end - MINUTE)))
    return [one for month in months for one in _of_month(exclusion.endpoint, month, span)]


def with_effects(rows: Sequence[SetAside]) -> list[SetAside]:
    """The same rows; the first that wait for words say what they would do."""
    waiting = [
        one.row
        for one in rows
        if isinstance(one.row, Exclusion) and one.state == AgreementState.PROPOSED
    ][:MOST_FORESEEN]
    effects = {row.pk: tuple(exclusion_effects(row)) for row in waiting}
    return [replace(one, effects=effects.get(one.row.pk, ())) for one in rows]


def _of_month(endpoint: Endpoint, month: date, span: Span) -> list[ExclusionEffect]:
    start, end = slo.month_bounds(month)
    contract = contracts_that_held([endpoint.model_id], end).get(endpoint.model_id)
    part = clip(span, Span(start, end))
    if contract is None or part is None:
        return []
    agreed = excluded_spans([endpoint.pk], start, end).get(endpoint.pk, [])
    others = [left for one in agreed for left in left_over(one, [part])]
    counted = _traffic(endpoint, start, end, others)
    without = _traffic(endpoint, start, end, union([*others, part]))
    return [
        _effect(month, one, slo.attain(one, counted), slo.attain(one, without))
        for one in objectives_of(contract)
    ]


def _traffic(endpoint: Endpoint, start: datetime, end: datetime, gone: list[Span]) -> Traffic:
    found = traffic_between([endpoint.pk], start, end, excluded={endpoint.pk: gone})
    return found.get(endpoint.pk, Traffic())


def _effect(
    month: date, objective: Objective, counted: Attainment, left_out: Attainment
) -> ExclusionEffect:
    return ExclusionEffect(
        month=month,
        objective=objective,
        counted=counted.attained,
        counted_state=counted.promise,
        left_out=left_out.attained,
        left_out_state=left_out.promise,
    )
