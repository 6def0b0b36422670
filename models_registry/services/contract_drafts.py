"""Drafts of contracts: written together, never over each other, until they are proposed."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotAllowed, Stale, TooLarge
from console.models import Role
from console.rules.canonical import digest, text_fault
from console.services import audit
from models_registry.models import ContractDraft, RegisteredModel, ServiceContract
from models_registry.rules.contract_yaml import MAX_BYTES
from models_registry.services.catalog import lock_model, require_part_in
from models_registry.services.contracts import propose_contract

MAX_OPEN_DRAFTS = 50
MAX_TITLE = 120


class StaleDraft(Stale):
    """Somebody saved the draft since; `current` is how it stands now."""

    def __init__(self, current: ContractDraft) -> None:
        super().__init__(
            f"{current.changed_by.username} saved edition {current.edition} of “{current.title}” "
            "while you wrote.",
            code="stale_draft",
            hint="Nothing is lost: compare the two texts, then save yours over it or take theirs.",
        )
        self.current = current


def create_draft(
    *, model: RegisteredModel, title: str = "", text: str, actor: Actor
) -> ContractDraft:
    """A draft of the model's next contract; its text may be wrong, but not too large.

    Raises Conflict `too_many_drafts`, TooLarge, Invalid for a text that cannot be stored.
    """
    require(actor, "contract.draft", model.team_id)
    require_part_in(model, actor)
    text, title = _checked_text(text), _checked_title(title)
    with transaction.atomic():
        model = lock_model(model)
        opened = ContractDraft.objects.filter(
            model=model, proposed_as__isnull=True, discarded_at__isnull=True
        ).count()
        if opened >= MAX_OPEN_DRAFTS:
            raise Conflict(
                f"{model.name} has {opened} open drafts already.",
                code="too_many_drafts",
                hint="Discard those that nobody needs.",
            )
        draft = ContractDraft.objects.create(
            model=model,
            title=title or f"Revision {model.last_contract_revision + 1}",
            text=text,
            created_by=actor.user,
            changed_by=actor.user,
        )
        _record(draft, "draft.create", actor, after=_facts(draft))
    return draft


def change_draft(
    *, draft: ContractDraft, edition: int, text: str, title: str | None = None, actor: Actor
) -> ContractDraft:
    """Save the draft's text, made from `edition` of it. The same text again changes nothing.

    Raises StaleDraft when somebody saved another edition since, Conflict `draft_closed` once it
    is proposed or discarded, TooLarge, Invalid for a text that cannot be stored.
    """
    text = _checked_text(text)
    with transaction.atomic():
        draft = _locked(draft, actor)
        _check_open(draft)
        return _save(draft, edition, text, title, actor)


def discard_draft(*, draft: ContractDraft, reason: str = "", actor: Actor) -> ContractDraft:
    """Put a draft away; discarding twice is one discard. For its author, the owner and admins."""
    with transaction.atomic():
        draft = _locked(draft, actor)
        if draft.discarded_at is not None:
            return draft
        _check_open(draft)
        if not may_discard(draft, actor):
            raise NotAllowed(
                f"“{draft.title}” was started by {draft.created_by.username}.",
                code="not_your_draft",
                hint="Its author, the model's owner or a platform admin can discard it.",
            )
        draft.discarded_at = timezone.now()
        draft.save(update_fields=["discarded_at", "changed_at"])
        # The text stays readable: an audit entry alone would not bring it back.
        _record(draft, "draft.discard", actor, before=_facts(draft), reason=reason)
    return draft


def may_discard(draft: ContractDraft, actor: Actor) -> bool:
    """Whether the draft is the actor's to discard."""
    mine = actor.user.pk in (draft.created_by_id, draft.model.owner_id)
    return mine or actor.user.is_superuser or actor.user.has_role(Role.PLATFORM_ADMIN)


