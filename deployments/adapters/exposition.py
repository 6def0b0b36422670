"""Reading the text that Prometheus exporters give, as much of it as is wanted.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from console.errors import Unavailable

LONGEST = 16 * 1024 * 1024
"""Bytes of a text that is still read; a large Triton has some hundred kilobytes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a name, its labels, a value."""

    name: str
    labels: Mapping[str, str]
    value: float


async def fetch(client: httpx.AsyncClient, address: str, *, what: str) -> str:
    """The text at `address` ("host:port", or with a path; `/metrics` where none is named).

    Raises Unavailable (retryable) when nothing usable answers within the client's time-out.
    """
    host, slash, path = address.partition("/")
    parts: list[bytes] = []
    size = 0
    try:
        async with client.stream("GET", f"http://{host}/{path if slash else 'metrics'}") as reply:
            reply.raise_for_status()
            async for part in reply.aiter_bytes():
                parts.append(part)
                if (size := size + len(part)) > LONGEST:
                    raise _not_given(what, address, f"its answer is longer than {LONGEST} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as fault:
        raise _not_given(what, address, repr(fault)) from fault
    return b"".join(parts).decode("utf-8", errors="replace")


def samples(text: str, names: Collection[str], *, what: str = "the exporter") -> Iterator[Sample]:
    """The samples with one of these names, in the order of the text.

    Other lines are left out before parsing, which is what takes the time; values that are no
    finite number say nothing. Raises Unavailable when a line that is wanted cannot be read.
    """
    wanted = frozenset(names)
    lines = [line for line in text.splitlines() if _name(line) in wanted]
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if math.isfinite(sample.value):
                    yield Sample(sample.name, sample.labels, sample.value)
    except ValueError as fault:
        raise _not_given(what, "", f"a line is no metric: {fault}") from fault


def _name(line: str) -> str:
    brace = line.find("{")
    return line[:brace] if brace > 0 else line.partition(" ")[0]


def _not_given(what: str, address: str, why: str) -> Unavailable:
    at = f" at {address}" if address else ""
    return Unavailable(
        f"No metrics of {what}{at}: {why}.",
        code="metrics_unreachable",
        hint="Check that the exporter runs, and that its address on the node's page is right.",
    )
