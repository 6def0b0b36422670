"""Reading and writing a plan's metrics."""

from __future__ import annotations

from typing import Any

from console.errors import FieldError, Invalid
from console.rules.outgoing import WEBHOOK_SCHEMES, parse_target
from deployments.rules.rollouts.conditions import Condition
from deployments.rules.rollouts.reading import Fields, Place, duration_word
from deployments.rules.rollouts.types import (
    BY_COMPARISON,
    BY_GATEWAYS,
    LONGEST_WINDOW_S,
    Aggregate,
    Metric,
    MetricKind,
    Query,
    SeriesQuery,
)

MOST_METRICS = 30
SHORTEST_INTERVAL_S = 1.0
LONGEST_INTERVAL_S = 86400.0
_KNOWN = (
    "name", "metric", "prometheus", "telemetry", "success_condition", "failure_condition",
    "interval", "count", "initial_delay", "window", "failure_limit", "inconclusive_limit",
    "consecutive_error_limit", "min_requests", "dry_run",
)  # fmt: skip
_BY_QUERY = (MetricKind.PROMETHEUS, MetricKind.TELEMETRY)
_BUILT_IN = tuple(kind.value for kind in MetricKind if kind not in _BY_QUERY)
_AGGREGATES = tuple(one.value for one in Aggregate)


def read_metrics(
    items: list[tuple[Place, object]], faults: list[FieldError], *, inline: bool, shared: Fields
) -> tuple[Metric, ...]:
    """The metrics of an analysis; `shared` holds its interval and initial delay for all of them.

    `inline`: of a step, which must come to an end: there an interval takes a count.
    """
    interval = shared.seconds("interval", 0.0, SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S) or None
    delay = shared.seconds("initial_delay", 0.0, 0.0, LONGEST_INTERVAL_S)
    return tuple(
        _metric(Fields(one, place, faults, _KNOWN), faults, inline, interval, delay)
        for place, one in items
    )


def _metric(
    fields: Fields, faults: list[FieldError], inline: bool, shared: float | None, delay: float
) -> Metric:
    kind, query, series = _source(fields, faults)
    interval: float | None = fields.seconds(
        "interval", shared or 0.0, SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S
    )
    count: int | None = fields.whole("count", 0, 1, 10_000) or None
    if inline:
        count = count or 1
        if fields.has("interval") and not fields.has("count"):
            fields.fault("is needed beside an interval: a step's analysis has an end", "count")
        if count > 1 and not interval:
            fields.fault("is needed for a count above 1", "interval")
    elif not interval and count != 1:
        interval = 60.0
    usual_window = min(interval or 60.0, LONGEST_WINDOW_S)
    metric = Metric(
        name=fields.text("name", series.name if series else kind.value, longest=80),
        kind=kind,
        query=query,
        series=series,
        success=_condition(fields, "success_condition"),
        failure=_condition(fields, "failure_condition"),
        interval_s=interval or None,
        count=count,
        initial_delay_s=fields.seconds("initial_delay", delay, 0.0, LONGEST_INTERVAL_S),
        window_s=fields.seconds("window", usual_window, 1.0, LONGEST_WINDOW_S),
        failure_limit=fields.whole("failure_limit", 0, 0, 1000),
        inconclusive_limit=fields.whole("inconclusive_limit", 0, 0, 1000),
        consecutive_error_limit=fields.whole("consecutive_error_limit", 4, 0, 1000),
        min_requests=_min_requests(fields, kind),
        dry_run=fields.flag("dry_run", False),
    )
    if not fields.has("success_condition") and not fields.has("failure_condition"):
        fields.fault("is missing: say what success is, or what failure is", "success_condition")
    return metric


