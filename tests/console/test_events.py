"""Server-Sent Events of a real web process over a real Redis."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import redis
from django.db import connection
from django.test import Client

from console import live
from console.services.departures import deactivate_person
from console.services.tokens import create_token
from tests.console.conftest import CHILDREN, OwnRedis, WebProcess, session_cookie
from tests.factories import People, actor

# In one place, so that their processes are started once.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("events")]

StartWeb = Callable[..., WebProcess]


@dataclass
class Stream:
    """An open stream of events: what came, and the id to go on from."""

    lines: AsyncIterator[str]
    last_id: str = ""
    pings: int = 0
    ended: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)

    async def next(self, seconds: float = 10.0) -> dict[str, Any]:
        """The next event's data; fails when none comes."""
        async with asyncio.timeout(seconds):
            async for line in self.lines:
                if line.startswith("id: "):
                    self.last_id = line[4:]
                elif line.startswith(":"):
                    self.pings += 1
                elif line.startswith("data: "):
                    self.events.append(json.loads(line[6:]))
                    return self.events[-1]
        self.ended = True
        raise AssertionError("the stream ended")

    async def hello(self) -> None:
        """Read the first block, which says where the stream starts."""
        async with asyncio.timeout(10):
            async for line in self.lines:
                if line.startswith("id: "):
                    self.last_id = line[4:]
                if line == "":
                    return


@asynccontextmanager
async def listening(
    client: httpx.AsyncClient, topics: str, **headers: str
) -> AsyncIterator[Stream]:
    async with client.stream(
        "GET", "/api/v1/events/", params={"topics": topics}, headers=headers
    ) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        stream = Stream(response.aiter_lines())
        await stream.hello()
        yield stream


def browser(web: WebProcess, cookies: dict[str, str]) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=200)
    return httpx.AsyncClient(base_url=web.url, cookies=cookies, timeout=30, limits=limits)


