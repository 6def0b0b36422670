from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from console.errors import Conflict
from console.models import Job, JobState
from console.stack import process
from console.stack import triton as triton_stack
from deployments.adapters import live_store
from deployments.models import CounterCursor, Endpoint, MinuteRollup, Node
from deployments.processes.collector import Collector
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.readings import Reader, Reading
from deployments.rules.statistics.rollups import Traffic, Work
from deployments.selectors.statistics.live_numbers import latest
from deployments.selectors.statistics.series import chart
from deployments.services.fleet.deploys import deploy_release
from deployments.services.statistics.rollups import Booking, book, load_reader
from deployments.services.traffic.splits import wait_acknowledged
from tests import factories, stack
from tests.deployments.calling import infer
from tests.deployments.conftest import Fleet
from tests.deployments.waiting import eventually

MINUTE = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
KEY = ("production", "fraud_detector")
BOUNDS = (1.0, 80.0)


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    return Endpoint.objects.create(model=factories.make_model(), environment=fleet_rows.production)


def traffic(requests: int, faults: int = 0, bounds: tuple[float, ...] = BOUNDS) -> Traffic:
    buckets = (requests, *(0,) * len(bounds))
    statuses = {"2xx": requests - faults, "5xx": faults}
    return Traffic(requests, 0, faults, statuses, Histogram(bounds, buckets))


def test_a_booking_and_its_cursors_are_written_together_and_add_up(endpoint: Endpoint) -> None:
    reader, booked_at = load_reader("gateway:embedded")
    assert (reader.known, booked_at) == (False, None)
    reader.read(100.0, {"a": Reading({"ok_2xx": 3})})
    booking = Booking()
    booking.add_traffic(KEY, 1, MINUTE, traffic(3))
    booking.add_traffic(KEY, 0, MINUTE, Traffic())
    booking.add_work(KEY, 1, MINUTE, Work(3, 2, 30, 300, 1))
    at = timezone.now()
    book("gateway:embedded", booking, reader=reader, changed={"a"}, before=None, at=at)
    again = Booking()
    again.add_traffic(KEY, 1, MINUTE, traffic(2, faults=1, bounds=(1.0, 50.0, 80.0)))
    book("gateway:embedded", again, reader=reader, changed=set(), before=at, at=timezone.now())

    row = MinuteRollup.objects.get(version=1)
    assert (row.requests, row.provider_faults) == (5, 1)
    assert row.statuses == {"2xx": 4, "5xx": 1}
    assert (row.bounds_ms, row.buckets) == ([1.0, 80.0], [5, 0, 0])
    assert (row.inference_count, row.queue_ns, row.triton_failures) == (3, 30, 1)
    assert MinuteRollup.objects.get(version=0).requests == 0
    stored, _ = load_reader("gateway:embedded")
    assert stored.last == {"a": Reading({"ok_2xx": 3})}


def test_a_series_that_is_silent_since_its_process_began_anew_starts_at_zero(db: None) -> None:
    """The collector is killed in between, so only what was written is known."""
    reader, _ = load_reader("gateway:embedded")
    reader.read(100.0, {"a": Reading({"ok_2xx": 3}), "b": Reading({"ok_2xx": 5})})
    first, second = timezone.now(), timezone.now() + timedelta(seconds=5)
    names = {"a", "b"}
    book("gateway:embedded", Booking(), reader=reader, changed=names, before=None, at=first)
    reader.read(900.0, {"a": Reading({"ok_2xx": 1}), "b": Reading({"ok_2xx": 0})})
    book("gateway:embedded", Booking(), reader=reader, changed={"a"}, before=first, at=second)

    stored, _ = load_reader("gateway:embedded")
    grown = stored.read(900.0, {"a": Reading({"ok_2xx": 2}), "b": Reading({"ok_2xx": 7})})
    assert {name: one.counts["ok_2xx"] for name, one in grown.items()} == {"a": 1, "b": 7}


def test_nobody_books_what_another_has_booked_already(endpoint: Endpoint) -> None:
    booking = Booking()
    booking.add_traffic(KEY, 1, MINUTE, traffic(3))
    at = timezone.now()
    book("gateway:embedded", booking, reader=Reader(), changed=(), before=None, at=at)
    with pytest.raises(Conflict) as refused:
        book("gateway:embedded", booking, reader=Reader(), changed=(), before=None, at=at)
    assert refused.value.code == "cursor_moved"
    assert MinuteRollup.objects.get().requests == 3
    assert CounterCursor.objects.count() == 1


class running_collector:
    """`with running_collector():` collects in a thread of its own."""

    def __enter__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(Collector().run(self._stop))
        self._loop.close()


def counted(name: str, version: int = 1) -> int:
    rows = MinuteRollup.objects.filter(endpoint__model__name=name, version=version)
    return sum(rows.values_list("requests", flat=True))


