"""Drafts of contracts, for the people of their model."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from console.errors import NotFound
from console.models import Role, TeamMembership, User
from models_registry.models import ContractDraft, SeatHolder


def draft_list(user: User, model_name: str, *, state: str = "open") -> QuerySet[ContractDraft]:
    """A model's drafts, changed last first, in 1 query: `open`, `proposed`, `discarded` or all.

    Only its people see them: a draft is not yet said to anybody.
    """
    drafts = _for(user).filter(model__name=model_name)
    if state == "open":
        return drafts.filter(proposed_as__isnull=True, discarded_at__isnull=True)
    if state == "proposed":
        return drafts.filter(proposed_as__isnull=False)
    return drafts.filter(discarded_at__isnull=False) if state == "discarded" else drafts


def find_draft(user: User, model_name: str, draft_id: int) -> ContractDraft:
    """One draft of that very model. Raises NotFound, in the same words for one not to be seen."""
    draft = None
    # A number that no row can have is no number of ours.
    if draft_id < 2**63:
        draft = _for(user).filter(model__name=model_name, pk=draft_id).first()
    if draft is None:
        raise NotFound(
            f"{model_name[:63]} has no draft {draft_id}.",
            hint="It may belong to another model, or to people of whom you are not one.",
        )
    return draft


def _for(user: User) -> QuerySet[ContractDraft]:
    drafts = ContractDraft.objects.visible_to(user).select_related(
        "model", "model__owner", "created_by", "changed_by", "proposed_as"
    )
    if user.is_superuser or user.has_role(Role.PLATFORM_ADMIN):
        return drafts
    seats = SeatHolder.objects.filter(user=user).values("model")
    teams = TeamMembership.objects.filter(user=user).values("team")
    return drafts.filter(Q(model__owner=user) | Q(model__in=seats) | Q(model__team__in=teams))
