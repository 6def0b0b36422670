"""Slow requests of an endpoint, out of the access logs of its gateways."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings

from console.errors import FieldError, Invalid
from console.rules.audit_lines import plain_cell
from deployments.adapters import access_log
from deployments.models import Endpoint, Gateway, GatewayProduct, MinuteRollup
from deployments.rules.diagnosis.slow_requests import (
    STAGES,
    LoggedRequest,
    ModelTime,
    SlowReport,
    parse,
    report,
)

LONGEST_SPAN = timedelta(days=7)
SPANS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
}
MOST_ROWS = 5_000
"""Rows of a CSV file, the slowest first."""


@dataclass(frozen=True, slots=True)
class SlowFilter:
    """Which requests; an empty value filters nothing. `version` 0: those that none answered."""

    start: datetime
    end: datetime
    version: int | None = None
    status: int | None = None
    request_id: str = ""
    caller: str = ""


@dataclass(frozen=True, slots=True)
class LogSeen:
    """One gateway's log: how much was read; `missing` where this machine does not see it."""

    gateway: str
    path: str
    lines: int
    truncated: bool
    missing: bool


@dataclass(frozen=True, slots=True)
class SlowPage:
    """The report with where it is from."""

    endpoint: Endpoint
    wanted: SlowFilter
    report: SlowReport
    logs: tuple[LogSeen, ...]

    @property
    def readable(self) -> bool:
        """Whether any log could be read."""
        return any(not one.missing for one in self.logs)


def slow_requests(endpoint: Endpoint, wanted: SlowFilter, *, most: int = 100) -> SlowPage:
    """The percentiles of a span explained by stage, with the worst requests.

    Two queries; of each log at most `access_log.MOST_BYTES` and `MOST_LINES` are read, and what was
    left out is said. Raises Invalid `invalid_span`.
    """
    if not timedelta(0) < wanted.end - wanted.start <= LONGEST_SPAN:
        raise Invalid(
            "Such a span cannot be looked through.",
            code="invalid_span",
            hint=f"It ends after it begins, and is at most {LONGEST_SPAN.days} days long.",
            errors=(FieldError("/from", "Choose a shorter span."),),
        )
    found: list[LoggedRequest] = []
    logs = []
    for gateway in _gateways(endpoint):
        path = log_of(gateway)
        reading = access_log.Reading(missing=path is None)
        if path is not None:
            found += _matching(endpoint, wanted, path, reading)
        logs.append(
            LogSeen(
                gateway.name,
                str(path or ""),
                reading.lines,
                reading.truncated,
                reading.missing,
            )
        )
    times = _model_times(endpoint, wanted) if found else {}
    return SlowPage(endpoint, wanted, report(found, times, most=most), tuple(logs))


def log_of(gateway: Gateway) -> Path | None:
    """A gateway's access log as this machine sees it; None where nobody said where it is.

    The embedded one writes to its own output, which the stack keeps as a file; for others the
    option `access_log` names it.
    """
    if named := gateway.options.get("access_log"):
        return Path(named)
    config = settings.CONFIG
    own = gateway.adapter == GatewayProduct.ENVOY and gateway.name == "embedded"
    return config.home / "log" / "envoy.log" if own and config.embedded_gateway else None


def slow_csv(page: SlowPage) -> str:
    """The worst requests as CSV: a row each, times in milliseconds, no cell a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        [
            "time",
            "x_request_id",
            "model_version",
            "status",
            "total_ms",
            *(f"{name}_ms" for name in STAGES),
            "main_stage",
            "attempts",
            "caller",
            "upstream",
            "bytes_received",
            "bytes_sent",
        ]
    )
    for slow in page.report.worst[:MOST_ROWS]:
        one = slow.request
        writer.writerow(
            [
                one.at.isoformat(),
                plain_cell(one.request_id),
                one.version or "",
                one.status,
                f"{one.total_ms:.3f}",
                *(f"{slow.stages[name]:.3f}" if name in slow.stages else "" for name in STAGES),
                slow.main,
                one.attempts,
                plain_cell(one.caller),
                plain_cell(one.upstream),
                one.bytes_received,
                one.bytes_sent,
            ]
        )
    return out.getvalue()


def _gateways(endpoint: Endpoint) -> list[Gateway]:
    listening = Gateway.objects.filter(listeners__environment=endpoint.environment)
    return list(listening.order_by("name").distinct()[:50])


def _matching(
    endpoint: Endpoint, wanted: SlowFilter, path: Path, reading: access_log.Reading
) -> Iterator[LoggedRequest]:
    environment, model = endpoint.environment.name, endpoint.model.name
    needle = wanted.request_id or f'"{model}"'
    lines = access_log.between(path, wanted.start, wanted.end, reading, containing=needle)
    for request in _requests(lines):
        if (request.environment, request.model) != (environment, model):
            continue
        if wanted.version is not None and request.version != wanted.version:
            continue
        if wanted.status is not None and request.status != wanted.status:
            continue
        if wanted.request_id and request.request_id != wanted.request_id:
            continue
        if wanted.caller and request.caller != wanted.caller:
            continue
        yield request


def _requests(lines: Iterable[dict[str, object]]) -> Iterator[LoggedRequest]:
    for line in lines:
        if (request := parse(line)) is not None:
            yield request


def _model_times(endpoint: Endpoint, wanted: SlowFilter) -> dict[tuple[int, datetime], ModelTime]:
    """Triton's means of each minute, for a request: what it counts is of rows."""
    rows = MinuteRollup.objects.filter(
        endpoint=endpoint,
        minute__gte=wanted.start.replace(second=0, microsecond=0),
        minute__lte=wanted.end,
        inference_count__gt=0,
        requests__gt=0,
    ).values_list("version", "minute", "requests", "queue_ns", "compute_ns")
    return {
        (version, minute): ModelTime(queue / requests / 1e6, compute / requests / 1e6)
        for version, minute, requests, queue, compute in rows
    }