def test_every_request_is_counted_once_across_restarts_of_the_collector(
    live_fleet: Fleet, control: stack.RunningEnvoy, run_jobs: Callable[..., list[Job]]
) -> None:
    name = f"m_{uuid.uuid4().hex[:12]}"
    version = factories.make_version(factories.make_model(name))
    deploy_release(release_id=factories.make_release(version).pk, actor=live_fleet.sam)
    run_jobs()
    endpoint = Endpoint.objects.get(model__name=name)
    assert endpoint.current is not None
    wait_acknowledged(endpoint.current)
    url = live_fleet.url()
    with running_collector():
        eventually(lambda: MinuteRollup.objects.filter(endpoint=endpoint).exists(), 20)
        for _ in range(30):
            assert infer(url, name).status_code == 200
        # The gateway lets it through: such a name is Triton's to refuse.
        row = {"name": "features", "datatype": "FP32", "shape": [1, 10], "data": [1.0] * 10}
        bad = {"inputs": [row], "parameters": {"triton_own": True}}
        assert infer(url, name, body=bad).status_code == 400
        key = f"production/{name}"
        numbers = eventually(
            lambda: (found := latest([key]).get(key)) and found.p99_ms is not None and found
        )
        assert numbers.requests_per_second > 0
        assert numbers.versions[1].provider_share == 0
        document = chart(endpoint, "requests", window="15m", now=timezone.now())
        assert [line["name"] for line in document["series"]] == ["v1"]
        assert document["markers"][0]["label"] == "v1 100 %"
        eventually(lambda: counted(name) == 31, 20)
    # While nobody collects, callers go on; the next collector counts from the stored cursor.
    for _ in range(10):
        infer(url, name)
    with running_collector():
        eventually(lambda: counted(name) == 41, 20)
        live_store.live.connection().flushall()
        for _ in range(5):
            infer(url, name)
        eventually(lambda: counted(name) == 46, 20)
    row = MinuteRollup.objects.filter(endpoint=endpoint, version=1).order_by("minute").first()
    assert row is not None
    rows = MinuteRollup.objects.filter(endpoint=endpoint, version=1)
    assert sum(rows.values_list("caller_faults", flat=True)) == 1
    assert sum(rows.values_list("provider_faults", flat=True)) == 0
    assert sum(sum(buckets) for buckets in rows.values_list("buckets", flat=True)) == 46
    # Warm-up, smoke test and the refused request are Triton's business, not the callers'.
    assert sum(rows.values_list("inference_count", flat=True)) >= 45
    assert sum(rows.values_list("compute_ns", flat=True)) > 0


@pytest.fixture
def own_triton(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Callable[[], Any]]:
    """`start()` starts a Triton of this test's own, always at the same addresses."""
    programs = triton_stack.find()
    backends = triton_stack.build_backends(programs, tmp_path)
    ports = {name: free_port() for name in ("http", "grpc", "metrics")}
    running: list[Any] = []

    def start() -> Any:
        command = triton_stack.server(
            programs, backends=backends, repository=tmp_path / "repository", key="own-key", **ports
        )
        log = tmp_path / "triton.log"
        child = process.spawn(command, log)
        stack.wait_until("Triton", lambda: triton_stack.is_ready(ports["http"]), child, log)
        running.append(child)
        return child

    start.ports = ports  # type: ignore[attr-defined]
    yield start
    for child in running:
        process.stop(child, 15, seconds=8)


def test_a_node_that_dies_is_lost_in_five_seconds_and_restored_when_it_is_back(
    transactional_db: None,
    fleet_rows: Fleet,
    own_triton: Any,
    tmp_path: Path,
    settings: Any,
    run_jobs: Callable[..., list[Job]],
) -> None:
    settings.CONFIG = replace(settings.CONFIG, triton_repository_key="own-key")
    ports = own_triton.ports
    Node.objects.update(
        http_address=f"127.0.0.1:{ports['http']}",
        grpc_address=f"127.0.0.1:{ports['grpc']}",
        repository=str(tmp_path / "repository"),
    )
    child = own_triton()
    version = factories.make_version()
    deploy_release(release_id=factories.make_release(version).pk, actor=fleet_rows.sam)
    assert [job.state for job in run_jobs()] == [JobState.SUCCEEDED]
    with running_collector():
        eventually(lambda: live_store.nodes(["local"]).get("local"), 20)
        child.kill()
        died = timezone.now()
        eventually(lambda: Node.objects.get().state == "lost", 10)
        assert timezone.now() - died < timedelta(seconds=5)
        own_triton()
        job = eventually(lambda: Job.objects.filter(kind="reconcile").first(), 20)
        assert Node.objects.get().state == "lost"
        run_jobs()
        job.refresh_from_db()
        assert job.result == {"loaded": ["fraud_detector v1"], "failed": [], "removed": []}
        assert Node.objects.get().state == "ready"
        facts = eventually(lambda: live_store.nodes(["local"]).get("local"))
        assert facts["loaded"][0]["model"] == "fraud_detector"
