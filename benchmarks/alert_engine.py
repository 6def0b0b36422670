"""The engine of alerts with many endpoints: how long a look takes, how many queries, what is found.

    python -m benchmarks.alert_engine [ENDPOINTS]

Uses databases of its own (as the tests do): two versions at each endpoint, five minutes of seconds
in the ring, six hours of minutes, four series of each version, all built-in rules. One endpoint of
fifty fails. Prints one line for each figure.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta

from tests import stack

stack.provide()

import django  # noqa: E402 - needs the environment from above

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from console import live  # noqa: E402
from deployments.models import Alert, Endpoint, TrafficSplit  # noqa: E402
from deployments.rules.statistics.measurements import (  # noqa: E402
    Point,
    Quantity,
    Subject,
    minute_of,
)
from deployments.services.alerts.engine import AlertEngine  # noqa: E402
from deployments.services.statistics.measurements import record  # noqa: E402
from models_registry.models import RegisteredModel  # noqa: E402
from tests import factories  # noqa: E402

BOUNDS = [1, 2, 5, 10, 20, 30, 50, 80, 100, 150, 200, 300, 500, 1000, 2000, 5000]
SERIES = ("queue_p95_ms", "compute_p95_ms", "model_output_entropy", "feature_drift_score")
RING_S = 310
LOOKS = 20
FAILS_EACH = 50

_MINUTES = """
insert into deployments_minuterollup
    (endpoint_id, version, minute, requests, caller_faults, provider_faults, statuses, bounds_ms,
     buckets, inference_count, execution_count, queue_ns, compute_ns, triton_failures)
select e.id, v, m, 600, 3, 0, '{}', %s::jsonb, %s::jsonb, 600, 200, 0, 0, 0
from deployments_endpoint e, generate_series(1, 2) v,
     generate_series(%s::timestamptz, %s::timestamptz, '1 minute') m
"""


def build(endpoints: int, now: datetime) -> list[Endpoint]:
    """Endpoints with a contract each, their counts, and their series."""
    people = factories.people()
    production = factories.make_environment("production")
    for number in range(endpoints):
        model = factories.make_model(f"model_{number}")
        factories.make_contract(model)
        endpoint = Endpoint.objects.create(model=model, environment=production, last_revision=1)
        endpoint.current = TrafficSplit.objects.create(
            endpoint=endpoint,
            revision=1,
            weights={"1": 5000, "2": 5000},
            author=people.sam,
            state="applied",
            created_at=now - timedelta(hours=7),
            applied_at=now - timedelta(hours=7),
        )
        endpoint.save()
    buckets = json.dumps([0] * 6 + [600] + [0] * (len(BOUNDS) - 6))
    with connection.cursor() as cursor:
        start, end = now - timedelta(hours=6), now - timedelta(minutes=1)
        cursor.execute(_MINUTES, [json.dumps(BOUNDS), buckets, minute_of(start), minute_of(end)])
    rows = list(Endpoint.objects.select_related("model", "environment").order_by("pk"))
    for minute in range(5):
        at = now - timedelta(minutes=minute)
        record(
            Point(Quantity(Subject(endpoint=row.pk, version=version), name), 0.1, at)
            for row in rows
            for version in (1, 2)
            for name in SERIES
        )
    return rows


def fill_rings(rows: list[Endpoint], now: datetime) -> None:
    """Five minutes of seconds, as the collector writes them."""
    for index, row in enumerate(rows):
        pipe = live.connection().pipeline(transaction=False)
        pipe.delete(f"covenant:ring:{row}")
        for second in range(RING_S, 0, -1):
            pipe.rpush(f"covenant:ring:{row}", point(index, now - timedelta(seconds=second)))
        pipe.execute()
    live.connection().set("covenant:bounds", json.dumps(BOUNDS))


def add_second(rows: list[Endpoint], at: datetime) -> None:
    """One second more at each endpoint."""
    pipe = live.connection().pipeline(transaction=False)
    for index, row in enumerate(rows):
        pipe.rpush(f"covenant:ring:{row}", point(index, at))
    pipe.execute()


def point(index: int, at: datetime) -> str:
    faults = 1 if index % FAILS_EACH == 0 else 0
    one = [10, 0, faults, {"6": 8, "7": 2}]
    versions = {"0": [0, 0, 0, {}], "1": one, "2": [10, 0, 0, {"6": 10}]}
    return json.dumps({"t": round(at.timestamp(), 3), "v": versions, "w": {}})


def say(name: str, value: object) -> None:
    sys.stdout.write(f"{name:<52} {value}\n")
    sys.stdout.flush()


def main() -> None:
    endpoints = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    call_command("migrate", verbosity=0)
    now = datetime.now(UTC)
    rows = build(endpoints, now)
    with connection.cursor() as cursor:
        cursor.execute("analyze")
    fill_rings(rows, now)
    say("endpoints", len(rows))
    say("models", RegisteredModel.objects.count())
    engine = AlertEngine()
    started, busy = time.perf_counter(), time.process_time()
    engine.look(now)
    took_s, busy_s = time.perf_counter() - started, time.process_time() - busy
    say("first look, reads five minutes of seconds", f"{took_s:.2f} s, {busy_s:.2f} s of a core")
    took, work, queries = [], [], []
    for number in range(1, LOOKS + 1):
        at = now + timedelta(seconds=5 * number)
        for second in range(5):
            add_second(rows, at - timedelta(seconds=5 - second - 1))
        with CaptureQueriesContext(connection) as captured:
            started, busy = time.perf_counter(), time.process_time()
            engine.look(at)
            took.append(1000 * (time.perf_counter() - started))
            work.append(1000 * (time.process_time() - busy))
        queries.append(len(captured))
    for name, figure in (("median", statistics.median), ("slowest", max)):
        say(
            f"look every 5 s, {name}",
            f"{figure(took):.0f} ms, {figure(work):.0f} ms of a core",
        )
    say("queries of a look, median / most", f"{statistics.median(queries):.0f} / {max(queries)}")
    say("alerts that fire", Alert.objects.filter(state="firing").count())
    slow = AlertEngine(slow=True)
    started = time.perf_counter()
    slow.look(now + timedelta(minutes=2))
    say("look at burn rates and leaks, each minute", f"{time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
