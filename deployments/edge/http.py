"""Requests and answers of the edge, and the routes that lead from one to the other."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

LARGEST_BODY = 64 * 1024 * 1024
"""Bytes; the gateway's own limit, so that whatever it let through is read here."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body read whole; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    parts: Mapping[str, str] = field(default_factory=dict)
    """What the named groups of the route's pattern matched."""


@dataclass(frozen=True, slots=True)
class Response:
    """One answer, whole."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a pattern of whole paths, and who answers; the first that fits is taken.

    `header`: only requests that carry this one (in lower case) are meant.

    `at_once` requests are worked on at one time and the next is refused with 503: one kind of
    work must not take the process away from the others.
    """

    method: str
    pattern: re.Pattern[str]
    handle: Handler
    timeout_s: float = 5.0
    max_body: int = LARGEST_BODY
    at_once: int = 256
    header: str = ""


class Part(Protocol):
    """One concern of the edge: its routes, and what it does in the background."""

    @property
    def name(self) -> str: ...

    @property
    def routes(self) -> Sequence[Route]: ...

    async def run(self) -> None:
        """Work until cancelled; run again after a second should it ever fail."""


def json_response(value: object, status: int = 200, **headers: str) -> Response:
    """A JSON answer; underscores in the names of headers become dashes."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Response(status, body, {"content-type": "application/json", **named})


def problem(status: int, code: str, title: str, detail: str, hint: str) -> Response:
    """An RFC 9457 answer, in the form of the gateway's own."""
    value = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
        "error": detail,
    }
    return json_response(value, status, content_type="application/problem+json")
