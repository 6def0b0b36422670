"""Incidents: opened by whatever finds or does something, told to those on call, closed by people.

The lines of a timeline that are rows already (splits, rollouts, deploys) are read from there; an
event is what no other row says.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from console import live
from console.actors import Actor
from console.services import audit
from deployments.models import (
    Endpoint,
    EndpointMode,
    Incident,
    IncidentEvent,
    IncidentState,
    Rollout,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.incidents import severity as rules
from deployments.services.alerts import incident_calls

WELL_FOR = timedelta(seconds=10)
TOPIC = "incidents"
"""Live topic of the list of incidents; its events name nothing."""


def open_incident(
    *,
    endpoint: Endpoint,
    cause: str,
    title: str,
    severity: str,
    at: datetime,
    actor: Actor,
    version: int | None = None,
    level: int = 0,
    rollout: Rollout | None = None,
    message: str = "",
    calling: bool = True,
) -> Incident:
    """The endpoint's incident: a new one, or the unresolved one that this belongs to.

    Those on call are told when it is new and when it becomes graver, unless `calling` is False:
    then what found it tells them itself. One whose callers were well
    is closed by itself, and a new one begun, unless its cause returns soon, or a person acts.
    Belongs inside the transaction of what found it; holds the endpoint's row. What led here has
    asked for permission.
    """
    with transaction.atomic():
        Endpoint.objects.select_for_update(of=("self",)).get(pk=endpoint.pk)
        incident = _unresolved(endpoint)
        if incident is not None and not rules.is_the_same(
            # What a person does soon after is seeing to what has been.
            incident.ended_at,
            at,
            same_cause=cause == incident.cause or not actor.is_system,
        ):
            close_incident(
                incident, at=at, actor=actor, summary="Closed by itself: the next one has begun."
            )
            incident = None
        if incident is None:
            return _begin(
                endpoint=endpoint,
                cause=cause,
                title=title[:200],
                severity=severity,
                started_at=at,
                version=version,
                level=level,
                rollout=rollout,
                actor=actor,
                message=message,
                calling=calling,
            )
        if version is not None and incident.ended_at is not None:
            incident.version = version
        _join(incident, title, severity, at, actor, level, message, cause, calling=calling)
        if rollout is not None and incident.rollout_id is None:
            incident.rollout = rollout
            incident.save(update_fields=["rollout"])
    return incident


def add_event(
    *,
    incident: Incident,
    kind: str,
    at: datetime,
    actor: Actor,
    level: int | None = None,
    split: TrafficSplit | None = None,
    message: str = "",
    data: dict[str, Any] | None = None,
) -> IncidentEvent:
    """Write a line of the timeline; one with a level raises the incident's highest level."""
    with transaction.atomic():
        event = IncidentEvent.objects.create(
            incident=incident,
            kind=kind,
            at=at,
            actor=actor.user,
            level=level,
            split=split,
            message=message,
            data=data or {},
        )
        if level is not None and level > incident.level:
            incident.level = level
            incident.save(update_fields=["level"])
        _announce(incident)
    return event


def end_incident(*, incident: Incident, at: datetime, actor: Actor, message: str = "") -> Incident:
    """Callers are well again; it stays for people to say what it was. Twice is once."""
    with transaction.atomic():
        incident = locked_incident(incident.pk)
        if incident.ended_at is not None or incident.state == IncidentState.RESOLVED:
            return incident
        incident.ended_at = at
        incident.save(update_fields=["ended_at"])
        add_event(incident=incident, kind="ended", at=at, actor=actor, message=message)
        record_act(incident, "incident.end", actor, reason=message)
    return incident


def make_graver(*, incident: Incident, severity: str, at: datetime, actor: Actor, why: str) -> None:
    """Raise the severity to the graver of both, and call people of it where that is news."""
    with transaction.atomic():
        locked = locked_incident(incident.pk)
        graver = rules.worse(severity, locked.severity)
        if graver == locked.severity or locked.state == IncidentState.RESOLVED:
            return
        locked.severity = incident.severity = graver
        locked.save(update_fields=["severity"])
        _call(locked, at, actor)
        _announce(locked)
        record_act(locked, "incident.escalate", actor, reason=why)


def end_settled(now: datetime) -> int:
    """End incidents of rollouts that were taken back, once every gateway acts on that for a while;
    gives how many. Safe to run twice."""
    ended = 0
    waiting = (
        Incident.objects.filter(ended_at__isnull=True, rollout__isnull=False)
        .exclude(state=IncidentState.RESOLVED)
        .select_related("endpoint__current")
    )
    for incident in waiting:
        split = incident.endpoint.current
        if (
            split is not None
            and split.mode == EndpointMode.NORMAL
            and split.cause in (SplitCause.ROLLOUT, SplitCause.ROLLBACK)
            and split.applied_at is not None
            and now - split.applied_at >= WELL_FOR
        ):
            end_incident(
                incident=incident,
                at=split.applied_at,
                actor=Actor.system("traffic control"),
                message="Every gateway acts on the rollback.",
            )
            ended += 1
    return ended


