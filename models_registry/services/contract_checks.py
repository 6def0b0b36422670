"""Which contract is in force, and whether what it says is still what three people signed."""

from __future__ import annotations

from console.errors import Conflict, Invalid
from console.rules.canonical import canonical_bytes, digest
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from models_registry.models import ContractState, RegisteredModel, Seat, ServiceContract
from models_registry.rules import contract_document
from models_registry.rules.contract_types import ContractDocument
from models_registry.services.signatures import verify_stored

IN_FORCE_ONCE = (ContractState.IN_FORCE, ContractState.SUPERSEDED)


def contract_in_force(model: RegisteredModel) -> ServiceContract | None:
    """The model's contract in force, unverified: verify it before it decides anything."""
    return ServiceContract.objects.filter(model=model, state=ContractState.IN_FORCE).first()


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


def verify_in_force(contract: ServiceContract) -> tuple[str, ...]:
    """Check bytes and all three signatures again; gives notes on keys that were revoked since.

    For a contract that is or was in force. Raises Conflict `contract_not_in_force`, Invalid
    `digest_mismatch`, `signature_missing`, `signature_invalid`, `key_revoked`.
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
        )
        for signature in signatures.values()
    )
    return tuple(note for note in notes if note)
