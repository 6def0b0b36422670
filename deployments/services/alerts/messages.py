"""What a message says, language aside: written when it happens, put into words when it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from deployments.models import Alert, Incident
from deployments.selectors.incidents.spells import began_last

MOST_ITEMS = 20
_ORDER = {"P1": 0, "P2": 1, "P3": 2}


def of_alerts(alerts: Sequence[Alert], why: str, *, now: datetime) -> dict[str, Any]:
    """A message about alerts that belong together, the gravest first."""
    ordered = sorted(alerts, key=lambda one: (_ORDER.get(one.severity, 9), one.started_at))
    return {
        "why": why,
        "at": now.isoformat(),
        "count": len(ordered),
        "items": [_alert(one) for one in ordered[:MOST_ITEMS]],
    }


def of_incident(incident: Incident, why: str, *, now: datetime) -> dict[str, Any]:
    """A message about an incident, and the spell that it is in (one query)."""
    endpoint = incident.endpoint
    item = {
        "id": str(incident.pk),
        "thing": "incident",
        "title": incident.title,
        "data": {},
        "severity": incident.severity,
        "state": incident.state,
        "subject": str(endpoint),
        "environment": endpoint.environment.name,
        "model": endpoint.model.name,
        "version": incident.version or 0,
        "rule": "incident",
        "cause": incident.cause,
        "started_at": began_last(incident).isoformat(),
        "ended_at": _moment(incident.ended_at),
        "path": f"/incidents/{incident.pk}/",
    }
    return {"why": why, "at": now.isoformat(), "count": 1, "items": [item]}


def of_test(*, now: datetime) -> dict[str, Any]:
    """A message that says that it is a test."""
    return {"why": "test", "at": now.isoformat(), "count": 0, "items": []}


def _alert(alert: Alert) -> dict[str, Any]:
    endpoint, node = alert.endpoint, alert.node
    return {
        "id": str(alert.pk),
        "thing": "alert",
        "title": alert.title,
        "data": alert.data,
        "severity": alert.severity,
        "state": alert.state,
        "subject": alert.subject,
        "environment": endpoint.environment.name if endpoint else "",
        "model": endpoint.model.name if endpoint else "",
        "node": node.name if node else "",
        "device": alert.device,
        "version": alert.version,
        "label": alert.label,
        "rule": alert.rule_name,
        "signal": alert.signal,
        "value": alert.fired_value,
        "threshold": alert.threshold,
        "unit": alert.unit,
        "started_at": alert.started_at.isoformat(),
        "ended_at": _moment(alert.resolved_at),
        "path": f"/alerts/{alert.pk}/",
    }


def _moment(at: datetime | None) -> str:
    return at.isoformat() if at else ""
