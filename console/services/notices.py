"""Telling people what they should know of, once each, until it is seen to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import NotFound
from console.models import Notice, Severity, User
from console.services import audit


def notify(
    *,
    people: Iterable[User],
    kind: str,
    key: str,
    subject: str,
    subject_url: str = "",
    severity: str = Severity.INFO,
    data: Mapping[str, Any] | None = None,
) -> int:
    """Tell each of `people`; gives how many did not know yet.

    `key` names the cause: the same one again says nothing, whether it was seen to or not, until
    `end` was called for it. Belongs into the transaction of what it tells of.
    """
    told = 0
    with transaction.atomic():
        for person in {person.pk: person for person in people if person.is_active}.values():
            notice, created = Notice.objects.get_or_create(
                recipient=person,
                key=key[:200],
                defaults={
                    "kind": kind,
                    "severity": severity,
                    "subject": subject[:200],
                    "subject_url": subject_url[:300],
                    "data": dict(data or {}),
                },
            )
            if not created and notice.ended_at is not None:
                notice.created_at, notice.done_at, notice.ended_at = timezone.now(), None, None
                notice.severity, notice.data = severity, dict(data or {})
                notice.save()
                created = True
            if created:
                told += 1
                live.publish(f"inbox:{person.username}", "inbox.changed")
    return told


def point_elsewhere(
    *,
    key: str,
    gone: Iterable[str],
    subject: str,
    subject_url: str,
    data: Mapping[str, Any] | None = None,
) -> int:
    """What open notices lead to (`gone`, addresses) is over, but their cause goes on: they lead to
    something else, and are not said anew. Gives how many were changed."""
    with transaction.atomic():
        found = Notice.objects.filter(
            key=key[:200], ended_at__isnull=True, subject_url__in=[url[:300] for url in gone]
        )
        usernames = list(found.values_list("recipient__username", flat=True))
        found.update(subject=subject[:200], subject_url=subject_url[:300], data=dict(data or {}))
        for username in usernames:
            live.publish(f"inbox:{username}", "inbox.changed")
    return len(usernames)


def end(*, key: str) -> int:
    """The cause is gone: its notices leave everybody's inbox. Gives how many were open."""
    with transaction.atomic():
        opened = Notice.objects.filter(key=key[:200], ended_at__isnull=True)
        usernames = list(opened.values_list("recipient__username", flat=True))
        opened.update(ended_at=timezone.now())
        for username in usernames:
            live.publish(f"inbox:{username}", "inbox.changed")
    return len(usernames)


def dismiss(*, notice_id: int, actor: Actor) -> Notice:
    """One's own notice is seen to; doing it twice changes nothing. Raises NotFound."""
    require(actor, "notice.manage_own")
    with transaction.atomic():
        notice = (
            Notice.objects.select_for_update().filter(pk=notice_id, recipient=actor.user).first()
        )
        if notice is None:
            raise NotFound("There is no such notice of yours.")
        if notice.done_at is None:
            notice.done_at = timezone.now()
            notice.save(update_fields=["done_at"])
            audit.record(
                actor=actor,
                action="notice.done",
                subject=notice.subject,
                subject_url=notice.subject_url,
                after={"kind": notice.kind},
            )
            live.publish(f"inbox:{actor.user.username}", "inbox.changed")
    return notice
