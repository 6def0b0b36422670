"""What the pages and the API show of the audit trail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from console.models import AuditCheckpoint, AuditEntry, AuditHead, AuditSink, Job, User
from console.rules.audit_occurrences import DENIALS
from console.selectors.visibility import hidden

RECENT_CHECKPOINTS = 5


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What to list; an empty value filters nothing. `since` and `until` bound the time.

    `outcome` is empty or `denied`: what was refused, to whomever.
    """

    actor: str = ""
    action: str = ""
    subject: str = ""
    outcome: str = ""
    request_id: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def ordering(self) -> tuple[str, ...]:
        """Newest first; by time where times bound the list, so that their index finds its start."""
        return ("-at", "-sequence") if self.since or self.until else ("-sequence",)

    @property
    def is_empty(self) -> bool:
        return not self.words()

    def words(self) -> dict[str, str]:
        """What is filtered by, as texts by name: for the head of an export."""
        texts = {
            "actor": self.actor,
            "action": self.action,
            "subject": self.subject,
            "outcome": self.outcome,
            "request_id": self.request_id,
            "from": self.since.isoformat() if self.since else "",
            "to": self.until.isoformat() if self.until else "",
        }
        return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, slots=True)
class ChainState:
    """How the trail stands: its size, the last full check, what was signed, where it goes."""

    entries: int
    kept_after: int
    since: datetime | None
    check: Job | None
    checkpoints: list[AuditCheckpoint]
    sinks: list[AuditSink]


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
    if wanted.outcome == "denied":
        entries = entries.filter(action__in=DENIALS)
    if wanted.request_id:
        entries = entries.filter(request_id=wanted.request_id)
    if wanted.since:
        entries = entries.filter(at__gte=wanted.since)
    if wanted.until:
        entries = entries.filter(at__lt=wanted.until)
    return entries


def chain_state() -> ChainState:
    """How the trail stands (five queries, whatever its size)."""
    head = AuditHead.objects.filter(id=1).first() or AuditHead()
    oldest = AuditEntry.objects.order_by("sequence").values_list("at", flat=True).first()
    return ChainState(
        entries=head.sequence - head.kept_after,
        kept_after=head.kept_after,
        since=oldest,
        check=Job.objects.filter(kind="audit_verify").order_by("-created_at").first(),
        checkpoints=list(checkpoints()[:RECENT_CHECKPOINTS]),
        sinks=list(sinks()),
    )


def checkpoints() -> QuerySet[AuditCheckpoint]:
    """Signed checkpoints, newest first (one query)."""
    return AuditCheckpoint.objects.order_by("-sequence")


def sinks() -> QuerySet[AuditSink]:
    """Where the trail is forwarded to, by name (one query)."""
    return AuditSink.objects.order_by("name")


def entries_shown_to(user: User) -> QuerySet[AuditEntry]:
    """What of the trail exists for a person: all of it for who sees all models.

    What they did, or tried, themselves stays: a refusal that showed only where there is nothing
    would tell where there is something. The name of a file may say what nobody else should know.
    """
    entries = AuditEntry.objects.all()
    if user.sees_all_models:
        return entries
    kept_back = hidden(user) | Q(subject__startswith="upload ")
    return entries.exclude(kept_back & ~Q(actor_username=user.username))
