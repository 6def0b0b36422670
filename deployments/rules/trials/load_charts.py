"""A load test's report as charts: for the console's chart module, and as plain SVG lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from deployments.rules.statistics import charts

CHARTS = ("rate", "latency")
PERCENTILES = (("p50", "p50_ms"), ("p95", "p95_ms"), ("p99", "p99_ms"))


@dataclass(frozen=True, slots=True)
class Line:
    """One SVG polyline; `points` lie within the drawing, a second without a value is a gap."""

    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart as SVG: `top` is the value of the upper edge, `limit_y` where the limit lies."""

    width: int
    height: int
    top: float
    seconds: int
    lines: tuple[Line, ...]
    limit_y: float | None = None


def chart(report: Mapping[str, Any], name: str, words: Mapping[str, str]) -> dict[str, Any]:
    """The chart `rate` or `latency` as the chart module draws it; `words` are the lines' names."""
    start = datetime.fromisoformat(report["started_at"])
    times = [
        (start + timedelta(seconds=one["second"])).isoformat(timespec="seconds")
        for one in report["seconds"]
    ]

    def line(key: str, field: str, **more: Any) -> dict[str, Any]:
        values = [one[field] for one in report["seconds"]]
        return {"name": words.get(key, key), "x": times, "y": values, **more}

    if name == "rate":
        planned = line("planned", "planned", dash="dot")
        return charts.chart([planned, line("answered", "answered", version=report["version"])])
    dashes = {"p50": {"dash": "dot"}, "p95": {}, "p99": {"dash": "dash"}}
    lines = [
        line(key, field, version=report["version"], **dashes[key]) for key, field in PERCENTILES
    ]
    limit = report["limits"]["p95_ms"]
    return charts.chart(lines, limit=(limit, words.get("limit", "limit")))


def drawing(
    report: Mapping[str, Any], name: str, *, width: int = 720, height: int = 180
) -> Drawing:
    """The same chart as lines for an SVG of `width` by `height`."""
    rows = report["seconds"]
    limit = report["limits"]["p95_ms"] if name == "latency" else None
    fields = (("planned", "planned"), ("answered", "answered")) if name == "rate" else PERCENTILES
    values = [[row[field] for row in rows] for _, field in fields]
    known = [value for line in values for value in line if value is not None]
    # A limit far above everything measured would press the lines flat; then it is said in words.
    highest = max(known, default=0.0)
    shown = limit if limit is not None and limit <= 4 * highest else None
    top = max(highest, shown or 0.0, 1e-9) * 1.1
    return Drawing(
        width=width,
        height=height,
        top=top,
        seconds=len(rows),
        lines=tuple(
            Line(key, _parts(line, top, width, height))
            for (key, _), line in zip(fields, values, strict=True)
        ),
        limit_y=None if shown is None else round(height * (1 - shown / top), 1),
    )


def _parts(values: Sequence[float | None], top: float, width: int, height: int) -> tuple[str, ...]:
    step = width / max(len(values) - 1, 1)
    parts: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            parts.append([])
            continue
        parts[-1].append(f"{index * step:.1f},{height * (1 - value / top):.1f}")
    return tuple(" ".join(part) for part in parts if part)
