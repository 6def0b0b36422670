"""Gathering what the root-cause board lines up: from the gateways, from Triton, from machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from statistics import fmean

from deployments.adapters import machine_store
from deployments.models import Endpoint, MeasuredSeries, Node, Placement, PlacementState
from deployments.rules.causes.moves import Point
from deployments.rules.causes.quantities import KINDS, Signal
from deployments.rules.statistics import histograms
from deployments.rules.statistics.charts import Grid
from deployments.rules.statistics.rollups import GATEWAY_ITSELF, Counted
from deployments.selectors.statistics import measurements, series

MINUTE_S = 60.0
MOST_NODES = 20
EARLIER = timedelta(minutes=45)
"""What is measured by the minute needs more than a quarter of an hour to have a level."""
FEWEST_CALLS = 5
"""A share or a percentile of fewer requests in a step says nothing."""
SELDOM = frozenset({"caller_faults", "timeouts", "no_node"})
MEASURED: dict[str, tuple[str, float]] = {
    "conversion_rate": ("conversion_rate", 100.0),
    "feature_drift_score": ("feature_drift_score", 1.0),
    "model_output_entropy": ("model_output_entropy", 1.0),
    "gpu_utilization_percent": ("gpu_utilization", 1.0),
    "gpu_memory_used_bytes": ("gpu_memory", 1 / 2**20),
    "gpu_temperature_celsius": ("gpu_temperature", 1.0),
    "gpu_power_watts": ("gpu_power", 1.0),
    "gpu_sm_clock_mhz": ("gpu_clock", 1.0),
    "gpu_nvlink_utilization_percent": ("gpu_link", 1.0),
    "host_cpu_percent": ("host_cpu", 1.0),
    "host_memory_used_percent": ("host_memory", 1.0),
    "cache_hit_percent": ("cache_hits", 1.0),
}
"""Name of a measured series → the kind of signal, and by what to multiply it."""

MEASURED_KINDS = frozenset(code for code, _factor in MEASURED.values())

Slots = dict[datetime, Counted]
Measure = Callable[[Counted], float | None]


def signals_of(
    endpoint: Endpoint, start: datetime, end: datetime, *, only: str = ""
) -> tuple[Grid, list[Signal]]:
    """Every signal of an endpoint in a stretch of time, and of the nodes that its versions are on.

    `only` leaves out every kind but that one. At most six queries, whatever is there. Whoever
    calls has made sure that the reader may see the endpoint.
    """
    grid, steps = series.steps_between(endpoint, start, end)
    versions = sorted(version for version in steps if version != GATEWAY_ITSELF)
    together: Slots = {}
    for slots in steps.values():
        for at, counted in slots.items():
            together[at] = together.get(at, Counted()) + counted
    found = [
        *_counted(grid, together, 0, _wanted(_of_endpoint(grid.step), only)),
        *(
            signal
            for version in versions
            for signal in _counted(
                grid, steps[version], version, _wanted(_of_version(grid.step), only)
            )
        ),
        *(_measured(endpoint, grid) if not only or only in MEASURED_KINDS else ()),
    ]
    return grid, [
        one
        for one in found
        if one.points and _says_something(one) and (not only or one.kind.code == only)
    ]


def _wanted(measures: dict[str, Measure], only: str) -> dict[str, Measure]:
    return {code: one for code, one in measures.items() if not only or code == only}


def _says_something(one: Signal) -> bool:
    """What seldom happens is no line of zeros on the board when it did not."""
    return one.kind.code not in SELDOM or any(value for _at, value in one.points)


def _counted(
    grid: Grid, slots: Slots, version: int, measures: dict[str, Measure]
) -> Iterator[Signal]:
    # The last step is still being counted.
    times = [at for at in grid.times[:-1] if at in slots]
    for code, measure in measures.items():
        points = [(at, measure(slots[at])) for at in times]
        known: tuple[Point, ...] = tuple((at, v) for at, v in points if v is not None)
        yield Signal(KINDS[code], known, float(grid.step), version)


def _of_endpoint(step: int) -> dict[str, Measure]:
    return {
        "requests": lambda one: one.traffic.requests / step,
        "errors": lambda one: _percent(one, one.traffic.provider_faults),
        "caller_faults": lambda one: _percent(one, one.traffic.caller_faults),
        "timeouts": lambda one: _percent(one, one.traffic.statuses.get("timeout", 0)),
        "no_node": lambda one: _percent(one, one.traffic.statuses.get("no_node", 0)),
        "p99": _p99,
        "queue": lambda one: one.work.queue_ms,
        "compute": lambda one: one.work.compute_ms,
        "batch": lambda one: one.work.batch_size,
    }


def _of_version(step: int) -> dict[str, Measure]:
    return {
        "requests": lambda one: one.traffic.requests / step,
        "errors": _version_errors,
        "p99": _p99,
        "queue": lambda one: one.work.queue_ms,
        "compute": lambda one: one.work.compute_ms,
        "batch": lambda one: one.work.batch_size,
    }


def _version_errors(one: Counted) -> float | None:
    requests = one.traffic.version_requests
    return 100 * one.traffic.version_faults / requests if requests >= FEWEST_CALLS else None


def _percent(one: Counted, part: int) -> float | None:
    requests = one.traffic.requests
    return 100 * part / requests if requests >= FEWEST_CALLS else None


def _p99(one: Counted) -> float | None:
    latency = one.traffic.latency
    if latency is None or latency.total < FEWEST_CALLS:
        return None
    return histograms.quantile(latency, 0.99)


def _measured(endpoint: Endpoint, grid: Grid) -> Iterator[Signal]:
    """What is measured beside the requests: of machines as finely as the requests where it is."""
    nodes = _nodes_of(endpoint)
    own = measurements.series_of(endpoint=endpoint.pk, names=MEASURED)
    # A feature's own score is on the page of telemetry; the board has the greatest.
    rows = [one for one in own if not one.label and one.node_id is None]
    if grid.step < MINUTE_S:
        for node in nodes:
            yield from _machine(node.name, grid)
    else:
        rows += MeasuredSeries.objects.filter(
            node__in=nodes, endpoint=None, name__in=MEASURED, label=""
        ).order_by("name", "node", "device")[: measurements.MOST_SERIES]
    names = {node.pk: node.name for node in nodes}
    start = grid.start if grid.step >= MINUTE_S else grid.start - EARLIER
    minutes = measurements.minutes([row.pk for row in rows], start=start, end=grid.end)
    for row in rows:
        code, factor = MEASURED[row.name]
        points = tuple(
            (at, summary.mean * factor) for at, summary in minutes.get(row.pk, {}).items()
        )
        place = f"{names.get(row.node_id or 0, '')} {row.device}".strip()
        yield Signal(KINDS[code], points, MINUTE_S, row.version, place)


def _machine(node: str, grid: Grid) -> Iterator[Signal]:
    """The last ten minutes of a node and its GPUs, each step the mean of what was read in it."""
    held: dict[tuple[str, str], dict[datetime, list[float]]] = {}
    for point in machine_store.ring(node):
        slot = grid.slot(datetime.fromtimestamp(point["t"], UTC))
        if slot is None:
            continue
        for device, values in (("", point["h"]), *point["g"].items()):
            for name, value in values.items():
                if name in MEASURED:
                    held.setdefault((name, device), {}).setdefault(slot, []).append(value)
    for (name, device), slots in sorted(held.items()):
        code, factor = MEASURED[name]
        points = tuple((at, fmean(values) * factor) for at, values in sorted(slots.items()))
        yield Signal(KINDS[code], points, float(grid.step), 0, f"{node} {device}".strip())


def _nodes_of(endpoint: Endpoint) -> list[Node]:
    placed = Placement.objects.filter(
        deployment__release__environment=endpoint.environment_id,
        deployment__release__version__model=endpoint.model_id,
        state__in=[PlacementState.READY, PlacementState.DRAINING],
    )
    return list(Node.objects.filter(pk__in=placed.values("node")).order_by("name")[:MOST_NODES])
