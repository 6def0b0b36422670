"""Writing the audit trail, and checking that nobody rewrote it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from django.db import connection, transaction
from django.db.models import Subquery
from django.db.models.functions import Coalesce
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
    head = _locked_head()
    entry = AuditEntry(
        sequence=head.sequence + 1,
        at=timezone.now(),
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
    """Check every entry; gives how many there are and where the chain is broken (at most 20).

    No lock is taken, so writers go on: an append moves head and entries in one transaction, and
    what is appended meanwhile lies behind the head that is checked here.
    """
    with transaction.atomic():
        head = AuditHead.objects.filter(id=1).first() or AuditHead()
        faults = list(
            find_faults(_links(head.sequence), head_sequence=head.sequence, head_digest=head.digest)
        )
        if extra := _entries_behind_the_head():
            faults.append(ChainFault(extra, "it was added behind the chain's head"))
    return head.sequence, faults


def _locked_head() -> AuditHead:
    head = AuditHead.objects.select_for_update().filter(id=1).first()
    if head is None:
        AuditHead.objects.get_or_create(id=1)
        head = AuditHead.objects.select_for_update().get(id=1)
    return head


def _links(last: int) -> Iterator[Link]:
    entries = AuditEntry.objects.filter(sequence__lte=last).order_by("sequence")
    for entry in entries.iterator(chunk_size=2000):
        yield Link(content_of(entry), entry.previous_digest, entry.digest)


def _entries_behind_the_head() -> int:
    """Sequence of the newest entry when it is behind the head, else 0; seen in one statement."""
    head = AuditHead.objects.filter(id=1).values("sequence")[:1]
    newest = (
        AuditEntry.objects.annotate(head=Coalesce(Subquery(head), 0))
        .order_by("-sequence")
        .values_list("sequence", "head")
        .first()
    )
    return newest[0] if newest and newest[0] > newest[1] else 0
