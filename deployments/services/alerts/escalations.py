"""Waiting for somebody to acknowledge: begun when people are called, ended when one sees to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction

from console.services import notices
from deployments.models import Alert, Escalation, EscalationPolicy, Incident
from deployments.rules.alerts.escalation_steps import due_at


def begin_escalation(
    *,
    policy: EscalationPolicy,
    now: datetime,
    alert: Alert | None = None,
    incident: Incident | None = None,
) -> Escalation | None:
    """Watch that somebody acknowledges it; None when that is watched already, or has no step."""
    steps = [step.after_minutes for step in policy.steps.all()]
    first = due_at(now, steps, policy.repeats, 0)
    open_ones = Escalation.objects.filter(ended_at__isnull=True, alert=alert, incident=incident)
    if first is None or open_ones.exists():
        return None
    try:
        with transaction.atomic():
            return Escalation.objects.create(
                alert=alert, incident=incident, policy=policy, started_at=now, next_at=first
            )
    except IntegrityError:
        return None


def end_escalations(
    *,
    why: str,
    now: datetime,
    alerts: Sequence[Alert] = (),
    incident: Incident | None = None,
) -> int:
    """Nobody more is told of these: `why` is "acknowledged", "resolved" or "well"."""
    opened = Escalation.objects.filter(ended_at__isnull=True)
    opened = opened.filter(incident=incident) if incident else opened.filter(alert__in=alerts)
    ids = list(opened.values_list("pk", flat=True))
    for pk in ids:
        notices.end(key=notice_key(pk))
    if ids:
        Escalation.objects.filter(pk__in=ids).update(ended_at=now, ended_why=why, next_at=None)
    return len(ids)


def notice_key(escalation_id: int) -> str:
    """What the notices of an escalation are known by."""
    return f"escalation:{escalation_id}"
