"""Who may sign a contract now: an active person in a seat of the model, once, while it is open."""

from __future__ import annotations

from datetime import datetime

from console.actors import Actor
from console.errors import Conflict, NotAllowed
from console.models import User
from models_registry.models import (
    ContractSignature,
    ContractState,
    RegisteredModel,
    Seat,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules import contract_validity
from models_registry.services.contract_checks import contract_that_holds
from models_registry.services.contract_records import subject_of


def seat_of(model: RegisteredModel, actor: Actor) -> str:
    """The seat that the actor signs for, as things stand under the model's lock.

    The person and the seat are read anew: what was true when the page was opened, or when the
    payload was fetched, counts for nothing. Raises NotAllowed: `person_deactivated`, `no_seat`,
    `role_missing`.
    """
    person = User.objects.get(pk=actor.user.pk)
    if not person.is_active:
        raise NotAllowed(
            f"{person.username} has been deactivated and signs nothing any more.",
            code="person_deactivated",
            hint="The model's owner gives the seat to somebody else, who then signs.",
        )
    held = SeatHolder.objects.filter(model=model, user=person).order_by("seat").first()
    if held is None:
        raise NotAllowed(
            f"{person.username} sits in no seat of {model.name}, so there is nothing to sign.",
            code="no_seat",
            hint="The model's owner assigns the seats.",
        )
    if not person.is_superuser and held.seat not in person.roles_in(model.team_id):
        raise NotAllowed(
            f"{person.username} sits in the seat {Seat(held.seat).label} of {model.name} but does "
            "not have that role any more.",
            code="role_missing",
            hint="Have the role given back, or the seat given to somebody who has it.",
        )
    return str(held.seat)


def earlier_signature(
    contract: ServiceContract, seat: str, actor: Actor
) -> ContractSignature | None:
    """The actor's own signature, or the one that the seat has already."""
    signatures = list(contract.signatures.select_related("key"))
    own = [s for s in signatures if s.signer_id == actor.user.pk]
    return next(iter(own or [s for s in signatures if s.seat == seat]), None)


def check_signable(
    contract: ServiceContract, earlier: ContractSignature | None, actor: Actor, now: datetime
) -> None:
    """Raise Conflict unless the contract waits for this signature.

    `contract_not_proposed`, `contract_expired`, `newer_contract_in_force`, `already_signed`,
    `seat_signed`.
    """
    subject = subject_of(contract)
    if contract.state != ContractState.PROPOSED:
        raise Conflict(
            f"{subject} is {contract.get_state_display()}: only a proposal is signed.",
            code="contract_not_proposed",
            hint="Propose the next revision.",
        )
    contract_validity.check_signable(subject, contract.valid_until, now)
    current = contract_that_holds(contract.model)
    if current is not None and current.revision > contract.revision:
        raise Conflict(
            f"A newer contract, revision {current.revision}, is in force or was since.",
            code="newer_contract_in_force",
            hint="Propose the next revision.",
        )
    if earlier is None:
        return
    seat = Seat(earlier.seat).label
    if earlier.signer_id == actor.user.pk:
        raise Conflict(
            f"You have signed {subject} already, as {seat}.",
            code="already_signed",
            hint="Nobody signs twice, or for two seats.",
        )
    raise Conflict(
        f"The seat {seat} of {subject} has been signed by somebody else.",
        code="seat_signed",
        hint="Propose the next revision when the seat has changed hands.",
    )
