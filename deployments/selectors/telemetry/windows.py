"""A series of an endpoint's versions over the last minutes, added up."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from deployments.models import SeriesMinute
from deployments.rules.statistics.measurements import Summary, minute_of
from deployments.selectors.statistics.measurements import summary_of


def window_of(
    endpoint: int, name: str, *, label: str, versions: Collection[int], start: datetime
) -> dict[int, Summary]:
    """Version → what was measured since `start`, from the minute that it lies in on; one query.

    Versions of which nothing was measured are missing.
    """
    rows = SeriesMinute.objects.filter(
        series__endpoint_id=endpoint,
        series__node__isnull=True,
        series__name=name,
        series__label=label,
        series__version__in=versions,
        minute__gte=minute_of(start),
    ).select_related("series")
    found: dict[int, Summary] = {}
    for row in rows:
        version, one = row.series.version, summary_of(row)
        found[version] = found[version] + one if version in found else one
    return found
