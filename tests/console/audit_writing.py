"""Entries, checkpoints and the ways to change them behind the console's back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from console.models import AuditEntry, AuditHead, User
from console.rules.audit_chain import EntryContent, entry_digest
from console.services import audit
from tests.factories import actor

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
Capture = Callable[..., Any]


def write(user: User, count: int = 1, **fields: object) -> None:
    """Append entries about thing 0, thing 1 …, each in a transaction of its own."""
    for number in range(count):
        with transaction.atomic():
            audit.record(
                **{  # type: ignore[arg-type]
                    "actor": actor(user),
                    "action": "test.act",
                    "subject": f"thing {number}",
                    "after": {"number": number, "share": 0.1, "text": "né 中"},
                    **fields,
                }
            )


def tamper(*statements: str) -> None:
    """Change the table as the owner of the database could: the trigger off, and on again."""
    with connection.cursor() as cursor:
        cursor.execute("alter table console_auditentry disable trigger audit_append_only")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("alter table console_auditentry enable trigger audit_append_only")


def forge(sequence: int, *, previous: str, digest: str = "") -> None:
    """Insert an entry that nobody wrote, with a digest that fits unless another is given."""
    at = AuditEntry.objects.order_by("-sequence").values_list("at", flat=True)[0]
    entry = AuditEntry(
        sequence=sequence,
        at=at + timedelta(microseconds=1),
        actor_username="eve",
        action="test.forged",
        subject="thing",
        previous_digest=previous,
    )
    entry.digest = digest or entry_digest(previous, audit.content_of(entry))
    entry.save(force_insert=True)


def digest_at(sequence: int) -> str:
    return str(AuditEntry.objects.values_list("digest", flat=True).get(sequence=sequence))


def rewrite_from(sequence: int) -> None:
    """Change one entry and hang all that follow on it anew, the head as well."""
    previous = digest_at(sequence - 1) if sequence > 1 else "0" * 64
    statements = []
    for entry in AuditEntry.objects.filter(sequence__gte=sequence).order_by("sequence"):
        if entry.sequence == sequence:
            entry.actor_username = "eve"
        content: EntryContent = audit.content_of(entry)
        digest = entry_digest(previous, content)
        statements.append(
            f"update console_auditentry set actor_username = '{content.actor_username}', "
            f"previous_digest = '{previous}', digest = '{digest}' "
            f"where sequence = {content.sequence}"
        )
        previous = digest
    tamper(*statements)
    AuditHead.objects.update(digest=previous)
