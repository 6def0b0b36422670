"""GPUs whose memory only grows, with what is loaded there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.urls import reverse

from console.models import User
from deployments.models import MeasuredSeries, Placement, PlacementState, SeriesMinute
from deployments.rules.fleet.memory_growth import Growth, growth
from deployments.selectors.statistics.measurements import newest

LOOKED_BACK = timedelta(hours=6)
STEP_MIN = 3
"""Every third minute is looked at: a leak of hours needs no more, and many GPUs are many rows."""
FRESH = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Leak:
    """A GPU whose memory only grows; bytes. `full_at` is when it is used up if that goes on.

    `versions` are those loaded on its node ("fraud_detector v7") that the reader may see.
    """

    node_id: int
    node: str
    url: str
    device: str
    series: int
    growth: Growth
    used: float
    free: float | None
    full_at: datetime | None
    versions: tuple[str, ...] = ()


def leaks(now: datetime, *, user: User | None = None) -> list[Leak]:
    """The leaks of the last six hours, the one that is full first in front; four queries.

    Without a user every version is named, for processes. A leak takes half an hour to be sure of,
    so asking once a minute is enough.
    """
    used = _series("gpu_memory_used_bytes")
    points = _points(list(used), now)
    found = {pk: grown for pk, rows in points.items() if (grown := growth(rows)).leaking}
    # One whose newest value is old is measured no more; what it did then is over.
    found = {pk: grown for pk, grown in found.items() if points[pk][-1][0] >= now - FRESH}
    if not found:
        return []
    free = {(one.node_id, one.device): pk for pk, one in _series("gpu_memory_free_bytes").items()}
    left = newest(list(free.values()), since=now - FRESH)
    versions = _versions({used[pk].node_id for pk in found}, user)
    rows = []
    for pk, grown in found.items():
        one = used[pk]
        room = left.get(free.get((one.node_id, one.device), 0))
        until = grown.full_in(room.newest) if room else None
        node = one.node
        if node is None:
            continue
        rows.append(
            Leak(
                node_id=node.pk,
                node=node.name,
                url=reverse("deployments:node-detail", args=[node.name]),
                device=one.device,
                series=pk,
                growth=grown,
                used=points[pk][-1][1],
                free=room.newest if room else None,
                full_at=now + until if until else None,
                versions=versions.get(node.pk, ()),
            )
        )
    return sorted(rows, key=lambda leak: (leak.full_at is None, leak.full_at or now, leak.node))


def _series(name: str) -> dict[int, MeasuredSeries]:
    rows = MeasuredSeries.objects.filter(name=name, node__isnull=False).select_related("node")
    return {row.pk: row for row in rows.order_by("pk")}


def _points(series: list[int], now: datetime) -> dict[int, list[tuple[datetime, float]]]:
    rows = (
        SeriesMinute.objects.filter(
            series_id__in=series,
            minute__gte=now - LOOKED_BACK,
            minute__lte=now,
            minute__minute__in=range(0, 60, STEP_MIN),
        )
        .order_by("series_id", "minute")
        .values_list("series_id", "minute", "total", "count")
    )
    points: dict[int, list[tuple[datetime, float]]] = defaultdict(list)
    for pk, minute, total, count in rows:
        points[pk].append((minute, total / count))
    return points


def _versions(nodes: set[int | None], user: User | None) -> dict[int, tuple[str, ...]]:
    rows = Placement.objects.filter(node__in=nodes, state=PlacementState.READY)
    if user is not None:
        rows = rows.visible_to(user)
    named = rows.order_by(
        "deployment__release__version__model__name", "deployment__release__version__number"
    ).values_list(
        "node_id",
        "deployment__release__version__model__name",
        "deployment__release__version__number",
    )
    found: dict[int, list[str]] = defaultdict(list)
    for node, model, number in named:
        words = f"{model} v{number}"
        if words not in found[node]:
            found[node].append(words)
    return {node: tuple(words) for node, words in found.items()}
