"""Asking a version again what a caller asked, behind the caller's back and at nobody's cost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import httpx

from deployments.edge.http import Request
from deployments.rules.experiments.comparisons import Answered, FaultKind
from deployments.rules.experiments.v2_answers import UnreadableAnswer, parse_answer

LENGTH_HEADER = "inference-header-content-length"

_turns = itertools.count()


async def ask(
    client: httpx.AsyncClient, urls: Sequence[str], request: Request, timeout_s: float
) -> Answered:
    """What one version says to the request, as its caller sent it."""
    headers = {
        name: request.headers[name]
        for name in ("content-type", LENGTH_HEADER)
        if name in request.headers
    }
    try:
        async with asyncio.timeout(timeout_s):
            reply = await client.post(
                urls[next(_turns) % len(urls)], content=request.body, headers=headers, timeout=None
            )
    except TimeoutError:
        return Answered(fault=FaultKind.LATE)
    except httpx.HTTPError:
        return Answered(fault=FaultKind.ERROR)
    return _answered(reply.status_code, reply.headers, reply.content)


def _answered(status: int, headers: Mapping[str, str], body: bytes) -> Answered:
    if status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return Answered(fault=FaultKind.ERROR)
    if status != httpx.codes.OK:
        return Answered(refused=True)
    try:
        said = headers.get(LENGTH_HEADER)
        return Answered(parse_answer(body, int(said) if said else None))
    except (UnreadableAnswer, ValueError):
        return Answered(fault=FaultKind.ERROR)
