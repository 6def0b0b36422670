"""What people do with an incident: see to it, write into its timeline, resolve it."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from deployments.models import Incident, IncidentEvent, IncidentState
from deployments.services.incidents.records import (
    add_event,
    close_incident,
    locked_incident,
    record_act,
)

LONGEST_TEXT = 4000


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
        record_act(incident, "incident.acknowledge", actor)
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
        close_incident(incident, at=timezone.now(), actor=actor, summary=text)
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
        record_act(incident, "incident.comment", actor, reason=text)
    return event


def _for_act(incident_id: uuid.UUID, actor: Actor) -> Incident:
    require(actor, "incident.handle")
    seen = Incident.objects.visible_to(actor.user).filter(pk=incident_id)
    found = seen.values_list("endpoint__model__team_id", flat=True)[:1]
    if not found:
        raise NotFound("There is no such incident.", hint="Look at the list of incidents.")
    require(actor, "incident.handle", found[0])
    return locked_incident(incident_id)


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
