"""The watch over machines: what it books, what it tells at once, and what it survives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from deployments.models import Endpoint, MeasuredSeries, Node, SeriesMinute
from deployments.processes.database import DatabaseThread
from deployments.processes.machine_sources import client
from deployments.processes.machine_watch import MachineWatch
from deployments.selectors.fleet.machine_charts import machine_chart
from deployments.selectors.fleet.machine_pages import machine_now
from deployments.selectors.fleet.machines import machines
from deployments.selectors.fleet.nodes import served_on
from tests import factories
from tests.adapters.dcgm_double import Card, DcgmDouble
from tests.adapters.http_double import Answer, Asked, HttpDouble
from tests.deployments.conftest import Fleet, ready_version

pytestmark = pytest.mark.django_db(transaction=True)

Look = Callable[[], Awaitable[None]]


class TritonDouble:
    """Triton's `/metrics` with one version whose totals a test moves; text as Triton 2.51's."""

    def __init__(self, model: str) -> None:
        self.model, self.requests = model, 100
        self.http = HttpDouble(self._answer)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.http.port}"

    def _answer(self, _: Asked) -> Answer:
        of = f'{{model="{self.model}",version="1"}}'
        quantile = f'{{model="{self.model}",version="1",quantile="0.95"}}'
        totals = {
            "nv_inference_request_success": self.requests,
            "nv_inference_count": self.requests * 4,
            "nv_inference_exec_count": self.requests,
            "nv_inference_queue_duration_us": self.requests * 1000,
            "nv_inference_pending_request_count": 2,
        }
        lines = [f"{name}{of} {value}" for name, value in totals.items()]
        lines.append(f"nv_inference_queue_summary_us{quantile} 120000")
        return Answer(200, "\n".join(lines).encode() + b"\n", {"content-type": "text/plain"})


@pytest.fixture
def doubles(fleet_rows: Fleet) -> Iterator[tuple[DcgmDouble, TritonDouble]]:
    """The fleet's node with an exporter and a Triton that tells metrics; v1 serves there."""
    placement = ready_version(fleet_rows, factories.make_version(factories.make_model()))
    exporter = DcgmDouble(Card(0), Card(1))
    triton = TritonDouble(placement.deployment.generation.triton_model)
    Node.objects.update(dcgm_address=exporter.address, metrics_address=triton.address)
    yield exporter, triton
    exporter.http.go_away()
    triton.http.go_away()


def watching(work: Callable[[MachineWatch, Look], Awaitable[None]]) -> None:
    """Run `work` with a watch over the node; each `look()` looks once."""

    async def run() -> None:
        database = DatabaseThread()
        watch = MachineWatch(database)
        watch.watch(await database.run(lambda: list(Node.objects.all())))
        try:
            async with client() as http:
                await watch.refresh()
                await work(watch, lambda: watch.look(http))
        finally:
            watch.close()
            database.close()

    asyncio.run(run())


def newest(name: str, **of: object) -> float:
    row = SeriesMinute.objects.filter(series__name=name, **of).order_by("-newest_at").first()
    assert row is not None, name
    return row.newest


def test_gpus_host_and_versions_are_booked_and_told(
    fleet_rows: Fleet, doubles: tuple[DcgmDouble, TritonDouble]
) -> None:
    exporter, triton = doubles

    async def work(watch: MachineWatch, look: Look) -> None:
        await look()
        exporter.cards[1].values["DCGM_FI_DEV_GPU_TEMP"] = 91
        triton.requests += 40
        await look()
        await watch.book()
        await watch.book()

    watching(work)
    assert newest("gpu_temperature_celsius", series__device="GPU-1") == 91
    assert newest("gpu_temperature_celsius", series__device="GPU-0") == 61
    assert newest("host_cpu_percent") >= 0
    endpoint = Endpoint.objects.get()
    of = {"series__endpoint": endpoint, "series__version": 1, "series__node": fleet_rows.node}
    assert newest("queue_p95_ms", **of) == 120
    assert newest("batch_efficiency", **of) == 4
    assert newest("queue_mean_ms", **of) == pytest.approx(1)
    assert newest("pending_requests", **of) == 2
    # Booked once, however often it was asked to.
    row = SeriesMinute.objects.filter(series__name="gpu_power_watts").order_by("-count").first()
    assert row is not None
    assert row.count <= 2
    units = dict(MeasuredSeries.objects.values_list("name", "unit"))
    assert (units["queue_p95_ms"], units["gpu_memory_used_bytes"]) == ("ms", "bytes")

    machine = machine_now("local", served=served_on(fleet_rows.node, user=fleet_rows.sam.user))
    assert machine is not None
    assert [(gpu.device, gpu.level.value) for gpu in machine.gpus] == [
        ("GPU-0", "good"),
        ("GPU-1", "bad"),
    ]
    assert machine.gpu_source == "DCGM exporter"
    assert machine.versions[0].served == ("production/fraud_detector v1",)