def _source(
    fields: Fields, faults: list[FieldError]
) -> tuple[MetricKind, Query | None, SeriesQuery | None]:
    given = [name for name in ("prometheus", "telemetry", "metric") if fields.has(name)]
    if len(given) > 1:
        fields.fault(f"is given beside {given[0]}", given[-1])
    if fields.has("prometheus"):
        if not fields.has("name"):
            fields.fault("is missing: a query needs a name", "name")
        return MetricKind.PROMETHEUS, _query(fields, faults), None
    if fields.has("telemetry"):
        return MetricKind.TELEMETRY, None, _series(fields, faults)
    named = fields.text("metric", fields.text("name", ""))
    if named in _BUILT_IN:
        return MetricKind(named), None, None
    fields.fault(
        f"is no built-in metric: {', '.join(_BUILT_IN)}",
        "metric" if fields.has("metric") else "name",
    )
    return MetricKind.ERROR_RATE, None, None


def _series(fields: Fields, faults: list[FieldError]) -> SeriesQuery:
    inner = Fields(
        fields.raw("telemetry"),
        (*fields.place, "telemetry"),
        faults,
        ("name", "label", "aggregate"),
    )
    if not inner.has("name"):
        inner.fault("is missing: name a series, as feature_drift_score", "name")
    aggregate = inner.text("aggregate", Aggregate.MEAN.value)
    if aggregate not in _AGGREGATES:
        inner.fault(f"is none of {', '.join(_AGGREGATES)}", "aggregate")
        aggregate = Aggregate.MEAN.value
    return SeriesQuery(
        inner.text("name", longest=80), inner.text("label", longest=120), Aggregate(aggregate)
    )


def _query(fields: Fields, faults: list[FieldError]) -> Query:
    inner = Fields(
        fields.raw("prometheus"), (*fields.place, "prometheus"), faults, ("address", "query")
    )
    for name in ("address", "query"):
        if not inner.has(name):
            inner.fault("is missing", name)
    address = inner.text("address", longest=500)
    if address:
        try:
            parse_target(address, WEBHOOK_SCHEMES)
        except Invalid as error:
            inner.fault(f"is not accepted: {error.hint}", "address")
    return Query(address.rstrip("/"), inner.text("query", longest=5000))


def _condition(fields: Fields, name: str) -> Condition | None:
    if not fields.has(name):
        return None
    try:
        return Condition.parse(str(fields.raw(name)))
    except ValueError as error:
        fields.fault(f"cannot be read. {error}", name)
        return None


def _min_requests(fields: Fields, kind: MetricKind) -> int:
    if kind is MetricKind.PROMETHEUS:
        if fields.has("min_requests"):
            fields.fault("is not for a query, which counts no requests", "min_requests")
        return 0
    if kind is MetricKind.TELEMETRY:
        return fields.whole("min_requests", 1, 1, 1_000_000_000)
    usual = 100 if kind in BY_GATEWAYS else 20 if kind in BY_COMPARISON else 100
    return fields.whole("min_requests", usual, 1, 1_000_000_000)


def metric_json(metric: Metric) -> dict[str, Any]:
    """The metric's document, complete but for what it has not."""
    found: dict[str, Any] = {"name": metric.name}
    if metric.query is not None:
        found["prometheus"] = {"address": metric.query.address, "query": metric.query.text}
    else:
        if metric.series is not None:
            label = {"label": metric.series.label} if metric.series.label else {}
            aggregate = metric.series.aggregate.value
            found["telemetry"] = {"name": metric.series.name, **label, "aggregate": aggregate}
        else:
            found["metric"] = metric.kind.value
        found["min_requests"] = metric.min_requests
    if metric.success is not None:
        found["success_condition"] = str(metric.success)
    if metric.failure is not None:
        found["failure_condition"] = str(metric.failure)
    if metric.interval_s is not None:
        found["interval"] = duration_word(metric.interval_s)
    if metric.count is not None:
        found["count"] = metric.count
    return found | {
        "initial_delay": duration_word(metric.initial_delay_s),
        "window": duration_word(metric.window_s),
        "failure_limit": metric.failure_limit,
        "inconclusive_limit": metric.inconclusive_limit,
        "consecutive_error_limit": metric.consecutive_error_limit,
        "dry_run": metric.dry_run,
    }
