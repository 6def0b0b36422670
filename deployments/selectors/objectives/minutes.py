"""Error budgets in minutes, from the minute roll-ups."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection

from deployments.models import Endpoint
from deployments.rules.objectives.slo import Objective, month_bounds, window_start
from deployments.rules.objectives.spans import MINUTE, Span, floor_minute, minutes_of
from deployments.rules.objectives.time_budgets import MinuteCounts, TimeBudget

# A bucket that straddles the threshold counts as too late: a minute is not called good by guess.
_AVAILABLE = """
    select minute,
           greatest(sum(requests - caller_faults), 0) as valid,
           sum(requests - caller_faults - provider_faults) as good
      from deployments_minuterollup
"""
_IN_TIME = """
    select minute,
           sum((select coalesce(sum(value::bigint), 0)
                  from jsonb_array_elements_text(buckets) as value)) as valid,
           sum((select coalesce(sum(part.value::bigint), 0)
                  from jsonb_array_elements_text(buckets) with ordinality as part(value, place)
                 where part.place <= (select count(*)
                                        from jsonb_array_elements_text(bounds_ms) as bound
                                       where bound::float8 <= %(threshold)s))) as good
      from deployments_minuterollup
"""
_WHERE = """
     where endpoint_id = %(endpoint)s and minute >= %(start)s and minute < %(end)s
       and not exists (
           select 1 from unnest(%(from)s::timestamptz[], %(to)s::timestamptz[])
                    as gone(since, until)
            where minute >= gone.since and minute < gone.until)
     group by minute
"""
_COUNTED = """
    select count(*) filter (where valid > 0),
           count(*) filter (where valid > 0 and good < valid * %(target)s)
      from minutes
"""


def time_budget(
    endpoint: Endpoint, objective: Objective, now: datetime, excluded: list[Span]
) -> TimeBudget:
    """An objective's budget in minutes over its window that ends now; one query.

    `excluded` is what the seats left out of that window.
    """
    start, end = floor_minute(window_start(objective, now)), floor_minute(now) + MINUTE
    whole = (
        timedelta(days=objective.window_days)
        if objective.window_days is not None
        else month_bounds(start.date())[1] - start
    )
    return TimeBudget(
        target=objective.target,
        window=int(whole // MINUTE),
        excluded=minutes_of(excluded),
        passed=Span(start, end).minutes,
        counts=minute_counts(endpoint, objective, Span(start, end), excluded),
    )


def minute_counts(
    endpoint: Endpoint, objective: Objective, within: Span, excluded: list[Span]
) -> MinuteCounts:
    """How many minutes had valid requests, and in how many of them the target was missed.

    Added up in the database: a month has 43,200 minutes.
    """
    each = _AVAILABLE if objective.threshold_ms is None else _IN_TIME
    with connection.cursor() as cursor:
        cursor.execute(
            "with minutes as (" + each + _WHERE + ")" + _COUNTED,
            {
                "target": Decimal(str(objective.target)) / 100,
                "endpoint": endpoint.pk,
                "start": within.start,
                "end": within.end,
                "from": [span.start for span in excluded],
                "to": [span.end for span in excluded],
                "threshold": objective.threshold_ms,
            },
        )
        counted, bad = cursor.fetchone()
    return MinuteCounts(counted, bad)
