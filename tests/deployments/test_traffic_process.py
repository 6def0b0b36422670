"""The traffic control: one is active, the next takes over, a tick's fault stays its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import pytest

from console.errors import Conflict
from deployments.processes.traffic import Tick, TrafficControl

pytestmark = pytest.mark.django_db(transaction=True)


async def until(check: Callable[[], bool], seconds: float = 10.0) -> None:
    for _ in range(int(seconds * 100)):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"It did not happen within {seconds:g} s.")


def test_one_is_active_and_the_next_takes_over() -> None:
    ran: dict[str, list[datetime]] = {"first": [], "second": []}

    async def scenario() -> None:
        stops = {name: asyncio.Event() for name in ran}
        works = {}
        for name, times in ran.items():
            control = TrafficControl((Tick(name, times.append, 0.02),))
            works[name] = asyncio.create_task(control.run(stops[name]))
            if name == "first":
                await until(lambda: bool(ran["first"]))
        before = len(ran["first"])
        await until(lambda: len(ran["first"]) > before + 5)
        assert not ran["second"]
        stops["first"].set()
        await works["first"]
        await until(lambda: bool(ran["second"]))
        stops["second"].set()
        await works["second"]

    asyncio.run(scenario())
    assert ran["first"][-1] <= ran["second"][0]


@pytest.mark.parametrize("fault", [Conflict("Not now.", code="not_now"), ValueError("ours")])
def test_a_tick_that_cannot_do_its_work_holds_up_nobody(fault: Exception) -> None:
    times: list[datetime] = []
    tried: list[datetime] = []

    def refuse(now: datetime) -> None:
        tried.append(now)
        raise fault

    async def scenario() -> None:
        stop = asyncio.Event()
        ticks = (Tick("refuses", refuse, 0.01), Tick("works", times.append, 0.01))
        work = asyncio.create_task(TrafficControl(ticks).run(stop))
        await until(lambda: len(times) > 5 and len(tried) > 5)
        stop.set()
        await work

    asyncio.run(scenario())
