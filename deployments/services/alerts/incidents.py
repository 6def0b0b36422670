"""Urgent alerts of an endpoint are part of its incident: they begin one, join it, and end it.

An endpoint has one unresolved incident at most, so alerts make no flood of them. Nobody is called
by the incident that an alert begins: the alert's own announcement does that.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from console.actors import Actor
from deployments.models import Alert, AlertSeverity, AlertState, Incident, IncidentState
from deployments.services.alerts.records import SYSTEM
from deployments.services.incidents.records import (
    add_event,
    end_incident,
    make_graver,
    open_incident,
    unresolved_incident,
)

CAUSE = "alert"
LINGERS = timedelta(minutes=10)
"""Numbers of the last minutes are bad for a while after callers are well: no new disturbance."""


def join_incident(alert: Alert, now: datetime) -> Incident | None:
    """The incident that an alert belongs to: begun where its endpoint has none.

    None for what is not urgent, or of no endpoint. Belongs inside a transaction.
    """
    if alert.severity != AlertSeverity.P1 or alert.endpoint is None:
        return None
    actor = Actor.system(SYSTEM)
    incident = unresolved_incident(alert.endpoint)
    again = incident is not None and incident.ended_at is not None
    if incident is None or (again and _is_new(alert, incident)):
        incident = open_incident(
            endpoint=alert.endpoint,
            cause=CAUSE,
            title=alert.title,
            severity="P1",
            at=alert.fired_at or now,
            actor=actor,
            version=alert.version or None,
            calling=False,
        )
    add_event(
        incident=incident,
        kind="alert",
        at=alert.fired_at or now,
        actor=actor,
        message=alert.title,
        data={"alert": str(alert.pk), "version": alert.version or None},
    )
    if incident.ended_at is None:
        make_graver(
            incident=incident,
            severity=alert.severity,
            at=alert.fired_at or now,
            actor=actor,
            why=alert.title,
        )
    Alert.objects.filter(pk=alert.pk).update(incident=incident)
    alert.incident = incident
    return incident


def settle_incident(alert: Alert, now: datetime) -> None:
    """Callers are well again when the last urgent alert is over that began an incident.

    One that began otherwise (a rollback, say) is ended by what ends that. People resolve it.
    """
    incident = alert.incident
    if incident is None or incident.state == IncidentState.RESOLVED:
        return
    actor = Actor.system(SYSTEM)
    add_event(
        incident=incident,
        kind="alert_over",
        at=alert.resolved_at or now,
        actor=actor,
        message=alert.title,
        data={"alert": str(alert.pk), "version": alert.version or None},
    )
    others = incident.alerts.filter(state=AlertState.FIRING).exclude(pk=alert.pk)
    if incident.cause == CAUSE and not others.exists():
        end_incident(incident=incident, at=alert.resolved_at or now, actor=actor)


def _is_new(alert: Alert, incident: Incident) -> bool:
    ended = incident.ended_at
    return ended is not None and alert.started_at - ended > LINGERS
