"""Contracts: proposed, signed by three seats, in force, superseded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, Envelope
from models_registry.exporting.protocol import ExportFacts, TensorSpec
from models_registry.models import (
    ContractSignature,
    ContractState,
    ModelVersion,
    RegisteredModel,
    Seat,
    ServiceContract,
)
from models_registry.rules import (
    bundles,
    contract_acceptance,
    contract_clauses,
    contract_document,
    contract_proposal,
    contract_validity,
    fallback_rules,
    tensors,
)
from models_registry.rules.contract_changes import Change, breaking_changes
from models_registry.rules.contract_diff import diff
from models_registry.rules.contract_types import ContractDocument, Tensor
from models_registry.services.catalog import lock_model, require_part_in
from models_registry.services.contract_checks import (
    contract_in_force,
    contract_that_holds,
    verify_bytes,
    verify_in_force,
)
from models_registry.services.contract_records import (
    end_notices,
    end_signing_notices,
    publish,
    record,
    subject_of,
    tell_of_breaking_changes,
    url_of,
)
from models_registry.services.contract_signers import check_signable, earlier_signature, seat_of
from models_registry.services.signatures import is_same_signature, public_key, take_in
from models_registry.services.signing_again import is_doubted, sign_again

__all__ = [
    "contract_bundle",
    "contract_in_force",
    "propose_contract",
    "propose_document",
    "sign_contract",
    "subject_of",
    "url_of",
    "verify_in_force",
    "withdraw_contract",
]

MAX_NOTE = 2000
A_YEAR = 365


def propose_contract(
    *,
    model: RegisteredModel,
    document: bytes | str,
    media: contract_document.Media = "auto",
    note: str = "",
    acknowledge_breaking: bool = False,
    now: datetime | None = None,
    actor: Actor,
) -> ServiceContract:
    """The model's next contract revision; immutable from here on.

    The same document again gives the proposal that is open. `acknowledge_breaking` says that the
    proposer knows which changes break callers of the contract that holds; the seats are told.

    Raises Invalid with every fault of the document, `other_model`, `valid_until_past`,
    `clauses_missing` (by the model's risk class), `other_revision`, `invalid_rule` and
    `examples_fail` (of the fallback's rules); Conflict `contract_unchanged`
    when it is the one in force, `contract_repeats`, `breaking_not_acknowledged`.
    """
    require(actor, "contract.propose", model.team_id)
    require_part_in(model, actor)
    now = now or timezone.now()
    parsed = contract_document.load(document, media)
    contract_acceptance.check_model(parsed, model.name)
    contract_validity.check_proposed(parsed.valid_until, now)
    fallback_rules.check_rules(parsed)
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
        breaking = _check_acceptable(model, parsed, acknowledge_breaking, now)
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
            valid_until=parsed.valid_until,
        )
        after: dict[str, Any] = {"digest": contract.digest}
        if breaking:
            after["breaking"] = [change.sentence for change in breaking]
            tell_of_breaking_changes(contract, breaking)
        record(contract, "contract.propose", actor, after=after)
        publish(contract)
    return contract


def sign_contract(
    *,
    contract: ServiceContract,
    envelope: bytes | str | Mapping[str, Any],
    now: datetime | None = None,
    actor: Actor,
) -> ContractSignature:
    """Sign for the seat that the actor holds; with the third signature the contract is in force.

    The very same envelope again changes nothing; a signature whose key was compromised since is
    replaced (`signing_again`), on a contract in force too. When it was signed is the server's
    time: an envelope carries none. Raises NotAllowed (`no_seat`, `role_missing`,
    `person_deactivated`), Conflict (`already_signed`, `seat_signed`, `contract_not_proposed`,
    `contract_expired`, `newer_contract_in_force`), and Invalid for a key or signature that does
    not do (see `signatures.take_in`).
    """
    require(actor, "contract.sign", contract.model.team_id)
    with transaction.atomic():
        model = lock_model(contract.model)
        contract = ServiceContract.objects.select_for_update().get(pk=contract.pk)
        contract.model = model
        # Asked under the lock: who waited for it comes into force when it is theirs, not before.
        now = now or timezone.now()
        seat = seat_of(model, actor)
        earlier = earlier_signature(contract, seat, actor)
        if earlier is not None and is_same_signature(earlier.envelope, earlier.key, envelope):
            return earlier
        if earlier is not None and is_doubted(earlier):
            return sign_again(
                contract=contract,
                earlier=earlier,
                seat=seat,
                envelope=envelope,
                now=now,
                actor=actor,
            )
        check_signable(contract, earlier, actor, now)
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
        record(
            contract,
            "contract.sign",
            actor,
            after={"seat": seat, "key": key.keyid, "digest": contract.digest},
        )
        if contract.signatures.count() == len(Seat):
            _put_in_force(contract, actor, now)
        publish(contract)
    # What the caller sees is how the contract stands now.
    signature.contract = contract
    return signature


def withdraw_contract(
    *, contract: ServiceContract, reason: str = "", actor: Actor
) -> ServiceContract:
    """Take a proposal back; withdrawing twice is one withdrawal. Conflict once it is in force."""
    require(actor, "contract.withdraw", contract.model.team_id)
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
        end_signing_notices(contract)
        record(contract, "contract.withdraw", actor, after={"state": contract.state}, reason=reason)
        publish(contract)
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
                doubted_from=signature.key.doubted_from,
                expires_at=signature.key.expires_at,
            )
            for signature in signatures
        ],
        keys=[public_key(signature.key) for signature in signatures],
        issued=timezone.now(),
    )


def propose_document(version: ModelVersion, *, now: datetime | None = None) -> dict[str, Any]:
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
    current = contract_that_holds(version.model)
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
        measured=measured_latency(version),
        previous=previous,
        valid_until=_next_last_day(version.model, previous, now or timezone.now()),
    )


def _check_acceptable(
    model: RegisteredModel, parsed: ContractDocument, acknowledged: bool, now: datetime
) -> tuple[Change, ...]:
    """Raise unless the document may be the model's next revision; gives what breaks callers."""
    day = contract_validity.day_of(now)
    missing = contract_clauses.missing_clauses(parsed, model.risk_class, proposed_on=day)
    contract_acceptance.check_clauses(missing, model.risk_class)
    signed = ServiceContract.objects.filter(
        model=model, digest=parsed.digest, signatures__isnull=False
    )
    contract_acceptance.check_revision(
        parsed, model.last_contract_revision + 1, set(signed.values_list("revision", flat=True))
    )
    current = contract_that_holds(model)
    if current is None:
        return ()
    found = breaking_changes(diff(verify_bytes(current), parsed))
    contract_acceptance.check_acknowledged(
        found, acknowledged=acknowledged, against=current.revision
    )
    return found


def _put_in_force(contract: ServiceContract, actor: Actor, now: datetime) -> None:
    """Three signatures: in force, and what came before is superseded, under the model's lock."""
    replaced = contract_that_holds(contract.model)
    older = ServiceContract.objects.filter(model=contract.model, revision__lt=contract.revision)
    ending = list(older.filter(state__in=(ContractState.IN_FORCE, ContractState.PROPOSED)))
    older.filter(pk__in=[one.pk for one in ending]).update(
        state=ContractState.SUPERSEDED, ended_at=now
    )
    contract.state, contract.in_force_at = ContractState.IN_FORCE, now
    contract.save(update_fields=["state", "in_force_at"])
    verify_in_force(contract)
    end_signing_notices(contract)
    end_notices([*ending, *([replaced] if replaced else [])])
    record(
        contract,
        "contract.in_force",
        actor,
        before={"in_force": replaced.revision if replaced else None},
        after={"in_force": contract.revision, "digest": contract.digest},
    )


def _next_last_day(
    model: RegisteredModel, previous: ContractDocument | None, now: datetime
) -> date | None:
    """A year ahead where the last contract named a day, or the risk class asks for one."""
    asked = "valid_until" in contract_clauses.MANDATORY[model.risk_class]
    if asked or (previous is not None and previous.valid_until is not None):
        return contract_validity.day_of(now) + timedelta(days=A_YEAR)
    return None


def measured_latency(version: ModelVersion) -> contract_proposal.MeasuredLatency | None:
    """What validation measured for one inference; None before it did."""
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
