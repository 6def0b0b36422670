"""Keeping alerts quiet for a while, and for a reason."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import FieldError, Invalid, NotFound
from console.services import audit
from deployments.models import AlertSeverity, Silence
from deployments.services.alerts.records import TOPIC
from deployments.services.alerts.scopes import Scope, scope_of

LONGEST = timedelta(days=30)
LONGEST_REASON = 500


def create_silence(
    *,
    ends_at: datetime,
    reason: str,
    actor: Actor,
    starts_at: datetime | None = None,
    rule: str = "",
    severity: str = "",
    environment: str = "",
    model: str = "",
    node: str = "",
    label: str = "",
) -> Silence:
    """Tell nobody of alerts that match all that is named, from a moment until another.

    They are seen all the same. It ends by itself. Raises Invalid with a pointer for each fault
    (nothing named, no reason, a time that is over or longer than 30 days), NotAllowed.
    """
    require(actor, "alert.silence")
    scope = scope_of(environment, model, node, actor)
    require(actor, "alert.silence", scope.team_id)
    now = timezone.now()
    begins = starts_at or now
    named = any((rule, severity, environment, model, node, label))
    _check(begins, ends_at, reason, severity, named=named, now=now)
    with transaction.atomic():
        silence = Silence.objects.create(
            rule_name=rule.strip()[:80],
            severity=severity,
            environment=scope.environment,
            model=scope.model,
            node=scope.node,
            label=label.strip()[:120],
            starts_at=begins,
            ends_at=ends_at,
            reason=reason.strip(),
            author=actor.user,
        )
        _record(silence, scope, "silence.create", actor, reason.strip())
    return silence


def end_silence(*, silence_id: uuid.UUID, actor: Actor) -> Silence:
    """End it before its time; twice is once. What still fires is told at the next look.

    Raises NotFound, NotAllowed.
    """
    require(actor, "alert.silence")
    with transaction.atomic():
        silence = (
            Silence.objects.visible_to(actor.user)
            .select_for_update(of=("self",))
            .select_related("environment", "model", "node", "author")
            .filter(pk=silence_id)
            .first()
        )
        if silence is None:
            raise NotFound("There is no such silence.", hint="Look at the list of silences.")
        scope = Scope(silence.environment, silence.model, silence.node)
        require(actor, "alert.silence", scope.team_id)
        now = timezone.now()
        if silence.ended_at is None and silence.ends_at > now:
            silence.ended_at, silence.ended_by = now, actor.user
            silence.save(update_fields=["ended_at", "ended_by"])
            _record(silence, scope, "silence.end", actor, "")
    return silence


def _check(
    begins: datetime, ends: datetime, reason: str, severity: str, *, named: bool, now: datetime
) -> None:
    faults = []
    if not named:
        faults.append(FieldError("/rule", "Name a rule, or what it is about: not everything."))
    if severity and severity not in AlertSeverity.values:
        faults.append(FieldError("/severity", f"One of {', '.join(AlertSeverity.values)}."))
    if not reason.strip():
        faults.append(FieldError("/reason", "Say why: others will ask."))
    elif len(reason.strip()) > LONGEST_REASON:
        faults.append(FieldError("/reason", f"At most {LONGEST_REASON} characters."))
    if ends <= max(begins, now):
        faults.append(FieldError("/ends_at", "Later than it begins, and than now."))
    elif ends - begins > LONGEST:
        faults.append(FieldError("/ends_at", f"At most {LONGEST.days} days after it begins."))
    if faults:
        raise Invalid(
            "That is no silence.",
            code="invalid_silence",
            hint="Mend what is named, and send it again.",
            errors=tuple(faults),
        )


def _record(silence: Silence, scope: Scope, action: str, actor: Actor, reason: str) -> None:
    live.publish(TOPIC, "alert.changed")
    audit.record(
        actor=actor,
        action=action,
        subject=str(scope) or "alerts",
        subject_url="/alerts/silences/",
        reason=reason,
        after={
            "silence": str(silence.pk),
            "rule": silence.rule_name,
            "severity": silence.severity,
            "label": silence.label,
            **scope.to_json(),
            "from": silence.starts_at.isoformat(),
            "until": silence.ends_at.isoformat(),
        },
    )
