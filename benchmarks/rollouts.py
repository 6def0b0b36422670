"""The rollout engine with many rollouts at once: time, processor and database of each tick.

    python -m benchmarks.rollouts [ROLLOUTS] [SECONDS]

Uses databases of its own (as the tests do). Every rollout is in its first pause of 15 minutes, with
the fast check on and two metrics beside it that are measured each minute over all of the pause.
Time is played: before each tick every endpoint's live numbers get the next second. In the end all
new versions fail in one and the same second, which is the most that can come together.
"""

from __future__ import annotations

import copy
import json
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from tests import stack

stack.provide()

import django  # noqa: E402 - needs the environment from above

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models import F  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402

from benchmarks.demo_stack import quantiles, report  # noqa: E402
from console import live  # noqa: E402
from deployments.adapters import live_store  # noqa: E402
from deployments.models import (  # noqa: E402
    Deployment,
    Endpoint,
    Measurement,
    Placement,
    Rollout,
    ServingGeneration,
    TrafficSplit,
)
from deployments.services.rollouts.acts import start_rollout  # noqa: E402
from deployments.services.rollouts.engine import tick  # noqa: E402
from deployments.services.traffic.splits import set_split  # noqa: E402
from models_registry.models import ModelVersion, RegisteredModel, Release  # noqa: E402
from tests import factories  # noqa: E402
from tests.deployments.conftest import Fleet, _make_fleet, ready_version  # noqa: E402

BOUNDS = tuple(float(n) for n in (0.5, 1, 2.5, 5, 10, 25, 50, 80, 100, 250, 500, 1000, 5000))
PAUSE_S = 900


def build(count: int) -> list[Endpoint]:
    """So many endpoints with one version that serves, one that is ready, and its rollout.

    The first is made by the services; the others are copies of its rows.
    """
    fleet = _make_fleet(stack.free_port, "127.0.0.1:9", "127.0.0.1:9", "/nowhere")
    first = _endpoint(fleet, 0)
    start_rollout(
        environment="production",
        model=first.model.name,
        version=2,
        reason="A benchmark.",
        actor=fleet.sam,
    )
    acknowledge()
    first.refresh_from_db()
    endpoints = [first, *_copies(first, count - 1)]
    ids = [endpoint.pk for endpoint in endpoints]
    return list(Endpoint.objects.select_related("model", "environment").filter(pk__in=ids))


def _copies(first: Endpoint, count: int) -> list[Endpoint]:
    model = first.model
    models = RegisteredModel.objects.bulk_create(
        [_copy(model, name=f"copy_{number}") for number in range(count)]
    )
    for placement in Placement.objects.filter(deployment__release__version__model=model):
        deployment = placement.deployment
        release, generation = deployment.release, deployment.generation
        versions = _copied(ModelVersion, release.version, [{"model": one} for one in models])
        releases = _copied(Release, release, [{"version": one} for one in versions])
        shared = ServingGeneration.objects.filter(model__in=models).order_by("model_id")
        generations = list(shared) or _copied(
            ServingGeneration,
            generation,
            [{"model": one, "triton_model": one.name} for one in models],
        )
        pairs = zip(releases, generations, strict=True)
        deployments = _copied(
            Deployment, deployment, [{"release": one, "generation": other} for one, other in pairs]
        )
        _copied(Placement, placement, [{"deployment": one} for one in deployments])
    endpoints = _copied(Endpoint, first, [{"model": one, "current": None} for one in models])
    assert first.current is not None
    splits = _copied(TrafficSplit, first.current, [{"endpoint": one} for one in endpoints])
    for endpoint, split in zip(endpoints, splits, strict=True):
        endpoint.current = split
    Endpoint.objects.bulk_update(endpoints, ["current"])
    rollout = Rollout.objects.get(endpoint=first)
    fresh = [uuid.uuid4() for _ in endpoints]
    _copied(
        Rollout,
        rollout,
        [
            {
                "id": one,
                "endpoint": endpoint,
                "progress": {**rollout.progress, "spread": (one.int % 1000) / 1000},
            }
            for one, endpoint in zip(fresh, endpoints, strict=True)
        ],
    )
    return endpoints


def _copied(kind: Any, row: Any, changes: list[dict[str, Any]]) -> list[Any]:
    return list(kind.objects.bulk_create([_copy(row, **one) for one in changes]))


