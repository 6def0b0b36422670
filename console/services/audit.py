"""Writing the audit trail: the one way in which an entry comes to be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from console.actors import Actor
from console.models import AuditEntry, AuditHead
from console.rules.audit_chain import EntryContent, Link, entry_digest
from console.rules.audit_partitions import TABLE, Month


def record(
    *,
    actor: Actor,
    action: str,
    subject: str,
    subject_url: str = "",
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> AuditEntry:
    """Append one entry, inside the caller's transaction and as late in it as possible.

    The head row is locked until that transaction ends, so entries are strictly ordered.
    `before` and `after` are JSON values. Raises RuntimeError outside a transaction.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("audit.record belongs inside the transaction of what it records")
    sequence, previous, at = _lock_head()
    entry = AuditEntry(
        sequence=sequence + 1,
        at=at,
        actor_username=actor.user.username,
        actor_id_text=str(actor.user.pk),
        action=action,
        subject=subject[:200],
        subject_url=subject_url[:300],
        before=before,
        after=after,
        reason=reason,
        source=actor.source,
        request_id=actor.request_id,
        previous_digest=previous,
    )
    entry.digest = entry_digest(previous, content_of(entry))
    entry.save(force_insert=True)
    AuditHead.objects.filter(id=1).update(sequence=entry.sequence, digest=entry.digest)
    return entry


def lock_head() -> AuditHead:
    """The chain's end, locked until the transaction ends: nothing is appended meanwhile."""
    AuditHead.objects.get_or_create(id=1)
    return AuditHead.objects.select_for_update().get(id=1)


def content_of(entry: AuditEntry) -> EntryContent:
    """The part of a row that its digest covers."""
    return EntryContent(
        sequence=entry.sequence,
        at=entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        actor_username=entry.actor_username,
        actor_id_text=entry.actor_id_text,
        action=entry.action,
        subject=entry.subject,
        subject_url=entry.subject_url,
        before=entry.before,
        after=entry.after,
        reason=entry.reason,
        source=entry.source,
        request_id=entry.request_id,
    )


def link_of(entry: AuditEntry) -> Link:
    """A row as a link of the chain."""
    return Link(content_of(entry), entry.previous_digest, entry.digest)


def make_partition(month: Month) -> None:
    """The table for a month's entries, unless it is there; writers are not kept waiting."""
    end = month.plus(1).start
    with connection.cursor() as cursor:
        cursor.execute(
            f"create table if not exists {month.partition} partition of {TABLE} "
            f"for values from ('{month.start.isoformat()}') to ('{end.isoformat()}')"
        )


def _lock_head() -> tuple[int, str, datetime]:
    """Sequence and digest of the last entry, its row locked, and the time of the next one.

    In one statement with the look for the month's table, since every writer waits here.
    """
    asked = Month.of(timezone.now())
    with connection.cursor() as cursor:
        cursor.execute(
            "select sequence, digest, to_regclass(%s) is not null from console_audithead "
            "where id = 1 for update",
            [asked.partition],
        )
        row = cursor.fetchone()
    if row is None:
        AuditHead.objects.get_or_create(id=1)
        return _lock_head()
    sequence, digest, has_partition = row
    # Taken under the lock, so that times follow the numbers.
    at = timezone.now()
    month = Month.of(at)
    if not has_partition or month != asked:
        make_partition(month)
    return sequence, digest, at
