"""Calling people of an incident, the same way as of an alert, and telling that it is over."""

from __future__ import annotations

from datetime import datetime

from console.actors import Actor
from console.models import Severity, User
from console.services import notices
from deployments.models import Incident, IncidentSeverity, IncidentState
from deployments.selectors.alerts.routes import occasion_of_incident
from deployments.services.alerts import deliveries, messages
from deployments.services.alerts.announcing import (
    BY_ALERT,
    planned,
    reached,
    say_nobody,
    tell_that_it_is_over,
)
from deployments.services.alerts.deliveries import Occurrence
from deployments.services.alerts.escalations import begin_escalation, end_escalations


def call(incident: Incident, actor: Actor, now: datetime) -> list[User]:
    """Tell of the incident by the routes, but whoever did it; gives whose inbox has it.

    Belongs into the transaction of what it tells of; messages are jobs of their own. Being called
    again (it became graver, or began again) is told anew.
    """
    model = incident.endpoint.model
    plan = planned(occasion_of_incident(incident), model, now)
    people = [one for one in plan.inbox.values() if one != actor.user]
    urgent = incident.severity == IncidentSeverity.P1
    notices.notify(
        people=people,
        kind="incident.open",
        key=notice_key(incident, incident.severity),
        subject=str(incident.endpoint),
        subject_url=f"/incidents/{incident.pk}/",
        severity=Severity.CRITICAL if urgent else Severity.WARNING,
        data={"severity": incident.severity, "title": incident.title},
    )
    mails = reached(plan, but=actor.user)
    receivers = list(mails)
    if incident.cause != BY_ALERT:
        for channel in plan.channels.values():
            receivers += deliveries.receivers_of(channel)
    message = messages.of_incident(incident, "firing", now=now)
    times = incident.events.filter(kind="called").count()
    for receiver in receivers:
        deliveries.write(
            _about(incident),
            receiver,
            message=message,
            dedup=f"firing:incident:{incident.pk}:{times}",
            actor=actor,
            now=now,
        )
    if incident.state == IncidentState.OPEN:
        say_nobody(str(incident.endpoint), f"/incidents/{incident.pk}/", plan, mails)
        if plan.policy is not None:
            begin_escalation(policy=plan.policy, now=now, incident=incident)
    return people


def stop_calling(incident: Incident, now: datetime) -> None:
    """Nobody needs to come any more: its notices leave every inbox, its escalation ends."""
    for severity in IncidentSeverity.values:
        notices.end(key=notice_key(incident, severity))
    end_escalations(why="resolved", now=now, incident=incident)


def tell_it_is_over(incident: Incident, actor: Actor, now: datetime) -> None:
    """Whoever was told of it, but by the inbox, is told that it is over."""
    message = messages.of_incident(incident, "resolved", now=now)
    for first, _ in deliveries.told_of(incident=incident):
        tell_that_it_is_over(
            first,
            _about(incident),
            message,
            dedup=f"incident:{incident.pk}:{incident.resolved_at}",
            actor=actor,
            now=now,
        )


def notice_key(incident: Incident, severity: str) -> str:
    """The key of the notice that an incident is this grave: becoming graver is said anew."""
    return f"incident:{incident.pk}:{severity}"


def _about(incident: Incident) -> Occurrence:
    return Occurrence(
        thread=f"incident:{incident.pk}",
        subject=str(incident.endpoint),
        url=f"/incidents/{incident.pk}/",
        severity=incident.severity,
        incident=incident,
    )
