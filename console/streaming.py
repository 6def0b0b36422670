"""Request bodies that are read as they arrive, for uploads.

Django's ASGI handler spools a whole body to a temporary file before any view runs: an upload would
need the disk twice, and all of it would be lost with the process. Requests of one content type,
tus's, are handed to their view at once instead; what the view has read is already kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from django.core.handlers.asgi import ASGIHandler

STREAMED_CONTENT_TYPE = b"application/offset+octet-stream"
STALL_SECONDS = 30.0

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class StreamedBody:
    """A body as a readable stream for the view's own thread; the event loop stays free.

    Also the `receive` callable of its request, by which the handler knows it again.
    """

    def __init__(self, receive: Receive, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._stall_seconds = stall_seconds
        self._rest = b""
        self._ended = False

    async def __call__(self) -> Message:
        return await self._receive()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes as soon as there are any; b"" at the end; all of it when -1.

        Raises ConnectionError when the client is gone or has sent nothing for `stall_seconds`.
        """
        if size < 0:
            parts = []
            while part := self.read(65536):
                parts.append(part)
            return b"".join(parts)
        while not self._rest and not self._ended:
            self._rest = self._next()
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    def close(self) -> None:
        """Nothing is held."""

    def _next(self) -> bytes:
        arriving = asyncio.run_coroutine_threadsafe(self(), self._loop)
        try:
            message = arriving.result(self._stall_seconds)
        except FutureTimeout:
            arriving.cancel()
            self._ended = True
            raise ConnectionError(
                f"nothing arrived for {self._stall_seconds:.0f} seconds"
            ) from None
        if message["type"] == "http.disconnect":
            self._ended = True
            raise ConnectionError("the client went away")
        self._ended = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body


class StreamingASGIHandler(ASGIHandler):
    """Django's handler, but for bodies that are streamed to their view."""

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        content_type = next((v for k, v in scope["headers"] if k == b"content-type"), b"")
        if content_type.split(b";")[0].strip().lower() == STREAMED_CONTENT_TYPE:
            receive = StreamedBody(receive)
        await super().handle(scope, receive, send)

    async def read_body(self, receive: Any) -> Any:
        if isinstance(receive, StreamedBody):
            return receive
        return await super().read_body(receive)

    async def listen_for_disconnect(self, receive: Any) -> None:
        if isinstance(receive, StreamedBody):
            # The view reads the messages and learns of a disconnect itself. Django cancels this
            # when the view is done.
            await asyncio.Event().wait()
        await super().listen_for_disconnect(receive)
