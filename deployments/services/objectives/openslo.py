"""OpenSLO taken in: a draft of the model's next contract with these objectives."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from console.actors import Actor, require
from console.errors import NotFound
from deployments.rules.objectives.openslo_reading import read
from models_registry.models import ContractDraft, RegisteredModel, ServiceContract
from models_registry.rules.contract_edits import Edit, edit_text
from models_registry.services.contract_drafts import create_draft
from models_registry.services.contract_starts import Start, starting_text


@dataclass(frozen=True, slots=True)
class Imported:
    """The draft, its objectives as the contract writes them, and documents that were not read."""

    draft: ContractDraft
    objectives: list[dict[str, object]]
    left_out: list[str]


def import_openslo(
    *, model: str, text: str, service: str = "", title: str = "", actor: Actor
) -> Imported:
    """Start a draft from the contract that holds, its objectives replaced by those of `text`.

    Nothing is promised by that: the draft is proposed and signed like any other. Raises NotFound,
    NotAllowed, Invalid `invalid_openslo`, Conflict `too_many_drafts`.
    """
    require(actor, "contract.draft")
    registered = RegisteredModel.objects.visible_to(actor.user).filter(name=model).first()
    if registered is None:
        raise NotFound(f"There is no model {model[:63]}.", hint="See the list of models.")
    found = read(text, model=model, service=service)
    holding = ServiceContract.objects.holding().filter(model=registered).order_by("-revision")
    revision = holding.values_list("revision", flat=True).first()
    with transaction.atomic():
        begun = starting_text(registered, Start(revision=revision))
        edited = edit_text(begun, [Edit(("objectives",), [*found.objectives])])
        draft = create_draft(
            model=registered, title=title or "From OpenSLO", text=edited.text, actor=actor
        )
    return Imported(draft, list(found.objectives), found.left_out)