def propose_draft(
    *,
    draft: ContractDraft,
    edition: int,
    text: str | None = None,
    title: str | None = None,
    note: str = "",
    acknowledge_breaking: bool = False,
    actor: Actor,
) -> ServiceContract:
    """The contract that the draft becomes; sent twice it is one proposal.

    `text` is saved first, as `change_draft` does. When the document is refused nothing is saved:
    raises what `change_draft` and `propose_contract` raise.
    """
    with transaction.atomic():
        draft = _locked(draft, actor)
        if draft.proposed_as is not None:
            return draft.proposed_as
        _check_open(draft)
        draft = _save(
            draft, edition, draft.text if text is None else _checked_text(text), title, actor
        )
        contract = propose_contract(
            model=draft.model,
            document=draft.text,
            media="yaml",
            note=note,
            acknowledge_breaking=acknowledge_breaking,
            actor=actor,
        )
        draft.proposed_as = contract
        draft.save(update_fields=["proposed_as", "changed_at"])
        _record(draft, "draft.propose", actor, after={**_facts(draft), "contract": str(contract)})
    return contract


def subject_of(draft: ContractDraft) -> str:
    """How audit entries name the draft."""
    return f"{draft.model.name} draft {draft.pk}"


def url_of(draft: ContractDraft) -> str:
    """The draft's page."""
    return f"/models/{draft.model.name}/contracts/drafts/{draft.pk}/"


def _locked(draft: ContractDraft, actor: Actor) -> ContractDraft:
    """The draft's row under its lock, for somebody who may write it."""
    # The lock first, the rows beside it then: joined, a row whose `changed_by` changes while the
    # lock is waited for would be no row of the answer any more.
    found = ContractDraft.objects.select_for_update().get(pk=draft.pk)
    require(actor, "contract.draft", found.model.team_id)
    require_part_in(found.model, actor)
    return found


def _check_open(draft: ContractDraft) -> None:
    if draft.proposed_as is not None:
        raise Conflict(
            f"“{draft.title}” was proposed as {draft.proposed_as}.",
            code="draft_closed",
            hint="Start another draft from that revision.",
        )
    if draft.discarded_at is not None:
        raise Conflict(
            f"“{draft.title}” was discarded.",
            code="draft_closed",
            hint="Start another draft; its text can still be copied.",
        )


def _save(
    draft: ContractDraft, edition: int, text: str, title: str | None, actor: Actor
) -> ContractDraft:
    title = draft.title if title is None else _checked_title(title) or draft.title
    if (text, title) == (draft.text, draft.title):
        return draft
    if edition != draft.edition:
        raise StaleDraft(draft)
    before = _facts(draft)
    draft.text, draft.title = text, title
    draft.edition += 1
    draft.changed_by = actor.user
    draft.save(update_fields=["text", "title", "edition", "changed_by", "changed_at"])
    _record(draft, "draft.change", actor, before=before, after=_facts(draft))
    return draft


def _checked_text(text: str) -> str:
    """The text with the line breaks of the house; what the database or UTF-8 cannot hold is not."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise TooLarge(
            f"The draft is larger than {MAX_BYTES // 1024} KiB.",
            code="draft_too_large",
            hint="A contract is a few KiB. Leave out what is not part of it.",
        )
    if "\x00" in text or text_fault(text):
        raise Invalid(
            "The draft holds a character that cannot be stored (U+0000 or half of a pair).",
            code="bad_text",
            hint="Remove it; it may have come with the clipboard.",
            errors=(FieldError("/text", "holds a character that cannot be stored"),),
        )
    return text


def _checked_title(title: str) -> str:
    title = " ".join(title.split())
    if len(title) > MAX_TITLE or not title.isprintable():
        raise Invalid(
            f"A draft's title is one line of at most {MAX_TITLE} characters.",
            code="bad_title",
            errors=(FieldError("/title", f"is not a line of at most {MAX_TITLE} characters"),),
        )
    return title


def _facts(draft: ContractDraft) -> dict[str, Any]:
    """What the trail keeps: everybody who sees the model reads it, the words are for its people."""
    return {
        "edition": draft.edition,
        "digest": digest(draft.text.encode()),
        "bytes": len(draft.text.encode()),
    }


def _record(
    draft: ContractDraft,
    action: str,
    actor: Actor,
    *,
    before: Any = None,
    after: Any = None,
    reason: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=subject_of(draft),
        subject_url=url_of(draft),
        before=before,
        after=after,
        reason=reason,
    )
    live.publish(f"model:{draft.model.name}", "draft.changed", {"draft": draft.pk})
