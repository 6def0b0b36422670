"""Writing the audit trail, and checking that nobody rewrote it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from console.actors import Actor
from console.models import AuditEntry, AuditHead
from console.rules.audit_chain import ChainFault, EntryContent, Link, entry_digest, find_faults


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
    AuditHead.objects.get_or_create(id=1)
    head = AuditHead.objects.select_for_update().get(id=1)
    entry = AuditEntry(
        sequence=head.sequence + 1,
        at=timezone.now(),
        actor_username=actor.user.username,
        actor_id_text=str(actor.user.pk),
        action=action,
        subject=subject[:200],
        subject_url=subject_url,
        before=before,
        after=after,
        reason=reason,
        source=actor.source,
        request_id=actor.request_id,
        previous_digest=head.digest,
    )
    entry.digest = entry_digest(head.digest, content_of(entry))
    entry.save(force_insert=True)
    head.sequence, head.digest = entry.sequence, entry.digest
    head.save(update_fields=["sequence", "digest"])
    return entry


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


def verify_chain() -> tuple[int, list[ChainFault]]:
    """Check every entry; gives how many there are and where the chain is broken (at most 20)."""
    with transaction.atomic():
        head = AuditHead.objects.select_for_update().filter(id=1).first() or AuditHead()
        faults = list(
            find_faults(_links(), head_sequence=head.sequence, head_digest=head.digest)
        )
    return head.sequence, faults


def _links() -> Iterator[Link]:
    for entry in AuditEntry.objects.order_by("sequence").iterator(chunk_size=2000):
        yield Link(content_of(entry), entry.previous_digest, entry.digest)
