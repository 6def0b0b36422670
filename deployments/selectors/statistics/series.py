"""Series for charts: the last quarter of an hour second by second, longer spans from roll-ups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils.translation import gettext

from console.errors import NotFound
from deployments.adapters import live_store
from deployments.models import Endpoint, MirrorMinute, SplitCause, TrafficSplit
from deployments.rules.statistics import charts, histograms
from deployments.rules.statistics.charts import Grid
from deployments.rules.statistics.live_window import from_point
from deployments.rules.statistics.rollups import GATEWAY_ITSELF, Counted, Traffic, Work
from deployments.selectors.statistics.rollup_parts import Coarsest
from deployments.selectors.statistics.rollups import counted_points, traffic_of_row
from deployments.selectors.traffic.routing import contracts_that_hold

LIVE_SPAN = timedelta(minutes=15)
LIVE_STEP_S = 5
QUANTILES = {"latency_p50": 0.5, "latency_p95": 0.95, "latency_p99": 0.99, "latency_p999": 0.999}
CHARTS = (
    "requests",
    "errors",
    "latency_p50",
    "latency_p95",
    "latency_p99",
    "latency_p999",
    "queue_compute",
    "batch_size",
)

Steps = dict[int, dict[datetime, Counted]]
"""Version -> step -> what was counted. A step without an entry was not observed."""


def chart(
    endpoint: Endpoint,
    name: str,
    *,
    window: str = "15m",
    now: datetime,
    start: datetime | None = None,
    versions: Collection[int] = (),
) -> dict[str, Any]:
    """One chart of an endpoint's page as JSON, of some versions alone where they are named.

    It spans `window` up to `now`, or from `start` on where that is given.

    Raises NotFound for an unknown chart, Invalid.
    """
    if name not in CHARTS:
        raise NotFound(f"There is no chart {name}.", hint=f"There are: {', '.join(CHARTS)}.")
    start = start or now - charts.parse_span(window)
    grid, steps = steps_between(endpoint, start, now)
    if versions:
        steps = {version: steps.get(version, {}) for version in versions}
    lines = _lines(name, grid, steps)
    return charts.chart(
        lines, limit=_limit(endpoint, name), markers=split_markers(endpoint, grid.start, now)
    )


def statistics(
    endpoint: Endpoint, *, start: datetime, end: datetime, step: int = 0
) -> dict[str, Any]:
    """Series per version for the API: counts by meaning, quantiles, queue, compute, batch size."""
    grid, steps = steps_between(endpoint, start, end, step=step)
    mirrored = _gather(grid, _mirrored_points(endpoint, grid))
    return {
        "from": grid.start.isoformat(),
        "to": grid.end.isoformat(),
        "step": grid.step,
        "times": [time.isoformat() for time in grid.times],
        "series": [_version_series(version, grid, steps[version]) for version in sorted(steps)],
        # Copies of requests that a mirror's version answered for nobody: no live traffic.
        "mirrored": [
            _version_series(version, grid, mirrored[version]) for version in sorted(mirrored)
        ],
    }


def steps_between(
    endpoint: Endpoint, start: datetime, end: datetime, *, step: int = 0
) -> tuple[Grid, Steps]:
    """What was counted in each step: of the last minutes second by second, longer by minutes."""
    now = datetime.now(UTC)
    live = start >= now - LIVE_SPAN - timedelta(seconds=30) and (not step or step < 60)
    if live:
        grid = charts.grid(start, end, step=step or LIVE_STEP_S, finest=1)
        points = _live_points(endpoint)
        if points:
            return grid, _gather(grid, points)
        step = 0
    grid = charts.grid(start, end, step=step, finest=60)
    return grid, _gather(grid, _booked_points(endpoint, grid))


def _live_points(
    endpoint: Endpoint, *, mirrored: bool = False
) -> list[tuple[datetime, int, Counted]]:
    raw, bounds = live_store.ring(str(endpoint))
    points = []
    for one in raw:
        second = from_point(one, bounds)
        moment = datetime.fromtimestamp(second.at, UTC)
        traffic = second.mirrored if mirrored else second.traffic
        work = {} if mirrored else second.work
        for version in {*traffic, *work}:
            counted = Counted(traffic.get(version, Traffic()), work.get(version, Work()))
            points.append((moment, version, counted))
    return points


def _mirrored_points(endpoint: Endpoint, grid: Grid) -> list[tuple[datetime, int, Counted]]:
    """What mirrors answered, with the fineness of the grid."""
    if grid.step < 60:
        return _live_points(endpoint, mirrored=True)
    rows = MirrorMinute.objects.filter(
        endpoint=endpoint, minute__gte=grid.start, minute__lt=grid.end
    )
    return [(row.minute, row.version, Counted(traffic_of_row(row))) for row in rows]


def _booked_points(endpoint: Endpoint, grid: Grid) -> list[tuple[datetime, int, Counted]]:
    coarsest: Coarsest = "hour" if grid.step % 3600 == 0 else "minute"
    return counted_points(endpoint, grid.start, grid.end, coarsest=coarsest)


def _gather(grid: Grid, points: Iterable[tuple[datetime, int, Counted]]) -> Steps:
    """Points summed per step; where the endpoint was observed, a silent version counted zero."""
    steps: Steps = {}
    observed: set[datetime] = set()
    for moment, version, counted in points:
        slot = grid.slot(moment)
        if slot is None:
            continue
        observed.add(slot)
        here = steps.setdefault(version, {})
        here[slot] = here.get(slot, Counted()) + counted
    for here in steps.values():
        for slot in observed - set(here):
            here[slot] = Counted()
    return steps


def _lines(name: str, grid: Grid, steps: Steps) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    busy = {version for version, slots in steps.items() if not _is_silent(slots)}
    # Who said nothing is left out, unless nobody said anything.
    shown = busy or set(steps) - {GATEWAY_ITSELF} or set(steps)
    for version in sorted(shown, key=lambda number: (number == GATEWAY_ITSELF, number)):
        slots = steps[version]
        label = "gateway" if version == GATEWAY_ITSELF else f"v{version}"
        for suffix, measure, unit in _measures(name, grid.step):
            line = charts.series(
                label + suffix, grid, slots, measure, version=version or None, unit=unit
            )
            if suffix == _queue():
                line["dash"] = "dot"
            lines.append(line)
    return lines


def _is_silent(slots: dict[datetime, Counted]) -> bool:
    return not any(one.traffic.requests or one.work.inferences for one in slots.values())


Measure = Callable[[Counted], float | None]


def _measures(name: str, step: int) -> list[tuple[str, Measure, str]]:
    """Suffix of the line's name, how it is measured, and its unit."""
    if name == "requests":
        return [("", lambda one: one.traffic.requests / step, "1/s")]
    if name == "errors":
        return [("", _error_percent, "%")]
    if name in QUANTILES:
        return [("", lambda one: _quantile(one, QUANTILES[name]), "ms")]
    if name == "batch_size":
        return [("", lambda one: one.work.batch_size, "requests")]
    return [
        (" " + gettext("compute"), lambda one: one.work.compute_ms, "ms"),
        (_queue(), lambda one: one.work.queue_ms, "ms"),
    ]


