"""Charts of a node's machine: ten minutes look by look, longer spans from the minutes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any

from django.utils.translation import gettext

from console.errors import NotFound
from console.models import User
from deployments.adapters import machine_store
from deployments.models import Endpoint, MeasuredSeries, Node
from deployments.rules.fleet.catalogue import SERIES
from deployments.rules.fleet.machine_charts import BY_NAME, MachineChart, Of
from deployments.rules.statistics import charts
from deployments.rules.statistics.charts import Grid
from deployments.selectors.fleet.machine_pages import Served
from deployments.selectors.statistics.measurements import minutes, series_of

LIVE_SPAN = timedelta(minutes=10)
LIVE_STEP_S = 5
_INDEX = re.compile(r"\d+")

Key = tuple[str, int, str]
"""A line: the thing's name, its number for the colour, the word of the series."""
Points = dict[Key, list[tuple[datetime, float]]]


def machine_chart(
    node: Node, name: str, *, window: str, now: datetime, user: User, served: Served
) -> dict[str, Any]:
    """One chart of a node as the page draws it, with lines for what the reader may see.

    Raises NotFound for an unknown chart, Invalid for a window that is none. Three queries, none
    for the last ten minutes.
    """
    chart = BY_NAME.get(name)
    if chart is None:
        raise NotFound(f"There is no chart {name}.", hint=f"There are: {', '.join(BY_NAME)}.")
    span = charts.parse_span(window)
    if span <= LIVE_SPAN:
        grid = charts.grid(now - span, now, step=LIVE_STEP_S, finest=1)
        points = _live_points(node.name, chart, served)
    else:
        grid = charts.grid(now - span, now, finest=60)
        points = _booked_points(node, chart, grid, user)
    first = SERIES[chart.lines[0][0]]
    limit = first.bad if first.bad is not None else first.warn
    return charts.chart(
        [_line(grid, key, found, chart) for key, found in sorted(points.items())],
        limit=None if limit is None else (limit / chart.divisor, gettext("limit")),
    )


def _line(
    grid: Grid, key: Key, points: list[tuple[datetime, float]], chart: MachineChart
) -> dict[str, Any]:
    thing, number, word = key
    words = [one for one in (thing, gettext(word) if word else "") if one] or [gettext(chart.title)]
    line = charts.series(
        ", ".join(words),
        grid,
        charts.bucket(grid, points),
        lambda values: fmean(values) / chart.divisor,
        version=number,
    )
    # A thing has one colour; what is told of it second is dashed.
    return line | ({"dash": "dash"} if word != chart.lines[0][1] else {})


def _live_points(name: str, chart: MachineChart, served: Served) -> Points:
    found: Points = {}
    take = _TAKEN[chart.of]
    for point in machine_store.ring(name):
        at = datetime.fromtimestamp(point["t"], UTC)
        for thing, number, values in take(point, served):
            for series, word in chart.lines:
                if (value := values.get(series)) is not None:
                    found.setdefault((thing, number, word), []).append((at, value))
    return found


Things = list[tuple[str, int, Mapping[str, float]]]


def _colour_of(device: str) -> int:
    """A GPU keeps its colour whatever others there are: GPU-0 has the first."""
    index = _INDEX.search(device)
    return int(index[0]) + 1 if index else 0


def _gpus(point: Mapping[str, Any], _served: Served) -> Things:
    return [(device, _colour_of(device), values) for device, values in point["g"].items()]


def _host(point: Mapping[str, Any], _served: Served) -> Things:
    return [("", 0, point["h"])]


def _versions(point: Mapping[str, Any], served: Served) -> Things:
    things: Things = []
    for slot, values in point["v"].items():
        model, _slash, number = slot.rpartition("/")
        if (model, int(number)) in served:
            things.append((f"{model} v{number}", int(number), values))
    return things


_TAKEN: dict[Of, Callable[[Mapping[str, Any], Served], Things]] = {
    Of.GPU: _gpus,
    Of.HOST: _host,
    Of.VERSION: _versions,
}


def _booked_points(node: Node, chart: MachineChart, grid: Grid, user: User) -> Points:
    words = dict(chart.lines)
    rows = series_of(node=node.pk, names=list(words))
    seen: dict[int, str] = {}
    if chart.of is Of.VERSION:
        endpoints = Endpoint.objects.visible_to(user).select_related("environment", "model")
        of_rows = [row.endpoint_id for row in rows if row.endpoint_id is not None]
        seen = {one.pk: str(one) for one in endpoints.filter(pk__in=of_rows)}
        rows = [row for row in rows if row.endpoint_id in seen]
    booked = minutes([row.pk for row in rows], start=grid.start, end=grid.end)
    found: Points = {}
    for row in rows:
        key = (*_named(row, seen), words[row.name])
        values = [(at, one.mean) for at, one in booked.get(row.pk, {}).items()]
        if values:
            found.setdefault(key, []).extend(values)
    return found


def _named(row: MeasuredSeries, seen: Mapping[int, str]) -> tuple[str, int]:
    if row.endpoint_id is not None:
        return f"{seen[row.endpoint_id]} v{row.version}", row.version
    return row.device, _colour_of(row.device)
