"""Incidents as lists and pages show them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from console.errors import NotFound
from console.models import Job, User
from deployments.models import (
    Endpoint,
    Incident,
    IncidentEvent,
    IncidentState,
    RolloutEvent,
    TrafficSplit,
)
from deployments.rules.incidents.spells import BEGAN_AGAIN

BEFORE = timedelta(minutes=10)
"""What happened so long before an incident may be its cause: it stands in the timeline."""
AFTER = timedelta(minutes=5)
MOST_INCIDENTS = 200
MOST_LINES = 50
SAME_MOMENT = 20
"""How many more lines are read than shown: those of one moment stay together."""
OF_DEPLOYS = ("deploy", "unload")


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """What to list; an empty value filters nothing. `state` may be `unresolved`."""

    state: str = ""
    severity: str = ""
    environment: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.state or self.severity or self.environment or self.q)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the timeline: what happened, in a code, whoever or whatever did it.

    `kind` is an event's, or split, rollout.<kind>, job.<kind>. `took_ms` is until every gateway
    acted on a split; `url` leads to more.
    """

    at: datetime
    kind: str
    actor: str
    message: str = ""
    level: int | None = None
    url: str = ""
    split: TrafficSplit | None = None
    took_ms: float | None = None
    people: tuple[str, ...] = ()
    state: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """One incident with its timeline, oldest first, and the span that its charts show.

    There are lines before the moment `earlier`; None when the timeline begins with these.
    """

    incident: Incident
    lines: list[Line]
    start: datetime
    end: datetime | None
    earlier: datetime | None = None


def incident_list(wanted: IncidentFilter, *, user: User) -> QuerySet[Incident]:
    """Incidents that match, newest first, with their endpoints and people (one query).

    Each has `since`: when its newest spell began.
    """
    again = IncidentEvent.objects.filter(
        incident=OuterRef("pk"), kind=BEGAN_AGAIN, data__again=True
    ).order_by("-at")
    found = (
        Incident.objects.visible_to(user)
        .annotate(since=Coalesce(Subquery(again.values("at")[:1]), F("started_at")))
        .select_related("endpoint__model", "endpoint__environment", "acknowledged_by")
        .order_by("-started_at", "-pk")
    )
    if wanted.state == "unresolved":
        found = found.exclude(state=IncidentState.RESOLVED)
    elif wanted.state:
        found = found.filter(state=wanted.state)
    if wanted.severity:
        found = found.filter(severity=wanted.severity)
    if wanted.environment:
        found = found.filter(endpoint__environment__name=wanted.environment)
    if wanted.q:
        found = found.filter(
            Q(endpoint__model__name__icontains=wanted.q) | Q(title__icontains=wanted.q)
        )
    return found


def find_incident(incident_id: uuid.UUID, *, user: User) -> Incident:
    """One incident (one query). Raises NotFound, also for what is not to be seen."""
    found = (
        Incident.objects.visible_to(user)
        .select_related(
            "endpoint__model",
            "endpoint__environment",
            "endpoint__current",
            "acknowledged_by",
            "resolved_by",
            "rollout",
        )
        .filter(pk=incident_id)
        .first()
    )
    if found is None:
        raise NotFound("There is no such incident.", hint="Look at the list of incidents.")
    return found


def incident_page(
    incident: Incident, *, now: datetime, before: datetime | None = None, most: int = MOST_LINES
) -> IncidentPage:
    """The incident with what machines and people did around it, in order; four queries.

    The newest `most` lines, or the newest of those before a moment (`IncidentPage.earlier`).
    """
    start = incident.started_at - BEFORE
    end = incident.ended_at + AFTER if incident.ended_at else None
    until = min(end, now) if end else now
    lines = _lines(incident, start, until, before, most + SAME_MOMENT)
    earlier = None
    if len(lines) > most:
        earlier = lines[-most].at
        lines = [line for line in lines if line.at >= earlier]
    return IncidentPage(incident, lines, start, end, earlier)


def unresolved_of(endpoint: Endpoint) -> Incident | None:
    """The endpoint's incident that is not resolved yet, for its page (one query)."""
    return (
        Incident.objects.filter(endpoint=endpoint)
        .exclude(state=IncidentState.RESOLVED)
        .select_related("acknowledged_by", "endpoint__model", "endpoint__environment")
        .first()
    )