def test_a_silent_exporter_is_named_and_stops_nothing_else(
    fleet_rows: Fleet, doubles: tuple[DcgmDouble, TritonDouble]
) -> None:
    exporter, _ = doubles
    seen: list[tuple[int, dict[str, str]]] = []

    async def work(watch: MachineWatch, look: Look) -> None:
        for step in ("there", "away", "back"):
            if step == "away":
                exporter.http.go_away()
            if step == "back":
                exporter.http.come_back()
            await look()
            machine = machine_now("local", served={})
            assert machine is not None
            assert machine.host
            seen.append((len(machine.gpus), dict(machine.faults)))

    watching(work)
    assert [count for count, _ in seen] == [2, 0, 2]
    assert list(seen[1][1]) == ["DCGM exporter"]
    assert seen[0][1] == seen[2][1] == {}


def test_garbage_from_an_exporter_is_a_fault_and_no_end_of_the_watch(fleet_rows: Fleet) -> None:
    texts = [
        b'nv_inference_queue_summary_us{model="m",version="1",quantile="much"} 1\n',
        b"\xff\x00",
    ]
    double = HttpDouble(lambda asked: Answer(200, texts[0], {"content-type": "text/plain"}))
    Node.objects.update(metrics_address=f"127.0.0.1:{double.port}")

    async def work(watch: MachineWatch, look: Look) -> None:
        await look()
        machine = machine_now("local", served={})
        assert machine is not None
        assert "Triton" in machine.faults
        texts.pop(0)
        await look()

    try:
        watching(work)
    finally:
        double.go_away()


def test_a_node_of_some_gpus_has_these_alone(
    fleet_rows: Fleet, doubles: tuple[DcgmDouble, TritonDouble]
) -> None:
    Node.objects.update(gpus=[1])

    async def work(watch: MachineWatch, look: Look) -> None:
        await look()

    watching(work)
    machine = machine_now("local", served={})
    assert machine is not None
    assert [gpu.device for gpu in machine.gpus] == ["GPU-1"]


def test_what_was_read_while_the_database_refused_is_booked_later(
    fleet_rows: Fleet, doubles: tuple[DcgmDouble, TritonDouble]
) -> None:
    async def work(watch: MachineWatch, look: Look) -> None:
        await look()
        lock = asyncio.to_thread(_rename, "deployments_seriesminute", "away_for_now")
        await lock
        with pytest.raises(Exception, match="deployments_seriesminute"):
            await watch.book()
        await asyncio.to_thread(_rename, "away_for_now", "deployments_seriesminute")
        await watch.book()

    watching(work)
    assert SeriesMinute.objects.filter(series__name="gpu_power_watts").count() == 2


def _rename(old: str, new: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"alter table {old} rename to {new}")
    connection.close()


def test_a_node_that_went_away_is_given_up_and_others_are_booked(
    fleet_rows: Fleet, doubles: tuple[DcgmDouble, TritonDouble]
) -> None:
    other = Node.objects.create(
        name="other", http_address="127.0.0.1:1", grpc_address="127.0.0.1:2", repository="/"
    )

    async def work(watch: MachineWatch, look: Look) -> None:
        await look()
        await asyncio.to_thread(_delete, other)
        await watch.refresh()
        await watch.book()

    watching(work)
    assert set(MeasuredSeries.objects.values_list("node__name", flat=True)) == {"local"}
    assert SeriesMinute.objects.filter(series__name="gpu_power_watts").count() == 2


def _delete(node: Node) -> None:
    node.delete()
    connection.close()


def test_charts_are_drawn_live_and_from_minutes(
    fleet_rows: Fleet, doubles: tuple[DcgmDouble, TritonDouble]
) -> None:
    _, triton = doubles

    async def work(watch: MachineWatch, look: Look) -> None:
        await look()
        triton.requests += 30
        await look()
        await watch.book()

    watching(work)
    node, user = fleet_rows.node, fleet_rows.sam.user
    served = served_on(node, user=user)
    now = timezone.now() + timedelta(minutes=1)
    for window in ("10m", "1h"):
        heat = machine_chart(
            node, "gpu-temperature", window=window, now=now, user=user, served=served
        )
        assert [line["name"] for line in heat["series"]] == ["GPU-0", "GPU-1"]
        assert heat["limit"]["value"] == 88
        assert 61 in heat["series"][0]["y"]
        queue = machine_chart(node, "queue", window=window, now=now, user=user, served=served)
        assert [line["version"] for line in queue["series"]] == [1]
        assert 120 in queue["series"][0]["y"]
        links = machine_chart(node, "gpu-pcie", window=window, now=now, user=user, served=served)
        assert len(links["series"]) == 4


def test_machines_take_three_queries_however_many_there_are(
    fleet_rows: Fleet, django_assert_num_queries: Any
) -> None:
    model = factories.make_model()
    for _ in (1, 2):
        ready_version(fleet_rows, factories.make_version(model))
    for index in range(5):
        Node.objects.create(
            name=f"n{index}", http_address="h:1", grpc_address="h:2", repository="/"
        )
    names = list(Node.objects.values_list("name", flat=True))
    with django_assert_num_queries(3):
        found = machines(names)
    assert len(found) == 6
    local = next(one for one in found if one.name == "local")
    assert {slot[1] for slot in local.endpoints} == {1, 2}
