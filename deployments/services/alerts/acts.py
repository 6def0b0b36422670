"""What people do with an alert: see to it, write beside it."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from deployments.models import Alert, AlertEvent, AlertState
from deployments.services.alerts.records import add_event, publish, record_act

LONGEST_TEXT = 2000


def acknowledge(*, alert_id: uuid.UUID, note: str = "", actor: Actor) -> Alert:
    """Somebody sees to it; the first one does. Again, by whomever, changes nothing.

    It is not escalated any more. Raises NotFound, NotAllowed, Invalid (note too long), Conflict
    `alert_not_firing`.
    """
    text = _text(note)
    with transaction.atomic():
        alert = _for_act(alert_id, actor)
        if alert.acknowledged_at is not None:
            return alert
        if alert.state != AlertState.FIRING:
            raise Conflict(
                "The alert does not fire.",
                code="alert_not_firing",
                hint="There is nothing to see to: it is over, or has not begun.",
            )
        now = timezone.now()
        alert.acknowledged_by, alert.acknowledged_at = actor.user, now
        alert.save(update_fields=["acknowledged_by", "acknowledged_at"])
        add_event(alert, "acknowledged", now, actor=actor, message=text)
        record_act(alert, "alert.acknowledge", actor, reason=text)
        publish([alert])
    return alert


def comment(*, alert_id: uuid.UUID, text: str, actor: Actor) -> AlertEvent:
    """Write a person's line into the timeline, of one that is over, too.

    Raises Invalid (empty, too long), NotFound, NotAllowed.
    """
    words = _text(text)
    if not words:
        raise Invalid(
            "Some words are needed.",
            code="text_missing",
            hint="Write what others should know.",
            errors=(FieldError("/text", "This is needed."),),
        )
    with transaction.atomic():
        alert = _for_act(alert_id, actor)
        event = add_event(alert, "comment", timezone.now(), actor=actor, message=words)
        record_act(alert, "alert.comment", actor, reason=words)
        publish([alert])
    return event


def _for_act(alert_id: uuid.UUID, actor: Actor) -> Alert:
    """The alert, locked. One of a machine is for those who see to the whole installation's."""
    require(actor, "alert.handle")
    alert = (
        Alert.objects.visible_to(actor.user)
        .select_for_update(of=("self",))
        .select_related("endpoint__model", "endpoint__environment", "node")
        .filter(pk=alert_id)
        .first()
    )
    if alert is None:
        raise NotFound("There is no such alert.", hint="Look at the list of alerts.")
    team_id = alert.endpoint.model.team_id if alert.endpoint is not None else None
    require(actor, "alert.handle", team_id)
    return alert


def _text(raw: str) -> str:
    text = raw.strip()
    if len(text) > LONGEST_TEXT:
        raise Invalid(
            f"That is longer than {LONGEST_TEXT} characters.",
            code="text_too_long",
            errors=(FieldError("/text", f"At most {LONGEST_TEXT} characters."),),
        )
    return text