def unresolved_incidents(user: User, most: int = 10) -> list[Incident]:
    """What is not resolved yet, P1 first, then the newest (one query)."""
    found = incident_list(IncidentFilter(state="unresolved"), user=user)
    return list(found.order_by("severity", "-started_at")[:most])


def incidents_between(endpoint: Endpoint, start: datetime, end: datetime) -> list[Incident]:
    """Incidents of an endpoint that touch a span of time, newest first (one query)."""
    return list(
        Incident.objects.filter(endpoint=endpoint, started_at__lt=end)
        .filter(Q(ended_at__isnull=True) | Q(ended_at__gte=start))
        .order_by("-started_at")[:MOST_INCIDENTS]
    )


def _lines(
    incident: Incident, start: datetime, until: datetime, before: datetime | None, most: int
) -> list[Line]:
    """The newest lines in order, `most` of each kind; people write after the end, too."""
    told = incident.events.filter(split__isnull=False).values("split")
    events = incident.events.select_related("actor", "split__endpoint").order_by("-at", "-pk")
    splits = (
        TrafficSplit.objects.filter(
            endpoint=incident.endpoint_id, created_at__gte=start, created_at__lte=until
        )
        .exclude(pk__in=told)
        .select_related("author")
        .order_by("-created_at")
    )
    moves = (
        RolloutEvent.objects.filter(
            rollout__endpoint=incident.endpoint_id, at__gte=start, at__lte=until
        )
        .select_related("actor", "rollout")
        .order_by("-at", "-pk")
    )
    jobs = _deploys(incident.endpoint, start, until)
    if before is not None:
        events, moves = events.filter(at__lt=before), moves.filter(at__lt=before)
        splits, jobs = splits.filter(created_at__lt=before), jobs.filter(created_at__lt=before)
    lines = [_of_event(event) for event in reversed(events[:most])]
    lines += [_of_split(split) for split in reversed(splits[:most])]
    lines += [_of_rollout(event) for event in reversed(moves[:most])]
    for job in reversed(jobs[:most]):
        lines += [line for line in _of_job(job) if before is None or line.at < before]
    return sorted(lines, key=lambda line: line.at)


def _of_event(event: IncidentEvent) -> Line:
    split = event.split
    return Line(
        at=event.at,
        kind=event.kind,
        actor=event.actor.username if event.actor else "",
        message=event.message,
        level=event.level,
        split=split,
        took_ms=_took_ms(split),
        url=f"/deployments/{event.data['deployment']}/" if "deployment" in event.data else "",
        people=tuple(event.data.get("people", ())),
        version=event.data.get("version"),
    )


def _of_split(split: TrafficSplit) -> Line:
    return Line(
        at=split.created_at,
        kind="split",
        actor=split.author.username,
        message=split.reason,
        split=split,
        took_ms=_took_ms(split),
    )


def _took_ms(split: TrafficSplit | None) -> float | None:
    if split is None or split.applied_at is None:
        return None
    return round((split.applied_at - split.created_at).total_seconds() * 1000, 1)


def _of_rollout(event: RolloutEvent) -> Line:
    return Line(
        at=event.at,
        kind=f"rollout.{event.kind}",
        actor=event.actor.username if event.actor else "",
        message=event.message,
        url=f"/rollouts/{event.rollout_id}/",
        version=event.rollout.version,
    )


def _deploys(endpoint: Endpoint, start: datetime, end: datetime) -> QuerySet[Job]:
    return (
        Job.objects.filter(
            kind__in=OF_DEPLOYS,
            subject__startswith=f"{endpoint.model.name} v",
            subject__contains=f" → {endpoint.environment.name} on ",
            created_at__gte=start,
            created_at__lte=end,
        )
        .select_related("requested_by")
        .order_by("-created_at")
    )


def _of_job(job: Job) -> list[Line]:
    asked = Line(
        at=job.created_at,
        kind=f"job.{job.kind}",
        actor=job.requested_by.username,
        message=job.subject,
        url=f"/jobs/{job.pk}/",
    )
    if job.finished_at is None:
        return [asked]
    ended = Line(
        at=job.finished_at,
        kind=f"job.{job.kind}.ended",
        actor="",
        message=job.error_message or job.subject,
        url=f"/jobs/{job.pk}/",
        state=job.state,
    )
    return [asked, ended]