def _copy(row: Any, **changes: Any) -> Any:
    found = copy.copy(row)
    found._state = copy.copy(row._state)
    found._state.fields_cache = {}
    found.pk = uuid.uuid4() if isinstance(row.pk, uuid.UUID) else None
    found._state.adding = True
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def acknowledge() -> None:
    """Play the gateways: whatever split is wanted is applied."""
    current = Endpoint.objects.filter(current__isnull=False).values("current_id")
    TrafficSplit.objects.filter(pk__in=current, applied_at=None).update(
        state="applied", applied_at=F("created_at")
    )


def calls(at: float, *, failing: bool = False) -> str:
    """One second of an endpoint: 95 calls of the old version, 5 of the new one."""
    new = [5, 0, 5 if failing else 0, {"2": 5}, 0]
    return json.dumps(
        {
            "t": at,
            "v": {"0": [0, 0, 0, {}, 0], "1": [95, 0, 0, {"2": 90, "3": 5}, 0], "2": new},
            "w": {},
        }
    )


def remember(endpoints: list[Endpoint], until: float, seconds: int) -> None:
    """Fill the rings as they are after so many seconds."""
    live_store.store({}, {}, BOUNDS)
    points = [calls(until - back) for back in range(seconds, 0, -1)]
    for endpoint in endpoints:
        pipe = live.connection().pipeline(transaction=False)
        pipe.delete(f"covenant:ring:{endpoint}")
        pipe.rpush(f"covenant:ring:{endpoint}", *points)
        pipe.execute()


def next_second(endpoints: list[Endpoint], at: float, *, failing: bool = False) -> None:
    """One second more in every ring."""
    point = json.loads(calls(at, failing=failing))
    live_store.store({}, {str(endpoint): point for endpoint in endpoints}, BOUNDS)


def play(endpoints: list[Endpoint], start: datetime, seconds: int) -> datetime:
    """So many ticks, and what each took."""
    walls, processors, statements = [], [], []
    before, now = Measurement.objects.count(), start
    for number in range(seconds):
        now = start + timedelta(seconds=number)
        next_second(endpoints, now.timestamp() - 0.5)
        with CaptureQueriesContext(connection) as queries:
            wall, processor = time.perf_counter(), time.process_time()
            done = tick(now)
            walls.append(1000 * (time.perf_counter() - wall))
            processors.append(1000 * (time.process_time() - processor))
        statements.append(float(len(queries)))
        assert done.looked == len(endpoints), (
            number,
            done,
            list(Rollout.objects.values_list("state", "cause", "message").distinct()[:5]),
        )
        acknowledge()
    report(
        "rollouts",
        rollouts=len(endpoints),
        ticks=seconds,
        tick_ms=quantiles(walls),
        processor_ms=quantiles(processors),
        statements=quantiles(statements),
        measurements=Measurement.objects.count() - before,
    )
    return now


def fail_all(endpoints: list[Endpoint], now: datetime) -> None:
    """Every new version fails at once: how long until all are off."""
    for back in (1.5, 0.5):
        next_second(endpoints, (now + timedelta(seconds=2 - back)).timestamp(), failing=True)
    began, spent = time.perf_counter(), time.process_time()
    tick(now + timedelta(seconds=2))
    took, spent = time.perf_counter() - began, time.process_time() - spent
    left = Rollout.objects.exclude(state="rolled_back").count()
    report(
        "rollouts that fail together",
        rollouts=len(endpoints),
        seconds=round(took, 2),
        processor_s=round(spent, 2),
        left=left,
    )


def _endpoint(fleet: Fleet, number: int) -> Endpoint:
    model = factories.make_model(f"model_{number}")
    for _ in range(2):
        ready_version(fleet, factories.make_version(model))
    weights: Any = {1: 100}
    set_split(
        environment="production",
        model=model.name,
        weights=weights,
        expected_revision=None,
        reason="A benchmark.",
        actor=fleet.sam,
    )
    found = Endpoint.objects.select_related("model", "environment")
    return found.get(model=model, environment=fleet.production)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 90
    call_command("migrate", verbosity=0)
    endpoints = build(count)
    now = datetime.now(UTC) + timedelta(seconds=1)
    remember(endpoints, now.timestamp(), 30)
    for _ in range(3):
        tick(now)
        now += timedelta(seconds=1)
    # Most of the pause is over: what is measured reaches as far back as it ever does.
    now += timedelta(seconds=PAUSE_S - 3 * seconds)
    remember(endpoints, now.timestamp(), PAUSE_S)
    tick(now)
    fail_all(endpoints, play(endpoints, now + timedelta(seconds=1), seconds))


if __name__ == "__main__":
    main()
