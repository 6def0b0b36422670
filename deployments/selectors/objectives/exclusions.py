"""Time that promises do not count: agreed maintenance, and agreed exclusions after the fact."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import QuerySet

from deployments.models import AgreementState, Exclusion, MaintenanceWindow
from deployments.rules.objectives.spans import Span, clip, union


def excluded_spans(
    endpoint_ids: Collection[int], start: datetime, end: datetime
) -> dict[int, list[Span]]:
    """What all three seats of each endpoint left out of [start, end), in one query.

    Cut to that stretch, in order, without overlaps; endpoints with nothing left out are missing.
    """
    rows = _agreed(MaintenanceWindow.objects.all(), endpoint_ids, start, end).union(
        _agreed(Exclusion.objects.all(), endpoint_ids, start, end), all=True
    )
    found: dict[int, list[Span]] = {}
    for endpoint_id, starts_at, ends_at in rows:
        if (part := clip(Span(starts_at, ends_at), Span(start, end))) is not None:
            found.setdefault(endpoint_id, []).append(part)
    return {endpoint_id: union(spans) for endpoint_id, spans in found.items()}


def under_maintenance(endpoint_ids: Collection[int], now: datetime) -> set[int]:
    """Which of the endpoints are in an agreed maintenance window now, in one query."""
    found = MaintenanceWindow.objects.filter(
        endpoint_id__in=endpoint_ids,
        state=AgreementState.AGREED,
        starts_at__lte=now,
        ends_at__gt=now,
    )
    return set(found.order_by().values_list("endpoint_id", flat=True).distinct())


def _agreed(
    rows: QuerySet[MaintenanceWindow] | QuerySet[Exclusion],
    endpoint_ids: Collection[int],
    start: datetime,
    end: datetime,
) -> QuerySet[MaintenanceWindow, tuple[int, datetime, datetime]]:
    found = rows.filter(
        endpoint_id__in=endpoint_ids,
        state=AgreementState.AGREED,
        starts_at__lt=end,
        ends_at__gt=start,
    )
    return found.order_by().values_list("endpoint_id", "starts_at", "ends_at")  # type: ignore[return-value]
