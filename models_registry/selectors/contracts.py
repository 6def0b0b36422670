"""Contracts as lists and pages show them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Prefetch, QuerySet

from console.errors import NotFound
from console.models import SigningKey, User
from console.rules.key_life import outcome_of
from models_registry.models import (
    ContractSignature,
    ContractState,
    Seat,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules import contract_clauses, contract_document, contract_validity
from models_registry.rules.contract_changes import breaking_changes
from models_registry.rules.contract_clauses import ChecklistRow
from models_registry.rules.contract_diff import Change, diff
from models_registry.rules.contract_terms import Term, terms
from models_registry.rules.contract_types import ContractDocument


@dataclass(frozen=True, slots=True)
class SeatSignatureRow:
    """A seat of the contract: who should sign, and the signature once it is there."""

    seat: str
    label: str
    holder: User | None
    signature: ContractSignature | None


@dataclass(frozen=True, slots=True)
class ContractPage:
    """What a contract's page shows. `can_sign_as` is the viewer's seat that waits, or ""."""

    contract: ServiceContract
    document: ContractDocument
    terms: tuple[Term, ...]
    seats: tuple[SeatSignatureRow, ...]
    against: ServiceContract | None
    changes: tuple[Change, ...]
    checklist: tuple[ChecklistRow, ...]
    can_sign_as: str
    keys: tuple[SigningKey, ...]

    @property
    def breaking(self) -> int:
        """How many of the changes break callers."""
        return len(breaking_changes(self.changes))


def contract_list(model_name: str, *, user: User, state: str = "") -> QuerySet[ServiceContract]:
    """A model's contracts, newest first, in 3 queries."""
    contracts = _fetched(ServiceContract.objects.visible_to(user).filter(model__name=model_name))
    return contracts.filter(state=state) if state else contracts


def find_contract(model_name: str, revision: int, *, user: User) -> ServiceContract:
    """One contract with its signatures and seats.

    Raises NotFound, in the same words for a model that the user may not see.
    """
    contracts = ServiceContract.objects.visible_to(user)
    contract = _fetched(contracts.filter(model__name=model_name, revision=revision)).first()
    if contract is None:
        raise NotFound(
            f"{model_name[:63]} has no contract {revision}.",
            hint="Revisions are numbered from 1; see the model's page.",
        )
    return contract


def contract_page(
    user: User, model_name: str, revision: int, *, against: int | None = None
) -> ContractPage:
    """A contract's page, in at most 8 queries. Raises NotFound.

    Differences are against `against`, by default against what it replaces: the one in force, or
    once it is in force itself, the revision before.
    """
    contract = find_contract(model_name, revision, user=user)
    document = contract_document.load(bytes(contract.payload), "json")
    other, changes = differences(contract, against=against, user=user)
    seats = _seats(contract)
    waits = next((row for row in seats if row.holder == user and row.signature is None), None)
    open_for_signing = contract.state == ContractState.PROPOSED
    return ContractPage(
        contract=contract,
        document=document,
        terms=tuple(terms(document)),
        seats=seats,
        against=other,
        changes=changes,
        checklist=checklist_of(contract),
        can_sign_as=waits.seat
        if waits and open_for_signing
        else _signs_again_as(contract, seats, user),
        keys=tuple(SigningKey.objects.filter(user=user)),
    )


def _signs_again_as(
    contract: ServiceContract, seats: tuple[SeatSignatureRow, ...], user: User
) -> str:
    """The viewer's seat, when its signature no longer counts and a new one would."""
    if contract.state not in (ContractState.PROPOSED, ContractState.IN_FORCE):
        return ""
    return next(
        (
            row.seat
            for row in seats
            if row.holder == user
            and row.signature is not None
            and outcome_of(row.signature.signed_at, row.signature.key.doubted_from) != "stays_valid"
        ),
        "",
    )


def checklist_of(contract: ServiceContract) -> tuple[ChecklistRow, ...]:
    """What risk classes ask for, by the class that the model has today; no query."""
    return contract_clauses.checklist(
        contract_document.load(bytes(contract.payload), "json"),
        contract.model.risk_class,
        proposed_on=contract_validity.day_of(contract.proposed_at),
    )


def differences(
    contract: ServiceContract, *, user: User, against: int | None = None
) -> tuple[ServiceContract | None, tuple[Change, ...]]:
    """What the contract is compared with, and what changes from that to it. Raises NotFound."""
    if against is not None:
        other: ServiceContract | None = find_contract(contract.model.name, against, user=user)
    else:
        earlier = ServiceContract.objects.filter(
            model=contract.model, revision__lt=contract.revision
        ).select_related("model")
        other = (
            earlier.filter(state=ContractState.IN_FORCE).first()
            or earlier.filter(in_force_at__isnull=False).order_by("-in_force_at").first()
        )
    if other is None or other.pk == contract.pk:
        return other, ()
    before = contract_document.load(bytes(other.payload), "json")
    after = contract_document.load(bytes(contract.payload), "json")
    return other, tuple(diff(before, after))


def _fetched(contracts: QuerySet[ServiceContract]) -> QuerySet[ServiceContract]:
    signatures = ContractSignature.objects.select_related("signer", "key")
    return (
        contracts.select_related("model", "proposed_by")
        .prefetch_related(Prefetch("signatures", signatures))
        .prefetch_related(Prefetch("model__seats", SeatHolder.objects.select_related("user")))
    )


def _seats(contract: ServiceContract) -> tuple[SeatSignatureRow, ...]:
    holders = {holder.seat: holder.user for holder in contract.model.seats.all()}
    signed = {signature.seat: signature for signature in contract.signatures.all()}
    return tuple(
        SeatSignatureRow(
            seat.value, str(seat.label), holders.get(seat.value), signed.get(seat.value)
        )
        for seat in Seat
    )
