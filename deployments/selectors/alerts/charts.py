"""The signal of an alert over the time around it, with its limit.

What should be near 100 % is drawn as what lacks of it: on an axis that begins at zero, 99.9 and
98 % cannot be told apart, and 0.1 and 2 % can.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext

from deployments.models import Alert, MeasuredSeries
from deployments.rules.alerts.catalogue import SIGNALS, Signal, Source, signal_of
from deployments.rules.alerts.traffic_memory import Counts
from deployments.rules.alerts.traffic_signals import readings_of_endpoint
from deployments.rules.statistics import charts
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.statistics.measurements import minutes
from deployments.selectors.statistics.rollups import rows_between, traffic_of_row

BEFORE = timedelta(minutes=45)
AFTER = timedelta(minutes=15)
LONGEST = timedelta(hours=24)
DRAWN_AS = {"success_rate_percent": "error_rate_percent"}


def drawn_signal(alert: Alert) -> str:
    """The signal that the chart of an alert draws."""
    return DRAWN_AS.get(alert.signal, alert.signal)


def has_chart(alert: Alert) -> bool:
    """Whether the alert's signal leaves minutes behind that can be drawn."""
    signal = signal_of(alert.signal)
    if signal is None or alert.signal in ("no_data_seconds", "requests_of_usual_percent"):
        return False
    if signal.source is Source.SERIES:
        return True
    return signal.source is Source.TRAFFIC and alert.endpoint_id is not None


def alert_chart(alert: Alert, *, now: datetime, title: str = "") -> dict[str, Any]:
    """The chart's document: a value for each minute, gaps where none was measured (two queries).

    `title` names the line in the reader's words; without one it bears the signal's name.
    """
    end = min(alert.resolved_at + AFTER, now) if alert.resolved_at else now
    start = max(alert.started_at - BEFORE, end - LONGEST)
    grid = charts.grid(start, end, finest=60)
    signal = signal_of(drawn_signal(alert))
    if signal is None or not has_chart(alert):
        points: list[tuple[datetime, float]] = []
    elif signal.source is Source.SERIES:
        points = _of_series(alert, grid.start, grid.end)
    else:
        points = _of_traffic(alert, signal, grid.start, grid.end)
    slots = {at: sum(some) / len(some) for at, some in charts.bucket(grid, points).items()}
    line = charts.series(
        title or drawn_signal(alert),
        grid,
        slots,
        lambda value: value,
        version=alert.version or None,
        unit=alert.unit,
    )
    limit = None
    if alert.threshold is not None:
        inverse = alert.signal in DRAWN_AS
        value = round(100 - alert.threshold, 6) if inverse else alert.threshold
        limit = (value, gettext("limit"))
    markers = [
        (at, words)
        for at, words in (
            (alert.fired_at, gettext("fired")),
            (alert.resolved_at, gettext("over")),
        )
        if at is not None and grid.start <= at <= grid.end
    ]
    return charts.chart([line], limit=limit, markers=markers)


def _of_series(alert: Alert, start: datetime, end: datetime) -> list[tuple[datetime, float]]:
    row = MeasuredSeries.objects.filter(
        name=alert.signal,
        endpoint=alert.endpoint_id,
        node=alert.node_id,
        device=alert.device,
        version=alert.version,
        label=alert.label,
    ).first()
    if row is None:
        return []
    found = minutes([row.pk], start=start, end=end).get(row.pk, {})
    return [(at, one.mean) for at, one in found.items()]


def _of_traffic(
    alert: Alert, signal: Signal, start: datetime, end: datetime
) -> list[tuple[datetime, float]]:
    """The signal of each minute by itself: sharper than the window that the rule looks at."""
    if alert.endpoint is None:
        return []
    by_minute: dict[datetime, Traffic] = {}
    for row in rows_between(alert.endpoint, start, end):
        if alert.version and row.version != alert.version:
            continue
        by_minute[row.minute] = by_minute.get(row.minute, Traffic()) + traffic_of_row(row)
    points = []
    for at, traffic in by_minute.items():
        latency = traffic.latency
        counts = Counts(
            traffic.requests,
            traffic.caller_faults,
            traffic.provider_faults,
            traffic.rescued if alert.version else 0,
            dict(enumerate(latency.counts)) if latency else {},
        )
        found = readings_of_endpoint(
            SIGNALS[signal.key],
            {alert.version or 1: counts},
            each="version" if alert.version else "endpoint",
            seconds=60,
            min_requests=1,
            bounds=latency.bounds if latency else (),
        )
        points += [(at, one.value) for one in found.values()]
    return points
