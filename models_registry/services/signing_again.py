"""A seat signs again when the key of its signature turned out compromised: the promise stays."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from console.actors import Actor
from console.errors import Conflict, Invalid
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from console.rules.key_life import outcome_of
from console.services import notices
from models_registry.models import ContractSignature, ContractState, ServiceContract
from models_registry.services.contract_checks import verify_bytes, verify_in_force
from models_registry.services.contract_records import publish, record
from models_registry.services.key_effects import contract_notice
from models_registry.services.signatures import take_in


def is_doubted(signature: ContractSignature | None) -> bool:
    """Whether the signature no longer counts, since its key was compromised when it was made."""
    return signature is not None and (
        outcome_of(signature.signed_at, signature.key.doubted_from) == "no_longer_counts"
    )


def sign_again(
    *,
    contract: ServiceContract,
    earlier: ContractSignature,
    seat: str,
    envelope: bytes | str | Mapping[str, Any],
    now: datetime,
    actor: Actor,
) -> ContractSignature:
    """Put a signature in the place of one that no longer counts; the old one is on record.

    For the seat's holder of today, on a proposal or a contract in force, in the transaction that
    holds its lock. Raises Conflict (`contract_not_proposed`, `already_signed`), and what
    `signatures.take_in` raises.
    """
    if contract.state not in (ContractState.PROPOSED, ContractState.IN_FORCE):
        raise Conflict(
            f"{contract} is {contract.get_state_display()}: it takes no signature any more.",
            code="contract_not_proposed",
            hint="Propose the next revision.",
        )
    if earlier.seat != seat:
        raise Conflict(
            f"You have signed {contract} already, in another seat than the one you hold now.",
            code="already_signed",
            hint="Whoever holds that seat now signs again in it; nobody signs for two.",
        )
    verify_bytes(contract)
    stored, key = take_in(
        envelope, payload_type=CONTRACT_PAYLOAD_TYPE, payload=bytes(contract.payload), actor=actor
    )
    before = {
        "signer": earlier.signer.username,
        "key": earlier.key.keyid,
        "signed_at": earlier.signed_at.isoformat(),
        "envelope": earlier.envelope,
    }
    earlier.signer, earlier.key, earlier.envelope, earlier.signed_at = actor.user, key, stored, now
    earlier.save(update_fields=["signer", "key", "envelope", "signed_at"])
    record(
        contract,
        "contract.sign_again",
        actor,
        before=before,
        after={"seat": seat, "key": key.keyid, "digest": contract.digest},
    )
    _end_notice(contract)
    publish(contract)
    earlier.contract = contract
    return earlier


def _end_notice(contract: ServiceContract) -> None:
    """Nobody has to be told any longer once every signature counts again."""
    signatures = contract.signatures.select_related("key")
    if any(is_doubted(signature) for signature in signatures):
        return
    if contract.state == ContractState.IN_FORCE:
        try:
            verify_in_force(contract)
        except Invalid:
            return
    notices.end(key=contract_notice(contract))
