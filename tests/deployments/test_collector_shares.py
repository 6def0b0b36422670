"""Several collectors, and what one notes of a gateway that it could not read."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync

from console import live
from console.env import ROOT
from console.models import Job
from console.stack import process
from console.stack.process import Command
from deployments.adapters import live_store
from deployments.adapters.leases import Leases
from deployments.models import Endpoint, GapReason, MinuteRollup
from deployments.processes.collector import Collector
from deployments.processes.database import connection_parameters
from deployments.processes.shares import GROUP
from deployments.processes.sources import Source
from deployments.processes.teller import Part, Teller
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.latency_bounds import STANDARD_MS
from deployments.rules.statistics.live_window import from_point
from deployments.rules.statistics.readings import Reader, Reading
from deployments.rules.statistics.rollups import Traffic, Work
from deployments.selectors.statistics.live_numbers import latest
from deployments.services.fleet.deploys import deploy_release
from deployments.services.statistics.rollups import load_reader
from deployments.services.traffic.splits import wait_acknowledged
from tests import factories, stack
from tests.deployments.calling import infer
from tests.deployments.conftest import Fleet
from tests.deployments.test_collector_services import counted, running_collector
from tests.deployments.waiting import eventually

START = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
KEY = ("production", "fraud_detector")


def known(read_at: datetime = START) -> Source:
    """A source that an earlier collector read until then."""
    reader = Reader(known=True, epoch=1000.0, last={"a": Reading({"n": 5})})
    return Source("gateway:g", reader, read_at, read_at=read_at)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_who_is_read_each_second_has_no_gap() -> None:
    source = known()
    source.read(START + seconds(1), 1000.0)
    source.gaps.clear()
    for at in range(2, 6):
        source.read(START + seconds(at), 1000.5)
    assert source.gaps == []


def test_a_gateway_that_does_not_answer_has_a_gap_that_ends_when_it_does() -> None:
    source = known()
    source.read(START + seconds(1), 1000.0)
    source.gaps.clear()
    for at in range(2, 20):
        source.failed(START + seconds(at), "refused")
    (opened,) = source.gaps
    assert (opened.started_at, opened.ended_at, opened.detail) == (
        START + seconds(1),
        None,
        "refused",
    )
    source.gaps.clear()
    source.read(START + seconds(20), 1000.0)
    (ended,) = source.gaps
    assert (ended.why, ended.ended_at, ended.lost) == (
        GapReason.UNREACHABLE,
        START + seconds(20),
        False,
    )


def test_a_gateway_that_began_anew_has_lost_what_it_counted_last() -> None:
    source = known()
    began = (START + seconds(3)).timestamp()
    source.read(START + seconds(4), began)
    (gap,) = source.gaps
    assert (gap.why, gap.lost) == (GapReason.RESTARTED, True)
    assert (gap.started_at, gap.ended_at) == (START, START + seconds(3))


@pytest.mark.parametrize("step", [-3600.0, -30.0, 30.0, 3600.0])
def test_a_clock_that_is_set_is_no_restart(step: float) -> None:
    """What the gateway says of its age decides, not when it seems to have begun."""
    source = known()
    source.read(START + seconds(1), 1000.0)
    source.gaps.clear()
    at, age = START + seconds(2 + step), 86_400.0
    epoch = source.epoch_of(at, 1000.0 + step, age)
    source.read(at, epoch)
    grown = source.reader.read(epoch, {"a": Reading({"n": 7}), "b": Reading({"n": 1})})
    assert (grown["a"].counts, grown["b"].counts) == ({"n": 2}, {"n": 1})
    assert not any(gap.lost for gap in source.gaps)

    # One that is younger than the time since it was read last is another.
    young = source.epoch_of(at + seconds(10), 1000.0 + step + 90_000, 5.0)
    assert source.reader.is_restart(young)


def test_time_in_which_nobody_collected_is_a_gap_of_nobodys_counts() -> None:
    source = known()
    source.read(START + seconds(60), 1000.0)
    (gap,) = source.gaps
    assert (gap.why, gap.lost) == (GapReason.NOT_COLLECTED, False)
    new = Source("gateway:new", Reader(), None)
    new.failed(START, "refused")
    new.read(START, 1000.0)
    assert new.gaps == []


def traffic(requests: int) -> Traffic:
    buckets = (requests, *(0,) * len(STANDARD_MS))
    return Traffic(requests, 0, 0, {"200": requests}, Histogram(STANDARD_MS, buckets))


@pytest.mark.django_db
def test_one_tells_what_all_have_read() -> None:
    live.connection().flushall()
    others, mine = Part(), Part()
    others.add_traffic(KEY, 1, traffic(3))
    others.add_work(KEY, 1, Work(3, 1, 30, 300))
    mine.add_traffic(KEY, 1, traffic(2))
    mine.add_traffic(("production", "other"), 1, traffic(1))
    tell = async_to_sync(Teller().tell)
    tell(others, at=99.0, bounds=STANDARD_MS, tells=False)
    tell(mine, at=100.0, bounds=STANDARD_MS, tells=True)
    points, bounds = live_store.ring("/".join(KEY))
    (second,) = [from_point(point, bounds) for point in points]
    assert (second.at, second.traffic[1].requests, second.work[1].executions) == (100.0, 5, 1)
    assert set(latest(["production/fraud_detector", "production/other"])) == {
        "production/fraud_detector",
        "production/other",
    }
    # Each part is told once, and one of long ago never.
    tell(others, at=100.5, bounds=STANDARD_MS, tells=False)
    tell(Part(), at=200.0, bounds=STANDARD_MS, tells=True)
    assert len(live_store.ring("/".join(KEY))[0]) == 1
    assert live_store.take_parts() == []


@pytest.mark.django_db(transaction=True)
def test_leases_go_with_the_connection_that_held_them() -> None:
    @async_to_sync
    async def scene() -> None:
        group = GROUP + 100
        first, second = (
            Leases(connection_parameters(), group),
            Leases(connection_parameters(), group),
        )
        await first.keep()
        assert await first.holders() == 1
        assert await first.take(["a", "b"]) == {"a", "b"}
        await second.keep()
        assert await second.holders() == 2
        assert await second.take(["a", "b", "c"]) == {"c"}
        await first.give(["a"])
        assert await second.take(["a", "b"]) == {"a"}
        # As when its process is killed: nothing is given back by it.
        assert first._connection is not None
        first._connection.pgconn.finish()
        assert await second.take(["b"]) == {"b"}
        assert await first.keep() == {"b"}
        assert first.held == frozenset()
        await second.close()
        assert await first.take(["a"]) == {"a"}
        await first.close()

    scene()


def test_another_collector_takes_over_from_one_that_is_killed(
    live_fleet: Fleet,
    control: stack.RunningEnvoy,
    run_jobs: Callable[..., list[Job]],
    process_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    name = f"m_{uuid.uuid4().hex[:12]}"
    version = factories.make_version(factories.make_model(name))
    deploy_release(release_id=factories.make_release(version).pk, actor=live_fleet.sam)
    run_jobs()
    endpoint = Endpoint.objects.get(model__name=name)
    assert endpoint.current is not None
    wait_acknowledged(endpoint.current)
    url = live_fleet.url()
    log = tmp_path / "collect.log"
    command = Command(
        argv=[sys.executable, str(ROOT / "manage.py"), "collect"],
        env=process_environment,
        cwd=ROOT,
        death_signal=signal.SIGKILL,
    )
    first = process.spawn(command, log)
    try:
        eventually(lambda: MinuteRollup.objects.filter(endpoint=endpoint).exists(), 60)
        for _ in range(10):
            assert infer(url, name).status_code == 200
        eventually(lambda: counted(name) == 10, 30)
        with running_collector():
            # The one that came anew gets its share of the sources, and each is read by one.
            eventually(lambda: "1 of 2 sources are ours" in log.read_text(), 30)
            for _ in range(10):
                assert infer(url, name).status_code == 200
            eventually(lambda: counted(name) == 20, 30)
            os.kill(first.pid, signal.SIGKILL)
            for _ in range(10):
                assert infer(url, name).status_code == 200
            eventually(lambda: counted(name) == 30, 30)
            key = f"production/{name}"
            eventually(lambda: (found := latest([key]).get(key)) and found.at.timestamp() > 0, 10)
    finally:
        process.stop(first, signal.SIGKILL, seconds=5)
    assert counted(name) == 30


@pytest.mark.django_db(transaction=True)
def test_a_cursor_is_never_ahead_of_what_was_booked() -> None:
    """What is read while a booking is written belongs to the next one."""

    async def scene() -> None:
        collector = Collector()
        reader = Reader()
        reader.read(1000.0, {"a": Reading({"n": 5})})
        source = Source("gateway:g", reader, None)
        writing = asyncio.create_task(collector._book(source))
        await asyncio.sleep(0)
        source.reader.read(1000.0, {"a": Reading({"n": 9})})
        await writing
        assert (source.reader.last["a"].counts["n"], source.booked_at is not None) == (9, True)
        await collector._close()

    asyncio.run(scene())
    stored, _ = load_reader("gateway:g")
    assert stored.last == {"a": Reading({"n": 5})}
