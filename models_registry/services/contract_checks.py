"""Which contract is in force, and whether what it says is still what three people signed."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from console.errors import Conflict, Invalid
from console.rules.canonical import canonical_bytes, digest
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from models_registry.models import (
    ContractState,
    RegisteredModel,
    Seat,
    ServiceContract,
)
from models_registry.rules import contract_clauses, contract_document, contract_validity
from models_registry.rules.contract_clauses import Clause
from models_registry.rules.contract_types import ContractDocument
from models_registry.services.signatures import verify_stored

IN_FORCE_ONCE = (ContractState.IN_FORCE, ContractState.SUPERSEDED, ContractState.EXPIRED)


def contract_in_force(
    model: RegisteredModel, *, now: datetime | None = None
) -> ServiceContract | None:
    """The model's contract in force, unverified: verify it before it decides anything.

    One whose last day is over is in force no more, whether the timer has marked it or not.
    """
    today = contract_validity.day_of(now or timezone.now())
    return (
        ServiceContract.objects.filter(model=model, state=ContractState.IN_FORCE)
        .filter(Q(valid_until__isnull=True) | Q(valid_until__gte=today))
        .first()
    )


def contract_that_holds(model: RegisteredModel) -> ServiceContract | None:
    """The one in force or, when it expired and nothing took its place, that one.

    What serves goes on serving by it (its fallback, its error codes, its objectives), and a next
    contract is compared with it; nothing new is released or deployed under an expired one.
    """
    return ServiceContract.objects.holding().filter(model=model).first()


def require_in_force(
    model: RegisteredModel, *, asked_by: str, now: datetime | None = None
) -> ServiceContract:
    """The contract in force, which `asked_by` (an environment) asks for.

    Raises Conflict `contract_missing`, or `contract_expired` with its last day.
    """
    current = contract_in_force(model, now=now)
    if current is not None:
        return current
    last = contract_that_holds(model)
    if last is not None and last.valid_until is not None:
        raise Conflict(
            f"{asked_by} asks for a contract in force, and {last} held until {last.valid_until}.",
            code="contract_expired",
            hint="Have the next revision signed. What serves already goes on serving.",
        )
    raise Conflict(
        f"{asked_by} asks for a contract in force, and {model.name} has none.",
        code="contract_missing",
        hint="Propose a contract and have the three seats sign it.",
    )


def missing_clauses(contract: ServiceContract) -> tuple[Clause, ...]:
    """What the model's risk class asks for today and the contract does not have."""
    return contract_clauses.missing_clauses(
        contract_document.load(bytes(contract.payload), "json"),
        contract.model.risk_class,
        proposed_on=contract_validity.day_of(contract.proposed_at),
    )


def require_clauses(contract: ServiceContract) -> None:
    """Conflict `clauses_missing` unless the contract has what the model's risk class asks for."""
    if not (missing := missing_clauses(contract)):
        return
    risk = contract.model.risk_class
    raise Conflict(
        f"{contract} lacks {'; '.join(clause.asks for clause in missing)}, which the risk class "
        f"{risk} of the model asks for.",
        code="clauses_missing",
        hint="Propose a contract with these clauses and have it signed.",
        errors=contract_clauses.clause_faults(missing, risk),
    )


def verify_bytes(contract: ServiceContract) -> ContractDocument:
    """The contract as it was proposed. Raises Invalid `digest_mismatch` when it was changed."""
    payload = bytes(contract.payload)
    if digest(payload) != contract.digest or canonical_bytes(contract.document) != payload:
        raise Invalid(
            f"{contract} is not what was proposed: its bytes do not fit its digest.",
            code="digest_mismatch",
            hint="Somebody changed it in the database. Restore it, or propose it anew.",
        )
    document = contract_document.load(payload, "json")
    if document.model != contract.model.name:
        raise Invalid(f"{contract} is about another model.", code="digest_mismatch")
    return document


def verify_in_force(contract: ServiceContract, *, restoring: bool = False) -> tuple[str, ...]:
    """Check bytes and all three signatures again; gives notes on keys that were revoked since.

    `restoring`: a signature by a key that was compromised is a note as well (`verify_stored`).

    For a contract that is or was in force, expired ones too. Raises Conflict
    `contract_not_in_force`, Invalid `digest_mismatch`, `signature_missing`, `signature_invalid`,
    `key_revoked`, `key_expired`, `key_doubted`.
    """
    if contract.state not in IN_FORCE_ONCE:
        raise Conflict(
            f"{contract} is {contract.get_state_display()}, not in force.",
            code="contract_not_in_force",
            hint="All three seats have to sign it first.",
        )
    verify_bytes(contract)
    signatures = {s.seat: s for s in contract.signatures.select_related("key", "signer")}
    if missing := [seat for seat in Seat if seat not in signatures]:
        raise Invalid(
            f"{contract} lacks the signature of the {missing[0].label}.",
            code="signature_missing",
            hint="Somebody changed it in the database. Restore it, or propose it anew.",
        )
    if len({signature.signer_id for signature in signatures.values()}) != len(signatures):
        raise Invalid(
            f"One person signed two seats of {contract}.",
            code="signature_invalid",
            hint="Propose it anew and have three people sign.",
        )
    notes = (
        verify_stored(
            signature.envelope,
            key=signature.key,
            signer_id=signature.signer_id,
            signed_at=signature.signed_at,
            payload_type=CONTRACT_PAYLOAD_TYPE,
            payload=bytes(contract.payload),
            restoring=restoring,
        )
        for signature in signatures.values()
    )
    return tuple(note for note in notes if note)