def mode_changed(*, endpoint: Endpoint, split: TrafficSplit, actor: Actor) -> Incident | None:
    """A person has switched the mode: away from normal is an incident, back to it is its end."""
    level, at = rules.level_of_mode(split.mode), split.created_at
    incident = unresolved_incident(endpoint)
    if level:
        incident = open_incident(
            endpoint=endpoint,
            cause="by_hand",
            title="The fallback answers" if level == rules.FALLBACK else "The circuit is open",
            severity=rules.severity_of(level),
            at=at,
            actor=actor,
            level=level,
            message=split.reason,
        )
    if incident is None:
        return None
    add_event(
        incident=incident,
        kind="moved",
        at=at,
        actor=actor,
        level=level,
        split=split,
        message=split.reason,
    )
    if not level:
        end_incident(incident=incident, at=at, actor=actor, message="Back to normal by hand.")
    return incident


def unresolved_incident(endpoint: Endpoint) -> Incident | None:
    """The endpoint's incident that nobody has resolved yet, if there is one (one query)."""
    return (
        Incident.objects.filter(endpoint=endpoint)
        .exclude(state=IncidentState.RESOLVED)
        .select_related("endpoint__model", "endpoint__environment")
        .first()
    )


def _begin(*, actor: Actor, message: str, calling: bool, **fields: Any) -> Incident:
    incident = Incident.objects.create(**fields)
    if not actor.is_system:
        # Whoever moves the traffic by hand sees to it already.
        incident.state, incident.acknowledged_by = IncidentState.ACKNOWLEDGED, actor.user
        incident.acknowledged_at = incident.started_at
        incident.save(update_fields=["state", "acknowledged_by", "acknowledged_at"])
    add_event(
        incident=incident,
        kind="opened",
        at=incident.started_at,
        actor=actor,
        level=incident.level,
        message=message,
        data={"cause": incident.cause},
    )
    if calling:
        _call(incident, incident.started_at, actor)
    record_act(incident, "incident.open", actor, reason=message)
    return incident


def _join(
    incident: Incident,
    title: str,
    severity: str,
    at: datetime,
    actor: Actor,
    level: int,
    message: str,
    cause: str,
    *,
    calling: bool,
) -> None:
    """The disturbance goes on, or again: a line, the worst severity, and callers are not well."""
    graver = rules.worse(severity, incident.severity) != incident.severity
    new_spell = incident.ended_at is not None
    again = new_spell and actor.is_system
    incident.severity = rules.worse(severity, incident.severity)
    incident.ended_at = None
    if again:
        # Callers had been well: whoever saw to it then may not know of this.
        incident_calls.stop_calling(incident, at)
        incident.title, incident.cause = title[:200], cause
        incident.state, incident.acknowledged_by = IncidentState.OPEN, None
        incident.acknowledged_at = None
    incident.save()
    add_event(
        incident=incident,
        kind="joined",
        at=at,
        actor=actor,
        level=level,
        message=message or title,
        data={"cause": cause, "severity": severity, "again": new_spell},
    )
    if graver or again:
        if calling:
            _call(incident, at, actor)
        action = "incident.escalate" if graver else "incident.open"
        record_act(incident, action, actor, reason=message or title)


def close_incident(incident: Incident, *, at: datetime, actor: Actor, summary: str) -> None:
    """Resolve it with a summary; those on call are called no more."""
    incident.state, incident.summary = IncidentState.RESOLVED, summary
    incident.resolved_at, incident.resolved_by = at, actor.user
    incident.ended_at = incident.ended_at or at
    incident.save(update_fields=["state", "summary", "resolved_at", "resolved_by", "ended_at"])
    add_event(incident=incident, kind="resolved", at=at, actor=actor, message=summary)
    incident_calls.stop_calling(incident, at)
    incident_calls.tell_it_is_over(incident, actor, at)
    record_act(incident, "incident.resolve", actor, reason=summary)


def _call(incident: Incident, at: datetime, actor: Actor) -> None:
    called = incident_calls.call(incident, actor, at)
    add_event(
        incident=incident,
        kind="called",
        at=at,
        actor=actor,
        data={"severity": incident.severity, "people": [one.username for one in called]},
    )


def locked_incident(incident_id: uuid.UUID) -> Incident:
    """The incident, locked until the transaction ends, with its endpoint."""
    return (
        Incident.objects.select_for_update(of=("self",))
        .select_related("endpoint__model", "endpoint__environment")
        .get(pk=incident_id)
    )


def _unresolved(endpoint: Endpoint) -> Incident | None:
    found = unresolved_incident(endpoint)
    return locked_incident(found.pk) if found else None


def record_act(incident: Incident, action: str, actor: Actor, *, reason: str = "") -> None:
    """The audit entry of an act upon an incident."""
    audit.record(
        actor=actor,
        action=action,
        subject=str(incident.endpoint),
        subject_url=f"/incidents/{incident.pk}/",
        reason=reason,
        after={
            "incident": str(incident.pk),
            "title": incident.title,
            "cause": incident.cause,
            "severity": incident.severity,
            "level": incident.level,
            "version": incident.version,
            "state": incident.state,
        },
    )


def _announce(incident: Incident) -> None:
    live.publish(
        f"endpoint:{incident.endpoint}", "incident.changed", {"incident": str(incident.pk)}
    )
    live.publish(TOPIC, "incident.changed")
