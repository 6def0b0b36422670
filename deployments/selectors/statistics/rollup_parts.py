"""Counts of a stretch of time as one relation in SQL: whole days, whole hours, minutes at edges.

Whatever sums counts up reads them from here, so that a month costs some thirty rows for each
version instead of 43,200, and comes to the same sum.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import connection

from deployments.models import RolledKind, RolledSpan
from deployments.rules.objectives.spans import Span, left_over
from deployments.rules.statistics.parts import HOUR, Parts, split

Coarsest = Literal["day", "hour", "minute"]

_COLUMNS = (
    "requests, caller_faults, provider_faults, statuses, bounds_ms, buckets, "
    "inference_count, execution_count, queue_ns, compute_ns, triton_failures"
)
_LEVEL = """
    select rows.endpoint_id, rows.version, rows.{time} as at, {span} as span,
           {minutes} as minutes, {columns}
    from unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[]) as part(id, s, e),
    lateral (
        select * from deployments_{table} as one
        where one.endpoint_id = part.id and one.{time} >= part.s and one.{time} < part.e
        offset 0
    ) as rows
"""
# `offset 0` keeps one look into the index for each part: the planner cannot know how short they
# are, and would else read whole tables.

COUNTED = "counted as ({})".format(
    " union all ".join(
        _LEVEL.format(table=table, time=time, span=span, minutes=minutes, columns=_COLUMNS)
        for table, time, span, minutes in (
            ("dayrollup", "day", 1440, "rows.minutes"),
            ("hourrollup", "hour", 60, "rows.minutes"),
            ("minuterollup", "minute", 1, "1"),
        )
    )
)
"""For a `with`: endpoint_id, version, `at`, its `span` in minutes and how many `minutes` of it were
observed, and the columns of a roll-up. Its parameters are those of a `Reading`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which rows of which table, for each endpoint."""

    parameters: tuple[list[Any], ...]

    def rows(self, query: str, given: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer to `query`, which reads from `counted`; `given` are its own parameters."""
        with connection.cursor() as cursor:
            cursor.execute(f"with {COUNTED} {query}", [*self.parameters, *given])
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found


def reading(
    endpoint_ids: Collection[int],
    start: datetime,
    end: datetime,
    *,
    excluded: Mapping[int, Sequence[tuple[datetime, datetime]]] | None = None,
    coarsest: Coarsest = "day",
) -> Reading:
    """Where to read what was counted from `start` up to `end`, without what is `excluded`.

    `coarsest` is the longest row that may be read: who wants counts by hour reads no days, but
    those whose hours are no longer kept. One
    query where the stretch may hold a whole hour, else none.
    """
    whole = Span(start, end)
    days, hours = _rolled(whole, coarsest)
    shared = split([whole], days=days, hours=hours)
    by_endpoint = {
        pk: split(left_over(whole, [Span(*one) for one in spans]), days=days, hours=hours)
        for pk, spans in (excluded or {}).items()
        if spans
    }
    wanted = [(pk, by_endpoint.get(pk, shared)) for pk in sorted(set(endpoint_ids))]
    return Reading(
        (
            *_columns(wanted, lambda parts: parts.days),
            *_columns(wanted, lambda parts: parts.hours),
            *_columns(wanted, lambda parts: parts.minutes),
        )
    )


def _columns(wanted: list[tuple[int, Parts]], of: Any) -> tuple[list[Any], list[Any], list[Any]]:
    rows = [(pk, span.start, span.end) for pk, parts in wanted for span in of(parts)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _rolled(whole: Span, coarsest: Coarsest) -> tuple[set[datetime], set[datetime]]:
    """The days and the hours within it whose roll-ups are whole."""
    if coarsest == "minute" or whole.end - whole.start < HOUR:
        return set(), set()
    found = RolledSpan.objects.filter(
        kind__in=[RolledKind.HOUR, RolledKind.DAY],
        start__gte=whole.start,
        start__lt=whole.end,
    ).values_list("kind", "start")
    rows = list(found)
    hours = {at for kind, at in rows if kind == RolledKind.HOUR}
    days = {at for kind, at in rows if kind == RolledKind.DAY}
    # Where its hours went by the policy of retention, the day is the finest that is left.
    return days if coarsest == "day" else days - hours, hours
