"""Incidents: opened by whatever finds or does something, told to those on call, closed by people.

The lines of a timeline that are rows already (splits, rollouts, deploys) are read from there; an
event is what no other row says.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.services import audit
from deployments.models import (
    Endpoint,
    Incident,
    IncidentEvent,
    IncidentState,
    Rollout,
    TrafficSplit,
)
from deployments.rules import incidents as rules
from deployments.services import on_call

TOPIC = "incidents"
"""Live topic of the list of incidents; its events name nothing."""
LONGEST_TEXT = 4000


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
) -> Incident:
    """The endpoint's incident: a new one, or the unresolved one that this belongs to.

    Those on call are told when it is new and when it becomes graver. One whose callers were well
    for an hour is closed by itself, and a new one begun. Belongs inside the transaction of what
    found it; holds the endpoint's row. What led here has asked for permission.
    """
    with transaction.atomic():
        Endpoint.objects.select_for_update(of=("self",)).get(pk=endpoint.pk)
        incident = _unresolved(endpoint)
        if incident is not None and not rules.is_the_same(incident.ended_at, at):
            _close(
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
            )
        _join(incident, title, severity, at, actor, level, message, cause)
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
        incident = _locked(incident.pk)
        if incident.ended_at is not None or incident.state == IncidentState.RESOLVED:
            return incident
        incident.ended_at = at
        incident.save(update_fields=["ended_at"])
        add_event(incident=incident, kind="ended", at=at, actor=actor, message=message)
        _audit(incident, "incident.end", actor, reason=message)
    return incident


def acknowledge(*, incident_id: uuid.UUID, actor: Actor) -> Incident:
    """Somebody sees to it; the first one does. Again, by whomever, changes nothing.

    Raises NotFound, NotAllowed, Conflict `incident_resolved`.
    """
    with transaction.atomic():
        incident = _for_act(incident_id, actor)
        if incident.state == IncidentState.ACKNOWLEDGED:
            return incident
        _refuse_resolved(incident)
        now = timezone.now()
        incident.state, incident.acknowledged_by = IncidentState.ACKNOWLEDGED, actor.user
        incident.acknowledged_at = now
        incident.save(update_fields=["state", "acknowledged_by", "acknowledged_at"])
        add_event(incident=incident, kind="acknowledged", at=now, actor=actor)
        _audit(incident, "incident.acknowledge", actor)
    return incident


def resolve(*, incident_id: uuid.UUID, summary: str, actor: Actor) -> Incident:
    """Close it with what it was and what was done; its notices end. Twice is once.

    Raises Invalid without a summary, NotFound, NotAllowed.
    """
    text = _text(summary, "/summary", "Say what it was and what was done.")
    with transaction.atomic():
        incident = _for_act(incident_id, actor)
        if incident.state == IncidentState.RESOLVED:
            return incident
        _close(incident, at=timezone.now(), actor=actor, summary=text)
    return incident


def comment(*, incident_id: uuid.UUID, text: str, actor: Actor) -> IncidentEvent:
    """Write a person's line into the timeline, of a resolved one, too.

    Raises Invalid (empty, too long), NotFound, NotAllowed.
    """
    text = _text(text, "/text", "Write what others should know.")
    with transaction.atomic():
        incident = _for_act(incident_id, actor)
        event = add_event(
            incident=incident, kind="comment", at=timezone.now(), actor=actor, message=text
        )
        _audit(incident, "incident.comment", actor, reason=text)
    return event


def unresolved_incident(endpoint: Endpoint) -> Incident | None:
    """The endpoint's incident that nobody has resolved yet, if there is one (one query)."""
    return (
        Incident.objects.filter(endpoint=endpoint)
        .exclude(state=IncidentState.RESOLVED)
        .select_related("endpoint__model", "endpoint__environment")
        .first()
    )


def _begin(*, actor: Actor, message: str, **fields: Any) -> Incident:
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
    _call(incident, incident.started_at, actor)
    _audit(incident, "incident.open", actor, reason=message)
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
) -> None:
    """The disturbance goes on, or again: a line, the worst severity, and callers are not well."""
    graver = rules.worse(severity, incident.severity) != incident.severity
    incident.severity = rules.worse(severity, incident.severity)
    incident.ended_at = None
    incident.save(update_fields=["severity", "ended_at"])
    add_event(
        incident=incident,
        kind="joined",
        at=at,
        actor=actor,
        level=level,
        message=message or title,
        data={"cause": cause, "severity": severity},
    )
    if graver:
        _call(incident, at, actor)
        _audit(incident, "incident.escalate", actor, reason=message or title)


def _close(incident: Incident, *, at: datetime, actor: Actor, summary: str) -> None:
    incident.state, incident.summary = IncidentState.RESOLVED, summary
    incident.resolved_at, incident.resolved_by = at, actor.user
    incident.ended_at = incident.ended_at or at
    incident.save(update_fields=["state", "summary", "resolved_at", "resolved_by", "ended_at"])
    add_event(incident=incident, kind="resolved", at=at, actor=actor, message=summary)
    on_call.stop_calling(incident)
    _audit(incident, "incident.resolve", actor, reason=summary)


def _call(incident: Incident, at: datetime, actor: Actor) -> None:
    called = on_call.call(incident, actor)
    add_event(
        incident=incident,
        kind="called",
        at=at,
        actor=actor,
        data={"severity": incident.severity, "people": [one.username for one in called]},
    )


def _for_act(incident_id: uuid.UUID, actor: Actor) -> Incident:
    require(actor, "incident.handle")
    seen = Incident.objects.visible_to(actor.user).filter(pk=incident_id)
    found = seen.values_list("endpoint__model__team_id", flat=True)[:1]
    if not found:
        raise NotFound(f"There is no incident {incident_id}.", hint="Look at the incidents.")
    require(actor, "incident.handle", found[0])
    return _locked(incident_id)


def _locked(incident_id: uuid.UUID) -> Incident:
    return (
        Incident.objects.select_for_update(of=("self",))
        .select_related("endpoint__model", "endpoint__environment")
        .get(pk=incident_id)
    )


def _unresolved(endpoint: Endpoint) -> Incident | None:
    found = unresolved_incident(endpoint)
    return _locked(found.pk) if found else None


def _refuse_resolved(incident: Incident) -> None:
    if incident.state == IncidentState.RESOLVED:
        raise Conflict(
            f"The incident at {incident.endpoint} is resolved already.",
            code="incident_resolved",
            hint="A new disturbance opens a new incident.",
        )


def _text(raw: str, pointer: str, hint: str) -> str:
    text = raw.strip()
    if not text:
        raise Invalid(
            "Some words are needed.",
            code="text_missing",
            hint=hint,
            errors=(FieldError(pointer, "This is needed."),),
        )
    if len(text) > LONGEST_TEXT:
        raise Invalid(
            f"That is longer than {LONGEST_TEXT} characters.",
            code="text_too_long",
            errors=(FieldError(pointer, f"At most {LONGEST_TEXT} characters."),),
        )
    return text


def _audit(incident: Incident, action: str, actor: Actor, *, reason: str = "") -> None:
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
