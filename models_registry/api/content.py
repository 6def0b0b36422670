"""Bodies that are not JSON: files and signed bytes going out, documents coming in."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import IO, Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from console.errors import Invalid
from models_registry.selectors.versions import FileRow
from models_registry.services import artifacts

CHUNK_BYTES = 256 * 1024
MAX_DOCUMENT_BYTES = 1024**2


class AnyAccept(BaseContentNegotiation):
    """What is answered has one form, whatever the caller says that it accepts."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = renderers[0]
        return renderer, renderer.media_type


class DocumentParser(BaseParser):
    """A JSON or YAML document as the bytes that were sent; at most 1 MiB."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        if (media_type or "").startswith(("multipart/", "application/x-www-form-urlencoded")):
            # The framework takes the data of a form for a dictionary.
            raise UnsupportedMediaType(media_type)
        body: bytes = stream.read(MAX_DOCUMENT_BYTES + 1)
        if len(body) > MAX_DOCUMENT_BYTES:
            raise Invalid("The document is larger than 1 MiB.", code="document_too_large")
        return body


def exact_bytes(data: bytes, *, content_type: str, sha256: str, filename: str) -> HttpResponse:
    """Bytes to keep or to sign, as a download, with their digest (RFC 9530) and an ETag."""
    response = HttpResponse(data, content_type=content_type)
    _describe(response, sha256, filename)
    return response


def download(request: Request, row: FileRow) -> HttpResponseBase:
    """A stored file as a download, never shown inline; read in chunks whatever its size."""
    file = artifacts.open_artifact(row.artifact)
    asynchronous = isinstance(request._request, ASGIRequest)
    response = StreamingHttpResponse(
        _chunks_async(file) if asynchronous else _chunks(file),
        content_type="application/octet-stream",
    )
    response["Content-Length"] = str(row.artifact.size)
    _describe(response, row.artifact.sha256, row.filename)
    return response


def _describe(response: HttpResponseBase, sha256: str, filename: str) -> None:
    encoded = base64.b64encode(bytes.fromhex(sha256)).decode()
    response["Content-Disposition"] = content_disposition_header(True, filename) or "attachment"
    response["ETag"] = f'"{sha256}"'
    response["Repr-Digest"] = f"sha-256=:{encoded}:"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


async def _chunks_async(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
