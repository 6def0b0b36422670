"""Home: what waits for this person, then how the fleet is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef
from django.urls import reverse

from console.models import Job, JobState, Notice, User
from console.rules.permissions import OPERATORS
from console.selectors.notices import open_notices
from console.selectors.visibility import shown_to
from deployments.models import Alert, Endpoint, Incident
from deployments.rules.objectives.slo import Promise
from deployments.selectors.alerts.pages import alerts_on_models_of
from deployments.selectors.fleet.nodes import NodeRow, nodes_in_trouble
from deployments.selectors.incidents.pages import unresolved_incidents
from deployments.selectors.rollouts.pages import RolloutRow, rollouts_under_way
from deployments.selectors.traffic.endpoint_types import EndpointRow
from deployments.selectors.traffic.endpoints import rows_of
from models_registry.selectors.releases import (
    EnvironmentFreeze,
    contracts_to_sign,
    freezes_near,
    releases_to_approve,
    reviews_due,
)

FAILED_WITHIN = timedelta(days=7)
MOST_ITEMS = 20
MOST_ENDPOINTS = 50
_ORDER = [Promise.BROKEN, Promise.AT_RISK, Promise.NO_DATA, Promise.KEPT]


@dataclass(frozen=True, slots=True)
class InboxItem:
    """Something that waits for the person; `kind` is contract, release, review or job."""

    kind: str
    title: str
    detail: str
    url: str
    icon: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    notices: list[Notice]
    inbox: list[InboxItem]
    endpoints: list[EndpointRow]
    nodes: list[NodeRow]
    running: list[Job]
    freezes: list[EnvironmentFreeze]
    alerts: list[Alert]
    incidents: list[Incident]
    rollouts: list[RolloutRow]


def overview(user: User, now: datetime) -> Overview:
    """The person's inbox, newest first, endpoints worst first, nodes in trouble, running jobs."""
    items = [*_contracts(user), *_releases(user, now), *_reviews(user), *_failed_jobs(user, now)]
    endpoints = list(
        Endpoint.objects.visible_to(user)
        .select_related("model", "environment", "current__author")
        .order_by("pk")[:MOST_ENDPOINTS]
    )
    rows = rows_of(endpoints, now)
    return Overview(
        notices=open_notices(user),
        inbox=sorted(items, key=lambda item: item.at, reverse=True)[:MOST_ITEMS],
        endpoints=sorted(
            rows, key=lambda row: (_ORDER.index(row.promise), row.environment, row.model)
        ),
        nodes=nodes_in_trouble(),
        running=list(
            shown_to(Job.objects.filter(state__in=[JobState.QUEUED, JobState.RUNNING]), user)
            .select_related("requested_by")
            .order_by("-created_at")[:10]
        ),
        freezes=freezes_near(now),
        alerts=alerts_on_models_of(user),
        incidents=unresolved_incidents(user),
        rollouts=rollouts_under_way(user),
    )


def _contracts(user: User) -> list[InboxItem]:
    return [
        InboxItem(
            kind="contract",
            title=f"{contract.model.name} contract {contract.revision}",
            detail=contract.proposed_by.username,
            url=reverse(
                "models_registry:contract-detail", args=[contract.model.name, contract.revision]
            ),
            icon="contract",
            at=contract.proposed_at,
        )
        for contract in contracts_to_sign(user)[:MOST_ITEMS]
    ]


def _releases(user: User, now: datetime) -> list[InboxItem]:
    return [
        InboxItem(
            kind="release",
            title=f"{release.version} → {release.environment.name}",
            detail=release.requested_by.username,
            url=reverse("models_registry:release-detail", args=[release.pk]),
            icon="check",
            at=release.requested_at,
        )
        for release in releases_to_approve(user, now)[:MOST_ITEMS]
    ]


def _reviews(user: User) -> list[InboxItem]:
    """Releases against the policy that an operator has to look into."""
    if not user.roles_anywhere & OPERATORS:
        return []
    return [
        InboxItem(
            kind="review",
            title=f"{broken.release.version} → {broken.release.environment.name}",
            detail=broken.person.username,
            url=reverse("models_registry:release-detail", args=[broken.release_id]),
            icon="state-warn",
            at=broken.at,
        )
        for broken in reviews_due(user)[:MOST_ITEMS]
    ]


def _failed_jobs(user: User, now: datetime) -> list[InboxItem]:
    """The person's jobs that failed, unless a later one of the same kind succeeded."""
    better = Job.objects.filter(
        kind=OuterRef("kind"),
        subject=OuterRef("subject"),
        state=JobState.SUCCEEDED,
        created_at__gt=OuterRef("created_at"),
    )
    failed = (
        shown_to(Job.objects.filter(requested_by=user), user)
        .filter(state__in=[JobState.FAILED, JobState.ERRORED], finished_at__gte=now - FAILED_WITHIN)
        .filter(~Exists(better))
        .order_by("-finished_at")[:MOST_ITEMS]
    )
    return [
        InboxItem(
            kind="job",
            title=f"{job.kind} {job.subject}",
            detail=job.error_message,
            url=reverse("console:job-detail", args=[job.pk]),
            icon="jobs",
            at=job.finished_at or job.created_at,
        )
        for job in failed
    ]
