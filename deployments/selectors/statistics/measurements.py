"""Reading measured series: which there are, their newest values, their minutes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from deployments.models import MeasuredSeries, SeriesHour, SeriesMinute
from deployments.rules.statistics.measurements import Summary

MOST_SERIES = 500


def series_of(
    *,
    endpoint: int | None = None,
    node: int | None = None,
    names: Collection[str] = (),
    most: int = MOST_SERIES,
) -> list[MeasuredSeries]:
    """The series of an endpoint or a node, those of some names alone where they are named.

    One query. Whoever calls has made sure that the reader may see the endpoint.
    """
    rows = MeasuredSeries.objects.all()
    if endpoint is not None:
        rows = rows.filter(endpoint_id=endpoint)
    if node is not None:
        rows = rows.filter(node_id=node)
    if names:
        rows = rows.filter(name__in=names)
    return list(rows.order_by("name", "device", "version", "label", "pk")[:most])


def newest(series: Collection[int], *, since: datetime) -> dict[int, Summary]:
    """The newest minute of each series that has one since then; one query."""
    rows = (
        SeriesMinute.objects.filter(series_id__in=series, minute__gte=since)
        .order_by("series_id", "-minute")
        .distinct("series_id")
    )
    return {row.series_id: summary_of(row) for row in rows}


def minutes(
    series: Collection[int], *, start: datetime, end: datetime
) -> dict[int, dict[datetime, Summary]]:
    """Series → minute → what was measured; a minute that is missing was not. One query."""
    rows = SeriesMinute.objects.filter(
        series_id__in=series, minute__gte=start, minute__lt=end
    ).order_by("series_id", "minute")
    found: dict[int, dict[datetime, Summary]] = {}
    for row in rows:
        found.setdefault(row.series_id, {})[row.minute] = summary_of(row)
    return found


def hours(
    series: Collection[int], *, start: datetime, end: datetime
) -> dict[int, dict[datetime, Summary]]:
    """Series → hour → what was measured, as far as hours are made; they outlast their minutes."""
    rows = SeriesHour.objects.filter(series_id__in=series, hour__gte=start, hour__lt=end)
    found: dict[int, dict[datetime, Summary]] = {}
    for row in rows.order_by("series_id", "hour"):
        found.setdefault(row.series_id, {})[row.hour] = summary_of(row)
    return found


def summary_of(row: SeriesMinute | SeriesHour) -> Summary:
    """A row as the arithmetic takes it."""
    return Summary(row.count, row.total, row.minimum, row.maximum, row.newest, row.newest_at)
