"""Size and query times of roll-ups: 100 endpoints, 35 days, in a database of its own.

    .venv/bin/python -m benchmarks.rollups [ENDPOINTS] [DAYS]

Fills minutes of three versions each, adds them up, and asks what pages ask. A minute's row stands
for its requests whatever their number: the size of a million depends on how many minutes they took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import stack

stack.provide()

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from benchmarks.demo_stack import report  # noqa: E402
from deployments.models import DayRollup, Endpoint, HourRollup, MinuteRollup  # noqa: E402
from deployments.rules.statistics.latency_bounds import STANDARD_MS  # noqa: E402
from deployments.rules.statistics.parts import hour_of  # noqa: E402
from deployments.selectors.statistics.coverage import coverage  # noqa: E402
from deployments.selectors.statistics.rollups import traffic_between  # noqa: E402
from deployments.selectors.statistics.series import chart  # noqa: E402
from deployments.services.statistics import hours, partitions  # noqa: E402
from tests import factories  # noqa: E402

REQUESTS = 23
"""Of one version in one minute: of two, a million requests are 15 days of one endpoint."""

_FILL = """
insert into deployments_minuterollup
    (endpoint_id, version, minute, requests, caller_faults, provider_faults, statuses, bounds_ms,
     buckets, inference_count, execution_count, queue_ns, compute_ns, triton_failures)
select e.id, v, minute, case when v = 0 then 0 else %(n)s end, 0, case when v = 0 then 0 else 1 end,
       case when v = 0 then '{}'::jsonb else jsonb_build_object('200', %(n)s - 1, '500', 1) end,
       case when v = 0 then '[]'::jsonb else %(bounds)s::jsonb end,
       case when v = 0 then '[]'::jsonb else %(buckets)s::jsonb end,
       case when v = 0 then 0 else %(n)s end, 7, 1000000, 30000000, 0
from deployments_endpoint e, generate_series(0, 2) v,
     generate_series(%(start)s::timestamptz, %(end)s::timestamptz, '1 minute') minute
where e.id = any(%(ids)s)
"""


def timed(work: Callable[[], Any], times: int = 5) -> dict[str, float]:
    """Milliseconds of the first time, and the median of the others."""
    found = []
    for _ in range(times + 1):
        started = time.perf_counter()
        work()
        found.append((time.perf_counter() - started) * 1e3)
    return {"first_ms": round(found[0], 1), "median_ms": round(sorted(found[1:])[times // 2], 1)}


def size(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "select sum(pg_total_relation_size(oid)) from pg_class where oid = to_regclass(%s) "
            "or oid in (select inhrelid from pg_inherits where inhparent = to_regclass(%s))",
            [table, table],
        )
        return int(cursor.fetchone()[0])


def fill(endpoints: int, days: int, end: datetime) -> list[Endpoint]:
    environment = factories.make_environment()
    made = []
    for number in range(endpoints):
        model = factories.make_model(f"model_{number:04}")
        made.append(Endpoint.objects.create(model=model, environment=environment))
    partitions.make_ahead(end - timedelta(days=days))
    buckets = [0] * (len(STANDARD_MS) + 1)
    buckets[4], buckets[6], buckets[9], buckets[15] = REQUESTS - 6, 3, 2, 1
    for one in made:
        with connection.cursor() as cursor:
            cursor.execute(
                _FILL,
                {
                    "n": REQUESTS,
                    "bounds": str(list(STANDARD_MS)),
                    "buckets": str(buckets),
                    "start": end - timedelta(days=days),
                    "end": end - timedelta(minutes=1),
                    "ids": [one.pk],
                },
            )
    with connection.cursor() as cursor:
        cursor.execute("vacuum analyze")
    return made


def measure(endpoints: int, days: int) -> None:
    end = hour_of(datetime.now(UTC))
    started = time.monotonic()
    made = fill(endpoints, days, end)
    rows = MinuteRollup.objects.count()
    requests = rows // 3 * 2 * REQUESTS
    minutes_bytes = size("deployments_minuterollup")
    report(
        "rollups size",
        endpoints=endpoints,
        days=days,
        minute_rows=rows,
        requests=requests,
        filled_s=round(time.monotonic() - started, 1),
        minutes_mib=round(minutes_bytes / 2**20, 1),
        bytes_a_row=round(minutes_bytes / rows),
        mib_a_million_requests=round(minutes_bytes / requests * 1e6 / 2**20, 1),
    )
    spans = {
        "1 h": timedelta(hours=1),
        "28 d": timedelta(days=28),
        "35 d" if days >= 35 else f"{days} d": timedelta(days=days),
    }
    keys = [one.pk for one in made]
    # Not at the hour, so that both edges are read from minutes.
    until = end - timedelta(minutes=17)

    def ask(what: str) -> None:
        for name, span in spans.items():
            begin = until - span

            def all_of_them(begin: datetime = begin) -> None:
                traffic_between(keys, begin, until)

            def one_of_them(begin: datetime = begin) -> None:
                traffic_between(keys[:1], begin, until)

            times = 1 if what == "minutes" else 5
            report("rollups query", read=what, span=name, endpoints=1, **timed(one_of_them, times))
            if what != "minutes" or name == "1 h":
                report(
                    "rollups query",
                    read=what,
                    span=name,
                    endpoints=len(keys),
                    **timed(all_of_them, times),
                )

    ask("minutes")
    started = time.monotonic()
    made_hours = 0
    while (n := hours.roll_due(end + timedelta(minutes=3)))["hours"]:
        made_hours += n["hours"]
    hours.roll_due(end + timedelta(minutes=3))
    took = time.monotonic() - started
    report(
        "rollups made",
        hours=made_hours,
        took_s=round(took, 1),
        ms_an_hour=round(took / made_hours * 1e3),
        hour_rows=HourRollup.objects.count(),
        hours_mib=round(size("deployments_hourrollup") / 2**20, 1),
        day_rows=DayRollup.objects.count(),
        days_mib=round(size("deployments_dayrollup") / 2**20, 2),
    )
    with connection.cursor() as cursor:
        cursor.execute("analyze")
    ask("days, hours, minutes")
    report(
        "rollups page",
        coverage_28_d=timed(lambda: coverage(made[0], until - spans["28 d"], until, now=end)),
        chart_7_d=timed(lambda: chart(made[0], "latency_p99", window="7d", now=end)),
        chart_28_d=timed(lambda: chart(made[0], "latency_p99", window="28d", now=end)),
    )


def main() -> None:
    endpoints = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    days = int(sys.argv[2]) if len(sys.argv) > 2 else 35
    call_command("migrate", verbosity=0)
    measure(endpoints, days)


if __name__ == "__main__":
    main()
