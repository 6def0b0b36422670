"""The edge as an ASGI application: limits, routes, and the parts' work in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployments.edge.http import Part, Request, Response, Route, problem

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_TIMEOUT_S = 10.0
AGAIN_AFTER_S = 1.0

log = logging.getLogger(__name__)


class _Refused(Exception):
    """A request that no handler gets to see."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


@dataclass(slots=True)
class _Mounted:
    route: Route
    under_way: int = 0


class EdgeApp:
    """Answers for its parts, and runs what they do beside that while the server is up."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)
        self._routes = [_Mounted(route) for part in parts for route in part.routes]
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                response = await self._answer(scope, receive)
            except _Refused as refused:
                response = refused.response
            await _send(response, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        method, path = scope["method"], scope["path"]
        if path == "/healthz":
            return Response(200, b"ok\n", {"content-type": "text/plain"})
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        mounted, parts = self._find(method, path, headers)
        route = mounted.route
        if mounted.under_way >= route.at_once:
            raise _Refused(_busy())
        mounted.under_way += 1
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await _body(headers, receive, route.max_body)
            async with asyncio.timeout(route.timeout_s):
                return await route.handle(Request(method, path, headers, body, parts))
        except TimeoutError:
            return problem(
                503, "timeout", "Not answered in time", f"{path} took too long.", "Try again."
            )
        finally:
            mounted.under_way -= 1

    def _find(
        self, method: str, path: str, headers: Mapping[str, str]
    ) -> tuple[_Mounted, dict[str, str]]:
        allowed = []
        for mounted in self._routes:
            if mounted.route.header and mounted.route.header not in headers:
                continue
            found = mounted.route.pattern.fullmatch(path)
            if found and mounted.route.method == method:
                return mounted, found.groupdict(default="")
            if found:
                allowed.append(mounted.route.method)
        if not allowed:
            raise _Refused(
                problem(404, "not_found", "Not found", f"Nothing is at {path}.", "Check the path.")
            )
        words = ", ".join(allowed)
        refused = problem(
            405,
            "method_not_allowed",
            "Method not allowed",
            f"{path} takes {words}.",
            f"Send {words}.",
        )
        raise _Refused(replace(refused, headers={**refused.headers, "allow": words}))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                for part in self._parts:
                    self._start(part)
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                tasks, self._tasks = self._tasks, set()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _start(self, part: Part) -> None:
        task = asyncio.create_task(part.run(), name=part.name)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(part, done))

    def _ended(self, part: Part, task: asyncio.Task[None]) -> None:
        """What serves must go on: a part that failed is said, and begins again."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        log.error("%s failed, and begins again", part.name, exc_info=task.exception())
        asyncio.get_running_loop().call_later(AGAIN_AFTER_S, self._start, part)


async def _body(headers: dict[str, str], receive: Receive, most: int) -> bytes:
    """The whole body. Raises _Refused when it is larger than `most` bytes, or never ends."""
    said = headers.get("content-length", "")
    size, chunks = 0, []
    more = True
    while more:
        # Refused before it is read where its length is said.
        if size > most or (said.isdecimal() and int(said) > most):
            raise _Refused(
                problem(
                    413,
                    "body_too_large",
                    "Body too large",
                    f"This takes at most {most} bytes.",
                    "Send less at once.",
                )
            )
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(Response(400))
        chunk = message.get("body", b"")
        size += len(chunk)
        chunks.append(chunk)
        more = message.get("more_body", False) or size > most
    return b"".join(chunks)


async def _send(response: Response, send: Send) -> None:
    headers = {"content-length": str(len(response.body)), **response.headers}
    encoded = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    await send({"type": "http.response.body", "body": response.body})


def _busy() -> Response:
    return problem(
        503,
        "overloaded",
        "Too many requests at once",
        "As many requests as may be are worked on.",
        "Try again shortly.",
    )
