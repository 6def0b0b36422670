"""What happened to an endpoint, on one axis of time: moves of traffic, deploys, incidents …"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.urls import reverse

from deployments.models import Endpoint, Incident, Placement, RolloutEvent, SplitCause, TrafficSplit
from models_registry.models import Release, ReleaseState

MOST = 200
ROLLOUT_KINDS = ("started", "promoted", "aborted", "rolled_back")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened at a moment; `kind` is a code (words: documents/occurrence_words).

    `version` is the one that it concerns, 0 for none. `data` is JSON: what the words need.
    """

    at: datetime
    kind: str
    version: int = 0
    url: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def occurrences(
    endpoint: Endpoint, start: datetime, end: datetime, *, most: int = MOST
) -> list[Occurrence]:
    """What happened in a stretch of time, oldest first; five queries, whatever happened.

    Of each sort the newest `most` are taken. Whoever calls has made sure that the reader may see
    the endpoint.
    """
    found = [
        *_splits(endpoint, start, end, most),
        *_rollouts(endpoint, start, end, most),
        *_releases(endpoint, start, end, most),
        *_deploys(endpoint, start, end, most),
        *_incidents(endpoint, start, end, most),
    ]
    return sorted(found, key=lambda one: (one.at, one.kind))[-most:]


def _splits(endpoint: Endpoint, start: datetime, end: datetime, most: int) -> Iterator[Occurrence]:
    rows: QuerySet[TrafficSplit] = endpoint.splits.filter(
        created_at__gte=start, created_at__lt=end
    ).order_by("-revision")
    url = reverse("deployments:endpoint-detail", args=_names(endpoint))
    for one in rows[:most]:
        shares = {int(number): points for number, points in one.weights.items() if points}
        yield Occurrence(
            at=one.created_at,
            kind=f"split.{one.cause}",
            version=_most_of(one, shares),
            url=url,
            data={
                "mode": one.mode,
                "probe": one.probe,
                "shares": {str(number): points for number, points in sorted(shares.items())},
                "revision": one.revision,
            },
        )


def _most_of(split: TrafficSplit, shares: dict[int, int]) -> int:
    """Of a move the newest version in it: that is whose share a person looks for."""
    if not shares:
        return 0
    return min(shares) if split.cause == SplitCause.ROLLBACK else max(shares)


def _rollouts(
    endpoint: Endpoint, start: datetime, end: datetime, most: int
) -> Iterator[Occurrence]:
    rows = RolloutEvent.objects.filter(
        rollout__endpoint=endpoint, at__gte=start, at__lt=end, kind__in=ROLLOUT_KINDS
    ).select_related("rollout")
    for one in rows.order_by("-at", "-pk")[:most]:
        yield Occurrence(
            at=one.at,
            kind=f"rollout.{one.kind}",
            version=one.rollout.version,
            url=reverse("deployments:rollout-detail", args=[one.rollout_id]),
            data={"message": one.message},
        )


def _releases(
    endpoint: Endpoint, start: datetime, end: datetime, most: int
) -> Iterator[Occurrence]:
    rows = Release.objects.filter(
        environment=endpoint.environment_id,
        version__model=endpoint.model_id,
        state=ReleaseState.APPROVED,
        decided_at__gte=start,
        decided_at__lt=end,
    ).select_related("version")
    for one in rows.order_by("-decided_at")[:most]:
        if one.decided_at is None:
            continue
        yield Occurrence(
            at=one.decided_at,
            kind="release.approved",
            version=one.version.number,
            url=reverse("models_registry:release-detail", args=[one.pk]),
        )


def _deploys(endpoint: Endpoint, start: datetime, end: datetime, most: int) -> Iterator[Occurrence]:
    rows = Placement.objects.filter(
        deployment__release__environment=endpoint.environment_id,
        deployment__release__version__model=endpoint.model_id,
        ready_at__gte=start,
        ready_at__lt=end,
    ).select_related("node", "deployment__release__version")
    for one in rows.order_by("-ready_at")[:most]:
        if one.ready_at is None:
            continue
        yield Occurrence(
            at=one.ready_at,
            kind="deploy.ready",
            version=one.deployment.release.version.number,
            url=reverse("deployments:deployment-detail", args=[one.deployment_id]),
            data={"node": one.node.name},
        )


def _incidents(
    endpoint: Endpoint, start: datetime, end: datetime, most: int
) -> Iterator[Occurrence]:
    within = Q(started_at__gte=start, started_at__lt=end) | Q(ended_at__gte=start, ended_at__lt=end)
    rows = Incident.objects.filter(within, endpoint=endpoint)
    for one in rows.order_by("-started_at")[:most]:
        url = reverse("deployments:incident-detail", args=[one.pk])
        data = {"title": one.title, "severity": one.severity, "cause": one.cause}
        if start <= one.started_at < end:
            yield Occurrence(one.started_at, "incident.began", one.version or 0, url, data)
        if one.ended_at is not None and start <= one.ended_at < end:
            yield Occurrence(one.ended_at, "incident.ended", one.version or 0, url, data)


def _names(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.environment.name, endpoint.model.name
