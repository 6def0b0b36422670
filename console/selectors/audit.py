"""What the pages and the API show of the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from console.models import AuditEntry, User
from console.selectors.visibility import shown_to


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


def audit_entries(wanted: AuditFilter, *, user: User) -> QuerySet[AuditEntry]:
    """Entries that match, newest first (one query).

    Left out is what speaks of a model that the user may not see, and of other people's uploads.
    Subject and action match from their start, so that an index serves them at any size.
    """
    entries = entries_shown_to(user).order_by(*wanted.ordering)
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


def entries_shown_to(user: User) -> QuerySet[AuditEntry]:
    """What of the trail exists for a person: all of it for who sees all models."""
    entries = shown_to(AuditEntry.objects.all(), user)
    if user.sees_all_models:
        return entries
    # The name of a file may say what nobody else should know; whose it is knows it anyway.
    others_uploads = Q(subject__startswith="upload ") & ~Q(actor_username=user.username)
    return entries.exclude(others_uploads)
