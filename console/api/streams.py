"""Files that are written while they are sent: nobody holds the whole of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header


def streamed_file(
    request: HttpRequest, chunks: Iterator[bytes], *, name: str, content_type: str
) -> StreamingHttpResponse:
    """The chunks as a download, each asked for when the one before it was sent."""
    asynchronous = isinstance(request, ASGIRequest)
    response = StreamingHttpResponse(
        _in_threads(chunks) if asynchronous else chunks, content_type=content_type
    )
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    # A proxy that gathers an answer first would make it a file of its own.
    response["X-Accel-Buffering"] = "no"
    return response


async def _in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each chunk is made in a thread, whose connection goes back to the pool before the next."""

    def make() -> bytes | None:
        try:
            return next(chunks, None)
        finally:
            close_old_connections()

    make_next = sync_to_async(make, thread_sensitive=False)
    while (chunk := await make_next()) is not None:
        yield chunk
