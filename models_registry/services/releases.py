"""Releases: one version for one environment, approved as that environment's policy says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid
from console.models import User
from console.rules.dsse import RELEASE_PAYLOAD_TYPE, Envelope
from models_registry.models import Release, ReleaseApproval, ReleaseState, SeatHolder
from models_registry.rules import bundles
from models_registry.rules import releases as rules
from models_registry.selectors.releases import policy_of
from models_registry.services.catalog import require_part_in
from models_registry.services.contract_checks import contract_in_force, verify_in_force
from models_registry.services.contracts import contract_bundle
from models_registry.services.release_checks import (
    VerifiedRelease,
    check_load_test,
    verify_release,
)
from models_registry.services.release_records import decide, lock_release, publish, record
from models_registry.services.release_requests import request_release
from models_registry.services.signatures import is_same_signature, public_key, take_in

__all__ = [
    "VerifiedRelease",
    "approve_release",
    "refuse_release",
    "release_bundle",
    "request_release",
    "verify_release",
    "withdraw_release",
]


def approve_release(
    *, release: Release, envelope: bytes | str | Mapping[str, Any], actor: Actor
) -> Release:
    """Approve with a signature over the release's payload; the last one missing approves it.

    The same envelope again changes nothing. Raises NotAllowed (`author_may_not_approve`,
    `role_missing`), Conflict (`release_decided`, `already_decided`, `contract_superseded`,
    `load_test_missing`), and Invalid for a key or signature that does not do (see
    `signatures.take_in`).
    """
    require(actor, "release.decide")
    with transaction.atomic():
        release = lock_release(release)
        own = _own_decision(release, actor)
        if own and own.key and own.envelope and is_same_signature(own.envelope, own.key, envelope):
            return release
        policy = policy_of(release)
        given = list(release.approvals.filter(approved=True).values_list("role", flat=True))
        _check_open(release, own)
        role = rules.role_for_approval(
            policy,
            approved_roles=given,
            held_roles=_held_roles(release, actor.user),
            is_author=release.requested_by_id == actor.user.pk,
        )
        _check_contract(release)
        gate = check_load_test(release)
        stored, key = take_in(
            envelope,
            payload_type=RELEASE_PAYLOAD_TYPE,
            payload=bytes(release.payload),
            actor=actor,
        )
        ReleaseApproval.objects.create(
            release=release, role=role, person=actor.user, key=key, approved=True, envelope=stored
        )
        record(
            release,
            "release.approve",
            actor,
            after={
                "role": role,
                "key": key.keyid,
                "digest": release.digest,
                "load_test": gate.run.id if gate.run else None,
            },
        )
        if rules.standing(policy, [*given, role]).complete:
            decide(release, ReleaseState.APPROVED, actor)
        publish(release)
    return release


def refuse_release(*, release: Release, reason: str, actor: Actor) -> Release:
    """Refuse with a reason; one refusal by somebody who could have approved ends it.

    Raises Invalid without a reason, NotAllowed for a person whose word is not asked for.
    """
    require(actor, "release.decide")
    if not reason.strip():
        raise Invalid(
            "A refusal needs a reason.",
            code="reason_missing",
            hint="Say what has to change.",
            errors=(FieldError("/reason", "is empty"),),
        )
    with transaction.atomic():
        release = lock_release(release)
        own = _own_decision(release, actor)
        if own is not None and not own.approved and release.state == ReleaseState.REFUSED:
            return release
        policy = policy_of(release)
        given = list(release.approvals.filter(approved=True).values_list("role", flat=True))
        _check_open(release, own)
        role = rules.role_for_approval(
            policy,
            approved_roles=given,
            held_roles=_held_roles(release, actor.user),
            is_author=release.requested_by_id == actor.user.pk,
        )
        ReleaseApproval.objects.create(
            release=release, role=role, person=actor.user, approved=False, reason=reason.strip()
        )
        decide(release, ReleaseState.REFUSED, actor, reason=reason.strip())
        publish(release)
    return release


def withdraw_release(*, release: Release, reason: str = "", actor: Actor) -> Release:
    """Take an open question back; by the person who asked, or somebody with a part in the model."""
    require(actor, "release.request")
    with transaction.atomic():
        release = lock_release(release)
        if release.requested_by_id != actor.user.pk:
            require_part_in(release.version.model, actor)
        if release.state == ReleaseState.WITHDRAWN:
            return release
        rules.check_move(release.state, ReleaseState.WITHDRAWN, f"The release of {release}")
        decide(release, ReleaseState.WITHDRAWN, actor, reason=reason)
        publish(release)
    return release


def release_bundle(release: Release) -> bytes:
    """Everything that an offline check of the release (and its contract) needs, as JSON text."""
    approvals = list(
        release.approvals.filter(approved=True).select_related("person", "key").order_by("pk")
    )
    signed = [(a, a.key, a.envelope) for a in approvals if a.key is not None and a.envelope]
    return bundles.release_bundle(
        payload=bytes(release.payload),
        envelopes=[Envelope.parse(envelope) for _, _, envelope in signed],
        approvals=[
            bundles.SeatSignature(
                seat=approval.role,
                user=approval.person.username,
                keyid=key.keyid,
                signed_at=approval.at,
                revoked_at=key.revoked_at,
            )
            for approval, key, _ in signed
        ],
        keys=[public_key(key) for _, key, _ in signed],
        issued=timezone.now(),
        contract=contract_bundle(release.contract) if release.contract else None,
    )


def _own_decision(release: Release, actor: Actor) -> ReleaseApproval | None:
    return release.approvals.filter(person=actor.user).select_related("key").first()


def _check_open(release: Release, own: ReleaseApproval | None) -> None:
    if release.state != ReleaseState.PROPOSED:
        raise Conflict(
            f"The release of {release} is {release.get_state_display()} already.",
            code="release_decided",
            hint="Ask for a new release of the version.",
        )
    if own is not None:
        raise Conflict(
            f"You have decided on the release of {release} already.",
            code="already_decided",
            hint="Each person decides once; another approval has to come from somebody else.",
        )


def _check_contract(release: Release) -> None:
    """What is approved names a contract by digest: it must still be the one in force, and hold."""
    if release.contract is None:
        return
    current = contract_in_force(release.version.model)
    if current is None or current.pk != release.contract_id:
        raise Conflict(
            f"The release names contract {release.contract.revision}, which is not in force any "
            "more.",
            code="contract_superseded",
            hint="Withdraw it and ask for a release under the contract in force.",
        )
    verify_in_force(release.contract)


def _held_roles(release: Release, user: User) -> set[str]:
    seats = SeatHolder.objects.filter(model=release.version.model, user=user)
    return {*user.roles, *seats.values_list("seat", flat=True)}
