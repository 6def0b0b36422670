"""What the pages and the API show of the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from console.models import AuditEntry


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What to list; an empty value filters nothing. `before` and `after` bound the time."""

    actor: str = ""
    action: str = ""
    subject: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def ordering(self) -> tuple[str, ...]:
        """Newest first; by time where times bound the list, so that their index finds its start."""
        return ("-at", "-sequence") if self.since or self.until else ("-sequence",)

    @property
    def is_empty(self) -> bool:
        return not (self.actor or self.action or self.subject or self.since or self.until)


def audit_entries(wanted: AuditFilter) -> QuerySet[AuditEntry]:
    """Entries that match, newest first (one query).

    Subject and action match from their start, so that an index serves them at any size.
    """
    entries = AuditEntry.objects.order_by(*wanted.ordering)
    if wanted.actor:
        entries = entries.filter(actor_username=wanted.actor)
    if wanted.action:
        entries = entries.filter(action__startswith=wanted.action)
    if wanted.subject:
        entries = entries.filter(subject__startswith=wanted.subject)
    if wanted.since:
        entries = entries.filter(at__gte=wanted.since)
    if wanted.until:
        entries = entries.filter(at__lt=wanted.until)
    return entries
