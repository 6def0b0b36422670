"""Contracts: proposed, signed by three seats, in force, superseded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotAllowed
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, Envelope
from console.services import audit
from models_registry.exporting.protocol import ExportFacts, TensorSpec
from models_registry.models import (
    ContractSignature,
    ContractState,
    ModelVersion,
    RegisteredModel,
    Seat,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules import bundles, contract_document, contract_proposal, tensors
from models_registry.rules.contract_types import Tensor
from models_registry.services.catalog import lock_model, require_part_in
from models_registry.services.contract_checks import (
    contract_in_force,
    verify_bytes,
    verify_in_force,
)
from models_registry.services.signatures import is_same_signature, public_key, take_in

__all__ = [
    "contract_bundle",
    "contract_in_force",
    "propose_contract",
    "propose_document",
    "sign_contract",
    "verify_in_force",
    "withdraw_contract",
]

MAX_NOTE = 2000


def propose_contract(
    *,
    model: RegisteredModel,
    document: bytes | str,
    media: contract_document.Media = "auto",
    note: str = "",
    actor: Actor,
) -> ServiceContract:
    """The model's next contract revision; immutable from here on.

    The same document again gives the proposal that is open. Raises Invalid with every fault of the
    document, Conflict (`contract_unchanged`) when it is the one in force.
    """
    require(actor, "contract.propose")
    require_part_in(model, actor)
    parsed = contract_document.load(document, media)
    if parsed.model != model.name:
        raise Invalid(
            f"The document is about {parsed.model}, not about {model.name}.",
            code="other_model",
            hint=f"Set “model: {model.name}”.",
            errors=(FieldError("/model", f"is not {model.name}"),),
        )
    with transaction.atomic():
        model = lock_model(model)
        same = ServiceContract.objects.filter(model=model, digest=parsed.digest)
        if (opened := same.filter(state=ContractState.PROPOSED).first()) is not None:
            return opened
        if same.filter(state=ContractState.IN_FORCE).exists():
            raise Conflict(
                "This is, to the byte, the contract that is in force.",
                code="contract_unchanged",
                hint="Change what should be promised otherwise, then propose it.",
            )
        model.last_contract_revision += 1
        model.save(update_fields=["last_contract_revision"])
        contract = ServiceContract.objects.create(
            model=model,
            revision=model.last_contract_revision,
            document=contract_document.to_json(parsed),
            payload=parsed.canonical,
            digest=parsed.digest,
            note=note.strip()[:MAX_NOTE],
            proposed_by=actor.user,
        )
        _record(contract, "contract.propose", actor, after={"digest": contract.digest})
        _publish(contract)
    return contract


def sign_contract(
    *,
    contract: ServiceContract,
    envelope: bytes | str | Mapping[str, Any],
    actor: Actor,
) -> ContractSignature:
    """Sign for the seat that the actor holds; with the third signature the contract is in force.

    The very same envelope again changes nothing. Raises NotAllowed (`no_seat`), Conflict
    (`already_signed`, `signed_another_seat`, `contract_not_proposed`, `newer_contract_in_force`),
    and Invalid for a key or signature that does not do (see `signatures.take_in`).
    """
    require(actor, "contract.sign")
    with transaction.atomic():
        model = lock_model(contract.model)
        contract = ServiceContract.objects.select_for_update().get(pk=contract.pk)
        contract.model = model
        seat = _seat_of(model, actor)
        earlier = _earlier(contract, seat, actor)
        if earlier is not None and is_same_signature(earlier.envelope, earlier.key, envelope):
            return earlier
        _check_signable(contract, earlier, actor)
        verify_bytes(contract)
        stored, key = take_in(
            envelope,
            payload_type=CONTRACT_PAYLOAD_TYPE,
            payload=bytes(contract.payload),
            actor=actor,
        )
        signature = ContractSignature.objects.create(
            contract=contract, seat=seat, signer=actor.user, key=key, envelope=stored
        )
        _record(
            contract,
            "contract.sign",
            actor,
            after={"seat": seat, "key": key.keyid, "digest": contract.digest},
        )
        if contract.signatures.count() == len(Seat):
            _put_in_force(contract, actor)
        _publish(contract)
    # What the caller sees is how the contract stands now.
    signature.contract = contract
    return signature


def withdraw_contract(
    *, contract: ServiceContract, reason: str = "", actor: Actor
) -> ServiceContract:
    """Take a proposal back; withdrawing twice is one withdrawal. Conflict once it is in force."""
    require(actor, "contract.withdraw")
    with transaction.atomic():
        model = lock_model(contract.model)
        require_part_in(model, actor)
        contract = ServiceContract.objects.select_for_update().get(pk=contract.pk)
        contract.model = model
        if contract.state == ContractState.WITHDRAWN:
            return contract
        if contract.state != ContractState.PROPOSED:
            raise Conflict(
                f"{contract} is {contract.get_state_display()}: only a proposal can be withdrawn.",
                code="contract_not_proposed",
                hint="To promise something else, propose the next revision.",
            )
        contract.state, contract.ended_at = ContractState.WITHDRAWN, timezone.now()
        contract.save(update_fields=["state", "ended_at"])
        _record(
            contract, "contract.withdraw", actor, after={"state": contract.state}, reason=reason
        )
        _publish(contract)
    return contract


def contract_bundle(contract: ServiceContract) -> bytes:
    """Everything that an offline check needs, as JSON text."""
    signatures = list(contract.signatures.select_related("signer", "key"))
    return bundles.contract_bundle(
        model=contract.model.name,
        revision=contract.revision,
        payload=bytes(contract.payload),
        envelopes=[Envelope.parse(signature.envelope) for signature in signatures],
        seats=[
            bundles.SeatSignature(
                seat=signature.seat,
                user=signature.signer.username,
                keyid=signature.key.keyid,
                signed_at=signature.signed_at,
                revoked_at=signature.key.revoked_at,
            )
            for signature in signatures
        ],
        keys=[public_key(signature.key) for signature in signatures],
        issued=timezone.now(),
    )


def propose_document(version: ModelVersion) -> dict[str, Any]:
    """A document to start from: the contract in force with this version's interface, or a first.

    Raises Conflict (`version_not_exported`) before the version's graph is known.
    """
    if not version.facts:
        raise Conflict(
            f"{version} has not been exported yet, so its interface is not known.",
            code="version_not_exported",
            hint="Wait for its validation, then propose the contract.",
        )
    facts = ExportFacts.from_json(version.facts)
    declared = {
        item["name"]: TensorSpec.from_json(item) for item in (*version.inputs, *version.outputs)
    }
    current = contract_in_force(version.model)
    previous = verify_bytes(current) if current else None
    interface = previous.interface if previous else None
    promised = (
        {one.name: one for one in (*interface.inputs, *interface.outputs)} if interface else {}
    )
    served = partial(tensors.as_served, batched=facts.batch_axis == 0)
    told = (version.report or {}).get("equivalence", {}).get("outputs", ())
    answers = {one["name"]: one.get("answers", {}) for one in told}
    return contract_proposal.propose(
        model=version.model.name,
        inputs=[_with_range(served(spec), declared, promised) for spec in facts.inputs],
        outputs=[
            contract_proposal.with_shares(
                _with_range(served(spec), declared, promised), answers.get(spec.name, {})
            )
            for spec in facts.outputs
        ],
        measured=_measured(version),
        previous=previous,
    )


def subject_of(contract: ServiceContract) -> str:
    """How audit entries name the contract."""
    return f"{contract.model.name} contract {contract.revision}"


def url_of(contract: ServiceContract) -> str:
    """The contract's page."""
    return f"/models/{contract.model.name}/contracts/{contract.revision}/"


