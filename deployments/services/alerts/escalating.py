"""What nobody has acknowledged: the next step of each escalation when it is due."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from console.actors import Actor
from console.models import User
from console.services import notices
from deployments.models import (
    AlertEvent,
    AlertState,
    Escalation,
    EscalationStep,
    IncidentEvent,
    IncidentState,
    StepTarget,
)
from deployments.rules.alerts.escalation_steps import due_at
from deployments.selectors.alerts.on_call import (
    admins,
    operators_of,
    person_on_call,
    who_is_called,
)
from deployments.services.alerts import deliveries, messages
from deployments.services.alerts.announcing import SEVERITIES
from deployments.services.alerts.deliveries import Occurrence, Receiver
from deployments.services.alerts.escalations import notice_key

MOST_AT_ONCE = 200
SILENCED_LOOK = timedelta(minutes=1)

log = logging.getLogger(__name__)


def escalate_due(now: datetime) -> int:
    """End what was seen to, and take the steps that are due; gives how many were taken.

    Safe to run twice: each step is taken under the row's lock and counted with it.
    """
    _end_what_was_seen_to(now)
    due = Escalation.objects.filter(ended_at__isnull=True, next_at__lte=now).order_by("next_at")
    taken = 0
    for pk in list(due.values_list("pk", flat=True)[:MOST_AT_ONCE]):
        try:
            taken += _take_step(pk, now)
        except Exception:
            # One that cannot be told must not keep the others from being told.
            log.exception("the escalation %s could not go on", pk)
            Escalation.objects.filter(pk=pk).update(next_at=now + SILENCED_LOOK)
    return taken


def _end_what_was_seen_to(now: datetime) -> None:
    """Somebody sees to it, to the alert or to the incident that it is part of; or it is over."""
    acknowledged = (
        Q(alert__acknowledged_at__isnull=False)
        | Q(alert__incident__state=IncidentState.ACKNOWLEDGED)
        | Q(incident__state=IncidentState.ACKNOWLEDGED)
    )
    over = (
        Q(alert__state=AlertState.RESOLVED)
        | Q(alert__incident__state=IncidentState.RESOLVED)
        | Q(incident__state=IncidentState.RESOLVED)
        | Q(incident__ended_at__isnull=False)
    )
    opened = Escalation.objects.filter(ended_at__isnull=True)
    for why, condition in (("acknowledged", acknowledged), ("resolved", over)):
        with transaction.atomic():
            for pk in list(opened.filter(condition).values_list("pk", flat=True)[:MOST_AT_ONCE]):
                notices.end(key=notice_key(pk))
                Escalation.objects.filter(pk=pk).update(ended_at=now, ended_why=why, next_at=None)


@transaction.atomic
def _take_step(pk: int, now: datetime) -> int:
    escalation = (
        Escalation.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related(
            "policy",
            "alert__node",
            "alert__endpoint__model__team",
            "alert__endpoint__environment",
            "incident__endpoint__model__team",
            "incident__endpoint__environment",
        )
        .filter(pk=pk, ended_at__isnull=True, next_at__lte=now)
        .first()
    )
    if escalation is None:
        return 0
    if escalation.alert is not None and not escalation.alert.told:
        escalation.next_at = now + SILENCED_LOOK
        escalation.save(update_fields=["next_at"])
        return 0
    steps = list(escalation.policy.steps.select_related("schedule", "person", "channel"))
    number = escalation.step
    if steps:
        _tell(escalation, steps[number % len(steps)], now)
    escalation.step += 1
    minutes = [one.after_minutes for one in steps]
    escalation.next_at = due_at(
        escalation.started_at, minutes, escalation.policy.repeats, escalation.step
    )
    escalation.save(update_fields=["step", "next_at"])
    return 1


def _tell(escalation: Escalation, step: EscalationStep, now: datetime) -> None:
    alert, incident = escalation.alert, escalation.incident
    actor = Actor.system("escalation")
    about = _about(escalation)
    people = _people(escalation, step, now)
    receivers: list[Receiver] = [
        one for one in (deliveries.by_mail(person) for person in people) if one is not None
    ]
    if step.channel is not None and step.channel.enabled:
        receivers += deliveries.receivers_of(step.channel)
    message = _message(escalation, now)
    for receiver in receivers:
        thread = about.thread if alert is None else deliveries.thread_of(alert, receiver)
        deliveries.write(
            replace(about, thread=thread),
            receiver,
            message=message,
            dedup=f"escalation:{escalation.pk}:{escalation.step}",
            actor=actor,
            now=now,
        )
    notices.notify(
        people=people,
        kind="alert.escalated",
        key=notice_key(escalation.pk),
        subject=about.subject,
        subject_url=about.url,
        severity=SEVERITIES[about.severity],
        data={
            "severity": about.severity,
            "title": message["items"][0]["title"],
            "data": message["items"][0]["data"],
            "minutes": int((now - escalation.started_at).total_seconds() // 60),
        },
    )
    told = {
        "people": [one.username for one in people],
        "channels": [step.channel.name] if step.channel else [],
        "step": escalation.step + 1,
    }
    if alert is not None:
        kind = "escalated" if people or receivers else "nobody_reached"
        AlertEvent.objects.create(alert=alert, at=now, kind=kind, data=told)
    elif incident is not None:
        IncidentEvent.objects.create(incident=incident, at=now, kind="escalated", data=told)


def _message(escalation: Escalation, now: datetime) -> dict[str, Any]:
    if escalation.alert is not None:
        return messages.of_alerts([escalation.alert], "escalation", now=now)
    if escalation.incident is None:
        raise RuntimeError("an escalation is of an alert or of an incident")
    return messages.of_incident(escalation.incident, "escalation", now=now)


def _about(escalation: Escalation) -> Occurrence:
    alert, incident = escalation.alert, escalation.incident
    if alert is not None:
        return Occurrence(
            thread=f"alert:{alert.pk}",
            subject=alert.subject,
            url=f"/alerts/{alert.pk}/",
            severity=alert.severity,
            alerts=(alert,),
        )
    if incident is None:
        raise RuntimeError("an escalation is of an alert or of an incident")
    return Occurrence(
        thread=f"incident:{incident.pk}",
        subject=str(incident.endpoint),
        url=f"/incidents/{incident.pk}/",
        severity=incident.severity,
        incident=incident,
    )


def _people(escalation: Escalation, step: EscalationStep, now: datetime) -> list[User]:
    thing = escalation.alert or escalation.incident
    model = thing.endpoint.model if thing is not None and thing.endpoint is not None else None
    if step.target == StepTarget.ON_CALL:
        return who_is_called(model, now).people
    if step.target == StepTarget.OPERATORS:
        return operators_of(model)
    if step.target == StepTarget.ADMINS:
        return admins()
    if step.target == StepTarget.SCHEDULE and step.schedule is not None:
        person = person_on_call(step.schedule, now)
        return [person] if person is not None else operators_of(model)
    if step.target == StepTarget.PERSON and step.person is not None:
        return [step.person] if step.person.is_active else operators_of(model)
    return []
