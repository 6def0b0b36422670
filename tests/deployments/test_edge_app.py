"""The edge as an ASGI application: what it lets in, what it refuses, and what it does beside."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.edge.app import EdgeApp
from deployments.edge.http import Request, Response, Route


@dataclass
class Echo:
    """A part that answers with what it got; `hold` keeps requests until it is set."""

    name: str = "echo"
    hold: asyncio.Event | None = None
    runs: list[str] = field(default_factory=list)
    fails: int = 0

    @property
    def routes(self) -> Sequence[Route]:
        return (
            Route("POST", re.compile("/marked"), self.marked, header="x-mark"),
            Route("POST", re.compile("/(?P<word>[a-z]+)"), self.answer, 0.2, 10, at_once=1),
        )

    async def marked(self, request: Request) -> Response:
        return Response(200, b"marked")

    async def answer(self, request: Request) -> Response:
        if self.hold is not None:
            await self.hold.wait()
        return Response(200, request.parts["word"].encode() + b":" + request.body)

    async def run(self) -> None:
        self.runs.append("run")
        if len(self.runs) <= self.fails:
            raise RuntimeError("a part of ours is broken")
        await asyncio.Event().wait()


async def call(
    app: EdgeApp, method: str, path: str, *chunks: bytes, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    sent: list[Any] = []
    parts = list(chunks) or [b""]
    messages = [
        {"type": "http.request", "body": part, "more_body": index < len(parts) - 1}
        for index, part in enumerate(parts)
    ]

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": named}
    await app(scope, receive, send)
    told = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
    return sent[0]["status"], sent[1]["body"], told


def test_routes_are_found_by_path_method_and_header() -> None:
    async def check() -> None:
        app = EdgeApp((Echo(),))
        assert (await call(app, "GET", "/healthz"))[:2] == (200, b"ok\n")
        assert (await call(app, "POST", "/hello", b"a", b"b"))[:2] == (200, b"hello:ab")
        assert (await call(app, "POST", "/marked"))[1] == b"marked:"
        assert (await call(app, "POST", "/marked", x_mark="1"))[1] == b"marked"
        status, _, told = await call(app, "GET", "/hello")
        assert (status, told["allow"]) == (405, "POST")
        assert (await call(app, "POST", "/1"))[0] == 404

    asyncio.run(check())


def test_a_body_that_is_too_large_is_refused_said_or_not() -> None:
    async def check() -> None:
        app = EdgeApp((Echo(),))
        assert (await call(app, "POST", "/hello", b"123456", b"78901"))[0] == 413
        assert (await call(app, "POST", "/hello", b"", content_length="11"))[0] == 413
        assert (await call(app, "POST", "/hello", b"1234567890"))[0] == 200

    asyncio.run(check())


def test_work_has_a_limit_at_one_time_and_in_time() -> None:
    async def check() -> None:
        echo = Echo(hold=asyncio.Event())
        app = EdgeApp((echo,))
        first = asyncio.create_task(call(app, "POST", "/first"))
        await asyncio.sleep(0)
        status, body, _ = await call(app, "POST", "/second")
        assert (status, b"overloaded" in body) == (503, True)
        # What is held is given up after the route's time-out, and then there is room again.
        status, body, _ = await first
        assert (status, b'"timeout"' in body) == (503, True)
        assert echo.hold is not None
        echo.hold.set()
        assert (await call(app, "POST", "/third"))[0] == 200

    asyncio.run(check())


def test_parts_run_while_the_server_is_up_and_begin_again_when_they_fail() -> None:
    async def check() -> None:
        echo = Echo(fails=1)
        app = EdgeApp((echo,))
        asked: asyncio.Queue[Any] = asyncio.Queue()
        told: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(app({"type": "lifespan"}, asked.get, told.put))
        await asked.put({"type": "lifespan.startup"})
        assert (await told.get())["type"] == "lifespan.startup.complete"
        async with asyncio.timeout(5):
            while len(echo.runs) < 2:  # noqa: ASYNC110 - nobody tells when a part begins again
                await asyncio.sleep(0.02)
        await asked.put({"type": "lifespan.shutdown"})
        assert (await told.get())["type"] == "lifespan.shutdown.complete"
        await task

    asyncio.run(check())