def _seat_of(model: RegisteredModel, actor: Actor) -> str:
    held = SeatHolder.objects.filter(model=model, user=actor.user).order_by("seat")
    seats = [holder.seat for holder in held]
    if not seats:
        raise NotAllowed(
            f"{actor.user.username} sits in no seat of {model.name}, so there is nothing to sign.",
            code="no_seat",
            hint="The model's owner assigns the seats.",
        )
    return seats[0]


def _earlier(contract: ServiceContract, seat: str, actor: Actor) -> ContractSignature | None:
    signatures = list(contract.signatures.select_related("key"))
    own = [s for s in signatures if s.signer_id == actor.user.pk]
    return next(iter(own or [s for s in signatures if s.seat == seat]), None)


def _check_signable(
    contract: ServiceContract, earlier: ContractSignature | None, actor: Actor
) -> None:
    if contract.state != ContractState.PROPOSED:
        raise Conflict(
            f"{subject_of(contract)} is {contract.get_state_display()}: only a proposal is signed.",
            code="contract_not_proposed",
            hint="Propose the next revision.",
        )
    current = contract_in_force(contract.model)
    if current is not None and current.revision > contract.revision:
        raise Conflict(
            f"A newer contract, revision {current.revision}, is in force.",
            code="newer_contract_in_force",
            hint="Propose the next revision.",
        )
    if earlier is None:
        return
    seat = Seat(earlier.seat).label
    if earlier.signer_id == actor.user.pk:
        raise Conflict(
            f"You have signed {subject_of(contract)} already, as {seat}.",
            code="already_signed",
            hint="Nobody signs twice, or for two seats.",
        )
    raise Conflict(
        f"The seat {seat} of {subject_of(contract)} has been signed by somebody else.",
        code="seat_signed",
        hint="Propose the next revision when the seat has changed hands.",
    )