def _queue() -> str:
    return " " + gettext("queue")


def _error_percent(one: Counted) -> float | None:
    """What the version failed; without requests there is no share, which is not a share of 0."""
    requests = one.traffic.version_requests
    return 100 * one.traffic.version_faults / requests if requests else None


def _quantile(one: Counted, q: float) -> float | None:
    return histograms.quantile(one.traffic.latency, q) if one.traffic.latency else None


def _version_series(version: int, grid: Grid, slots: dict[datetime, Counted]) -> dict[str, Any]:
    present = [slots.get(time) for time in grid.times]

    def of(measure: Measure) -> list[float | None]:
        values = [None if one is None else measure(one) for one in present]
        return [None if value is None else round(value, 6) for value in values]

    statuses = sorted({name for one in slots.values() for name in one.traffic.statuses})
    return {
        "version": version,
        "requests": of(lambda one: one.traffic.requests),
        "caller_faults": of(lambda one: one.traffic.caller_faults),
        "provider_faults": of(lambda one: one.traffic.provider_faults),
        "statuses": {
            name: of(lambda one, name=name: one.traffic.statuses.get(name, 0))  # type: ignore[misc]
            for name in statuses
        },
        "p50_ms": of(lambda one: _quantile(one, 0.5)),
        "p95_ms": of(lambda one: _quantile(one, 0.95)),
        "p99_ms": of(lambda one: _quantile(one, 0.99)),
        "p99_9_ms": of(lambda one: _quantile(one, 0.999)),
        "queue_ms": of(lambda one: one.work.queue_ms),
        "compute_ms": of(lambda one: one.work.compute_ms),
        "batch_size": of(lambda one: one.work.batch_size),
    }


def _limit(endpoint: Endpoint, name: str) -> tuple[float, str] | None:
    if name not in ("latency_p99", "errors"):
        return None
    contract = contracts_that_hold([endpoint.model_id]).get(endpoint.model_id)
    if contract is None:
        return None
    if name == "errors":
        promise = contract.availability
        return (100 - promise.target, gettext("contract")) if promise else None
    return (float(contract.latency.threshold_ms), gettext("contract")) if contract.latency else None


def split_markers(endpoint: Endpoint, start: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """When traffic was moved and how, as marks of a chart; one query."""
    """When traffic was moved, and how: marks of a chart; one query."""
    splits = endpoint.splits.filter(created_at__gte=start, created_at__lte=end).order_by("revision")
    return [(one.created_at, _marker(one)) for one in splits[:100]]


def _marker(split: TrafficSplit) -> str:
    shares = " / ".join(
        f"v{number} {points / 100:g} %"
        for number, points in sorted(split.weights.items(), key=lambda item: int(item[0]))
        if points
    )
    if split.cause == SplitCause.ROLLBACK:
        return f"Rollback: {shares}"
    return split.mode if split.cause == SplitCause.MODE else shares
