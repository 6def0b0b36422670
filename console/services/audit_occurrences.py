"""Denials and exports, put on record by the doors: the first at once, a loop of them summed up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from console.actors import Actor
from console.models import AuditOccurrence, User
from console.rules.audit_occurrences import MOST_AT_ONCE, SUMMED_OVER, occurrence_key
from console.services import audit


def note(
    *,
    actor: Actor,
    action: str,
    subject: str,
    details: Mapping[str, Any],
    together: str,
    now: datetime,
    subject_url: str = "",
    reason: str = "",
) -> None:
    """Put what happened on record, in a transaction of its own.

    The first of a kind (actor, action, `together`) becomes an entry at once. Those that follow
    within a minute are counted, and become one entry when it is over: by the next of them, or by
    the timer.
    """
    key = occurrence_key(actor.user.username, actor.source, action, together)
    with transaction.atomic():
        row = AuditOccurrence.objects.select_for_update().filter(key=key).first()
        if row is None:
            if AuditOccurrence.objects.count() >= MOST_AT_ONCE:
                key = occurrence_key("anybody", action)
            row, created = AuditOccurrence.objects.select_for_update().get_or_create(
                key=key,
                defaults={
                    "user": actor.user,
                    "action": action,
                    "subject": subject[:200],
                    "source": actor.source[:100],
                    "last_at": now,
                    "entered_at": now,
                },
            )
            if created:
                audit.record(
                    actor=actor,
                    action=action,
                    subject=subject,
                    subject_url=subject_url,
                    after=dict(details),
                    reason=reason,
                )
                return
        row.count += 1
        row.first_at, row.last_at = row.first_at or now, now
        row.subject, row.subject_url = subject[:200], subject_url[:300]
        row.details, row.reason, row.request_id = dict(details), reason, actor.request_id
        if now - row.entered_at >= SUMMED_OVER:
            _enter(row, actor.user, now)
        row.save()


def enter_summed_up(*, now: datetime) -> int:
    """Put on record what was counted for a minute, and forget what did not go on.

    Gives the number of entries.
    """
    entered = 0
    due = AuditOccurrence.objects.filter(entered_at__lte=now - SUMMED_OVER).values_list("pk")
    for (pk,) in list(due):
        with transaction.atomic():
            row = (
                AuditOccurrence.objects.select_for_update(skip_locked=True, of=("self",))
                .select_related("user")
                .filter(pk=pk, entered_at__lte=now - SUMMED_OVER)
                .first()
            )
            if row is None:
                continue
            if row.count == 0:
                row.delete()
                continue
            _enter(row, row.user or Actor.system("timer").user, now)
            row.save()
            entered += 1
    return entered


def _enter(row: AuditOccurrence, user: User, now: datetime) -> None:
    """One entry for all that was counted, with what the last of them was."""
    audit.record(
        actor=Actor(user=user, source=row.source, request_id=row.request_id),
        action=row.action,
        subject=row.subject,
        subject_url=row.subject_url,
        after={
            **row.details,
            "times": row.count,
            "first_at": row.first_at.isoformat() if row.first_at else None,
            "last_at": row.last_at.isoformat(),
        },
        reason=row.reason,
    )
    row.count, row.first_at, row.entered_at = 0, None, now
