"""Releases: one version for one environment, approved as that environment's policy says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from console.services import notices
from models_registry.models import Release, ReleaseApproval, ReleaseState
from models_registry.rules import approval_policy
from models_registry.rules import releases as rules
from models_registry.rules.approval_policy import Verdict
from models_registry.selectors.release_policies import candidate, facts_of, policy_of
from models_registry.services.catalog import require_part_in
from models_registry.services.contract_checks import contract_in_force, verify_in_force
from models_registry.services.key_effects import release_notice
from models_registry.services.release_bundles import release_bundle
from models_registry.services.release_checks import (
    VerifiedRelease,
    check_digests,
    check_load_test,
    check_report,
    verify_release,
)
from models_registry.services.release_records import (
    decide,
    lapse_key,
    lock_release,
    publish,
    record,
)
from models_registry.services.release_requests import request_release
from models_registry.services.signatures import is_same_signature, take_in

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

    The same envelope again changes nothing. An approved release takes approvals again when one of
    them lapsed, also by the same person: the lapsed one stays in its history. It may be approved
    while the environment is frozen.

    Raises NotAllowed (`author_may_not_approve`, `role_missing`, `person_needed`), Conflict
    (`release_decided`, `already_decided`, `report_replaced`, `digest_mismatch`,
    `contract_superseded`, `load_test_missing`), and Invalid for a key or signature that does not
    do (see `signatures.take_in`).
    """
    require(actor, "release.decide", team_id=release.version.model.team_id)
    with transaction.atomic():
        release, now = lock_release(release), timezone.now()
        actor = _still_asked(actor, release)
        policy, facts = policy_of(release), facts_of(release, now)
        own = _own_decision(release, actor)
        given = {one.person: one for one in facts.approvals}.get(actor.user.username)
        lapsed = given is not None and not approval_policy.still_counts(policy, given, now)
        if not lapsed and own and _is_repeated(own, envelope):
            return release
        _check_open(release, None if lapsed else own, approval_policy.evaluate(policy, facts, now))
        mine = candidate(actor.user, release, now)
        role = approval_policy.check_may_approve(policy, facts, mine, now)
        check_digests(release)
        check_report(release)
        _check_contract(release)
        gate = check_load_test(release)
        stored, key = take_in(
            envelope,
            payload_type=RELEASE_PAYLOAD_TYPE,
            payload=bytes(release.payload),
            actor=actor,
        )
        if lapsed and own is not None:
            release.approvals.filter(pk=own.pk).update(superseded_at=now)
        ReleaseApproval.objects.create(
            release=release,
            role=role,
            roles=sorted(mine.roles),
            seats=sorted(mine.seats),
            person=actor.user,
            key=key,
            approved=True,
            envelope=stored,
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
                **({"renewed": True} if lapsed else {}),
            },
        )
        if approval_policy.evaluate(policy, facts_of(release, now), now).approved:
            if release.state == ReleaseState.PROPOSED:
                decide(release, ReleaseState.APPROVED, actor)
            notices.end(key=lapse_key(release))
            notices.end(key=release_notice(release))
        publish(release)
    return release


def refuse_release(*, release: Release, reason: str, actor: Actor) -> Release:
    """Refuse with a reason; one refusal by somebody who could have approved ends it.

    Raises Invalid without a reason, NotAllowed for a person whose word is not asked for.
    """
    require(actor, "release.decide", team_id=release.version.model.team_id)
    if not reason.strip():
        raise Invalid(
            "A refusal needs a reason.",
            code="reason_missing",
            hint="Say what has to change.",
            errors=(FieldError("/reason", "is empty"),),
        )
    with transaction.atomic():
        release, now = lock_release(release), timezone.now()
        actor = _still_asked(actor, release)
        own = _own_decision(release, actor)
        if own is not None and not own.approved and release.state == ReleaseState.REFUSED:
            return release
        policy, facts = policy_of(release), facts_of(release, now)
        if release.state != ReleaseState.PROPOSED or own is not None:
            _check_open(release, own, None)
        mine = candidate(actor.user, release, now)
        role = approval_policy.check_may_approve(policy, facts, mine, now)
        ReleaseApproval.objects.create(
            release=release,
            role=role,
            roles=sorted(mine.roles),
            seats=sorted(mine.seats),
            person=actor.user,
            approved=False,
            reason=reason.strip(),
        )
        decide(release, ReleaseState.REFUSED, actor, reason=reason.strip())
        publish(release)
    return release


def withdraw_release(*, release: Release, reason: str = "", actor: Actor) -> Release:
    """Take an open question back; by the person who asked, or somebody with a part in the model."""
    require(actor, "release.request", team_id=release.version.model.team_id)
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


def _still_asked(actor: Actor, release: Release) -> Actor:
    """The actor as they are now, under the release's lock: not as the request found them."""
    actor = actor.as_of_now()
    require(actor, "release.decide", team_id=release.version.model.team_id)
    return actor


def _own_decision(release: Release, actor: Actor) -> ReleaseApproval | None:
    own = release.approvals.filter(person=actor.user, superseded_at__isnull=True)
    return own.select_related("key").first()


def _is_repeated(own: ReleaseApproval, envelope: bytes | str | Mapping[str, Any]) -> bool:
    """Whether the envelope is the one that the person's approval holds."""
    if own.key is None or own.envelope is None:
        return False
    return is_same_signature(own.envelope, own.key, envelope)


def _check_open(release: Release, own: ReleaseApproval | None, verdict: Verdict | None) -> None:
    """Raise Conflict unless it waits for an approval: at first, or because one does not do now."""
    again = release.state == ReleaseState.APPROVED and verdict is not None
    if release.state != ReleaseState.PROPOSED and not (again and verdict and not verdict.approved):
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
        if release.environment.requires_contract:
            raise Conflict(
                f"{release.environment.name} asks for a contract in force, and the release of "
                f"{release} names none.",
                code="contract_missing",
                hint="Have a contract signed, then ask for a new release; or break the glass.",
            )
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