def open_connections() -> int:
    """Sessions of the web process in the database; called in a thread of its own."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "select count(*) from pg_stat_activity where application_name = %s", [CHILDREN]
            )
            return int(cursor.fetchone()[0])
    finally:
        connection.close()


def test_fifty_viewers_hear_an_event_within_a_second_and_hold_no_database_connection(
    steady_web: WebProcess, persons: People
) -> None:
    cookies = session_cookie(persons.vic)

    async def watch() -> tuple[float, list[dict[str, Any]], int]:
        async with browser(steady_web, cookies) as client, AsyncExitStack() as streams:
            opened = [
                await streams.enter_async_context(listening(client, "jobs,job:12"))
                for _ in range(50)
            ]
            held = await asyncio.to_thread(open_connections)
            began = time.monotonic()
            live.publish_now("job:13", "job.changed", {"not": "asked for"})
            live.publish_now("job:12", "job.changed", {"state": "running"})
            heard = await asyncio.gather(*(stream.next() for stream in opened))
            took = time.monotonic() - began
            page = await client.get("/settings/", timeout=10)
            assert page.status_code == 200, "pages go on beside the streams"
            return took, heard, held

    took, heard, held = asyncio.run(watch())
    assert heard == [{"state": "running", "topic": "job:12", "type": "job.changed"}] * 50
    assert took < 1
    assert held < 10, "connections of the web process, whose pool has 20"


def test_a_viewer_who_comes_back_is_sent_what_it_missed_in_order(
    steady_web: WebProcess, persons: People
) -> None:
    cookies = session_cookie(persons.vic)

    async def watch() -> list[dict[str, Any]]:
        async with browser(steady_web, cookies) as client:
            async with listening(client, "jobs") as stream:
                live.publish_now("jobs", "tick", {"n": 1})
                await stream.next()
                last_id = stream.last_id
            for n in (2, 3):
                live.publish_now("jobs", "tick", {"n": n})
                live.publish_now("nodes", "tick", {"n": n})
            async with listening(client, "jobs", **{"Last-Event-ID": last_id}) as stream:
                live.publish_now("jobs", "tick", {"n": 4})
                return [await stream.next() for _ in range(3)]

    assert [event["n"] for event in asyncio.run(watch())] == [2, 3, 4]


def test_a_page_is_sent_what_happened_since_it_was_made(
    steady_web: WebProcess, persons: People
) -> None:
    cookies = session_cookie(persons.vic)

    async def watch() -> list[int]:
        live.connection().delete(live.STREAM)
        live.connection().xadd(
            live.STREAM, {"topic": "jobs", "event": "tick", "data": '{"n": 0}'}, id="1-1"
        )
        made = int(time.time())
        live.publish_now("jobs", "tick", {"n": 1})
        async with browser(steady_web, cookies) as client:
            address = "/api/v1/events/"
            asked = {"topics": "jobs", "since": str(made)}
            async with client.stream("GET", address, params=asked) as response:
                stream = Stream(response.aiter_lines())
                await stream.hello()
                live.publish_now("jobs", "tick", {"n": 2})
                return [(await stream.next())["n"] for _ in range(2)]

    assert asyncio.run(watch()) == [1, 2]


def test_an_id_that_is_no_longer_kept_is_answered_by_a_resync(
    steady_web: WebProcess, persons: People
) -> None:
    cookies = session_cookie(persons.vic)

    async def watch() -> dict[str, Any]:
        live.publish_now("jobs", "tick", {"n": 1})
        async with browser(steady_web, cookies) as client:
            async with listening(client, "jobs") as stream:
                last_id = stream.last_id
            live.publish_now("jobs", "tick", {"n": 2})
            live.publish_now("jobs", "tick", {"n": 3})
            live.connection().xtrim(live.STREAM, maxlen=1, approximate=False)
            async with listening(client, "jobs", **{"Last-Event-ID": last_id}) as stream:
                return await stream.next()

    assert asyncio.run(watch()) == {"topic": "*", "type": "resync"}


def test_a_redis_that_was_lost_ends_no_stream_and_is_followed_by_a_resync(
    start_web: StartWeb, persons: People, own_redis: OwnRedis
) -> None:
    web = start_web(REDIS_URL=own_redis.url)
    cookies = session_cookie(persons.vic)

    def publish(n: int) -> None:
        with redis.Redis.from_url(own_redis.url) as client:
            client.xadd(
                live.STREAM, {"topic": "jobs", "event": "tick", "data": json.dumps({"n": n})}
            )

    async def watch() -> list[dict[str, Any]]:
        async with browser(web, cookies) as client, listening(client, "jobs") as stream:
            publish(1)
            first = await stream.next()
            await asyncio.to_thread(own_redis.kill)
            page = await client.get("/settings/", timeout=10)
            assert page.status_code == 200, "pages stay up without Redis"
            async with listening(client, "jobs") as newcomer:
                await asyncio.to_thread(own_redis.start)
                began = time.monotonic()
                again = await stream.next()
                assert time.monotonic() - began < 5
                assert (await newcomer.next())["type"] == "resync"
            publish(2)
            return [first, again, await stream.next()]

    first, again, last = asyncio.run(watch())
    assert (first["n"], again["type"], last["n"]) == (1, "resync", 2)


@pytest.mark.parametrize("how", ["session", "token"])
def test_the_stream_of_somebody_who_may_no_longer_read_ends(
    steady_web: WebProcess, persons: People, how: str
) -> None:
    cookies, headers = session_cookie(persons.vic), {}
    if how == "token":
        _, clear = create_token(name="t", scopes=["read"], actor=actor(persons.vic))
        cookies, headers = {}, {"Authorization": f"Token {clear}"}

    def deactivate() -> None:
        deactivate_person(username="vic", reason="left", actor=actor(persons.ada))
        connection.close()

    async def watch() -> Stream:
        async with (
            browser(steady_web, cookies) as client,
            listening(client, "jobs", **headers) as stream,
        ):
            live.publish_now("jobs", "tick")
            await stream.next()
            await asyncio.to_thread(deactivate)
            with pytest.raises(AssertionError, match="the stream ended"):
                await stream.next()
            return stream

    stream = asyncio.run(watch())
    assert stream.ended
    assert stream.pings >= 1


def test_who_is_refused_and_with_what(steady_web: WebProcess, persons: People) -> None:
    with httpx.Client(base_url=steady_web.url) as client:
        nobody = client.get("/api/v1/events/?topics=jobs")
        assert nobody.status_code == 401
        assert nobody.headers["content-type"] == "application/problem+json"
        bad = client.get("/api/v1/events/", headers={"Authorization": "Token cvt_wrong"})
        assert bad.json()["code"] == "not_authenticated"
        client.cookies.update(session_cookie(persons.vic))
        topics = ",".join(f"job:{n}" for n in range(51))
        many = client.get("/api/v1/events/", params={"topics": topics})
        assert (many.status_code, many.json()["code"]) == (422, "too_many_topics")


def test_a_server_without_asgi_says_so_instead_of_holding_a_thread(
    signed_in: Callable[..., Client], persons: People
) -> None:
    answer = signed_in(persons.vic).get("/api/v1/events/?topics=jobs")
    assert (answer.status_code, answer.json()["code"]) == (404, "live_events_off")