def _put_in_force(contract: ServiceContract, actor: Actor) -> None:
    """Three signatures: in force, and what came before is superseded, under the model's lock."""
    now = timezone.now()
    older = ServiceContract.objects.filter(model=contract.model, revision__lt=contract.revision)
    replaced = older.filter(state=ContractState.IN_FORCE).first()
    older.filter(state__in=(ContractState.IN_FORCE, ContractState.PROPOSED)).update(
        state=ContractState.SUPERSEDED, ended_at=now
    )
    contract.state, contract.in_force_at = ContractState.IN_FORCE, now
    contract.save(update_fields=["state", "in_force_at"])
    verify_in_force(contract)
    _record(
        contract,
        "contract.in_force",
        actor,
        before={"in_force": replaced.revision if replaced else None},
        after={"in_force": contract.revision, "digest": contract.digest},
    )


def _measured(version: ModelVersion) -> contract_proposal.MeasuredLatency | None:
    for row in (version.report or {}).get("latency", ()):
        if row.get("batch") in (1, None):
            return contract_proposal.MeasuredLatency(
                float(row["mean_ms"]), float(row["p95_ms"]), float(row["p99_ms"])
            )
    return None


def _with_range(
    spec: TensorSpec, declared: Mapping[str, TensorSpec], promised: Mapping[str, Tensor]
) -> TensorSpec:
    """The range that the version declares; where it declares none, what is promised today."""
    said = declared.get(spec.name, spec)
    low, high = said.minimum, said.maximum
    if low is None and high is None and spec.name in promised:
        low, high = promised[spec.name].minimum, promised[spec.name].maximum
    sums_to = promised[spec.name].sums_to if spec.name in promised else None
    return TensorSpec(spec.name, spec.dtype, spec.shape, spec.dims, low, high, sums_to)


def _record(
    contract: ServiceContract,
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
        subject=subject_of(contract),
        subject_url=url_of(contract),
        before=before,
        after=after,
        reason=reason,
    )


def _publish(contract: ServiceContract) -> None:
    name = contract.model.name
    data = {"model": name, "revision": contract.revision, "state": contract.state}
    live.publish(f"contract:{name}/{contract.revision}", "contract.changed", data)
    live.publish(f"model:{name}", "contract.changed", data)
    holders = SeatHolder.objects.filter(model=contract.model).values_list(
        "user__username", flat=True
    )
    for username in holders:
        live.publish(f"inbox:{username}", "inbox.changed")
