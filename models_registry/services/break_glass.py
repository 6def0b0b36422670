"""Releasing against an environment's policy: signed, told of at once, looked into by another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, NotAllowed, NotFound
from console.models import Role, Severity, User, UserKind
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from console.rules.fresh_sign_ins import SessionData
from console.services import notices
from console.services.reauthentication import confirm
from models_registry.models import BreakGlass, Release, ReleaseState, SeatHolder
from models_registry.rules import approval_policy, break_glass
from models_registry.selectors.release_policies import broken_glass, facts_of, policy_of
from models_registry.services.contract_checks import verify_in_force
from models_registry.services.release_checks import check_digests, check_report
from models_registry.services.release_records import (
    decide,
    lock_release,
    publish,
    record,
    url_of,
)
from models_registry.services.signatures import is_same_signature, take_in

OPERATORS = [Role.SRE, Role.PLATFORM_ADMIN]


def break_the_glass(
    *,
    release: Release,
    envelope: bytes | str | Mapping[str, Any],
    reason: str,
    actor: Actor,
    password: str = "",
    code: str = "",
    session: SessionData | None = None,
) -> Release:
    """Release against the policy: what is missing is waived, by name, and stays visible.

    Only what the policy asks for can be waived. Digests, report and signatures have to hold, and
    the envelope is a signature over the release's payload by the actor's own key. All other
    operators and the model's seats are told at once. The same envelope again changes nothing.

    Raises NotAllowed (`break_glass_impossible`, `role_missing`, `person_needed`), Conflict
    (`release_decided`, `glass_broken_already`, `nothing_to_waive`, `report_replaced`,
    `digest_mismatch`), Invalid for the reason, the signature, and who does not prove again who
    they are (see `reauthentication.confirm`).
    """
    # As it is now, not as the caller read it.
    release = Release.objects.select_related("environment", "version__model").get(pk=release.pk)
    _role_of(actor, release)
    reason = break_glass.check_reason(reason)
    before = broken_glass(release)
    if (
        before is not None
        and before.person_id == actor.user.pk
        and is_same_signature(before.envelope, before.key, envelope)
    ):
        return release
    # Outside the transaction: a wrong password has to stay counted when this is refused.
    confirm(actor=actor, password=password, code=code, session=session)
    with transaction.atomic():
        release, now = lock_release(release), timezone.now()
        # Proving who one is took a while: the roles are asked again under the lock.
        actor = actor.as_of_now()
        role = _role_of(actor, release)
        _check_state(release)
        check_digests(release)
        check_report(release)
        if release.contract is not None:
            verify_in_force(release.contract)
        verdict = approval_policy.evaluate(policy_of(release), facts_of(release, now), now)
        waived = break_glass.waived(verdict.unmet, str(release))
        stored, key = take_in(
            envelope,
            payload_type=RELEASE_PAYLOAD_TYPE,
            payload=bytes(release.payload),
            actor=actor,
        )
        broken = BreakGlass.objects.create(
            release=release,
            person=actor.user,
            role=role,
            key=key,
            envelope=stored,
            reason=reason,
            waived=waived,
        )
        _tell(release, broken)
        record(
            release,
            "release.break_glass",
            actor,
            before={"state": release.state},
            after={
                "version": str(release.version),
                "environment": release.environment.name,
                "role": role,
                "key": key.keyid,
                "digest": release.digest,
                "waived": waived,
            },
            reason=reason,
        )
        if release.state == ReleaseState.PROPOSED:
            codes = ", ".join(dict.fromkeys(one["code"] for one in waived))
            decide(release, ReleaseState.APPROVED, actor, reason=f"By breaking the glass: {codes}.")
        publish(release)
    return release


def review_break_glass(*, release: Release, review: str, actor: Actor) -> Release:
    """Say what came of looking into it; by somebody else than who broke the glass, once.

    Raises NotFound where no glass was broken, NotAllowed `own_break_glass`, Conflict
    `reviewed_already`, Invalid for too short a text.
    """
    require(actor, "release.review", team_id=release.version.model.team_id)
    _check_person(actor)
    review = break_glass.check_review(review)
    with transaction.atomic():
        release = lock_release(release)
        broken = (
            BreakGlass.objects.select_for_update(of=("self",))
            .select_related("person", "reviewed_by")
            .filter(release=release)
            .first()
        )
        if broken is None:
            raise NotFound(f"The release of {release} was not made against its policy.")
        if broken.person_id == actor.user.pk:
            raise NotAllowed(
                "You broke the glass yourself; somebody else has to look into it.",
                code="own_break_glass",
                hint="Ask another SRE or platform admin.",
            )
        if broken.reviewed_at is not None:
            if broken.reviewed_by_id == actor.user.pk and broken.review == review:
                return release
            raise Conflict(
                f"{broken.reviewed_by} has looked into it already.",
                code="reviewed_already",
                hint="The review stays as it is; write what comes later into a new release's note.",
            )
        broken.reviewed_by, broken.reviewed_at, broken.review = actor.user, timezone.now(), review
        broken.save(update_fields=["reviewed_by", "reviewed_at", "review"])
        record(
            release,
            "release.review",
            actor,
            after={
                "version": str(release.version),
                "environment": release.environment.name,
                "broken_by": broken.person.username,
            },
            reason=review,
        )
        notices.end(key=told_key(release))
        notices.end(key=overdue_key(release))
        publish(release)
    return release


def remind_of_reviews(*, now: datetime) -> int:
    """Tell operators of reviews that are overdue, once a day each; gives how many are."""
    late = BreakGlass.objects.filter(
        reviewed_at__isnull=True, at__lte=now - break_glass.REVIEW_WITHIN
    ).select_related("person", "release__version__model", "release__environment")
    count = 0
    for broken in late:
        days = break_glass.days_overdue(broken.at, now)
        with transaction.atomic():
            release = broken.release
            told = broken.reminded_days
            if days is None or (told is not None and told >= days):
                continue
            notices.end(key=overdue_key(release))
            notices.notify(
                people=_others(release, broken.person),
                kind="release.review_overdue",
                key=overdue_key(release),
                subject=str(release),
                subject_url=url_of(release),
                severity=Severity.CRITICAL,
                data=_data(release, broken),
            )
            BreakGlass.objects.filter(pk=broken.pk).update(reminded_days=days)
        count += 1
    return count


def told_key(release: Release) -> str:
    """The key of the notice that the glass was broken."""
    return f"release.break_glass:{release.pk}"


def overdue_key(release: Release) -> str:
    """The key of the notice that its review is overdue."""
    return f"release.review_overdue:{release.pk}"


def _tell(release: Release, broken: BreakGlass) -> None:
    notices.notify(
        people=_others(release, broken.person),
        kind="release.break_glass",
        key=told_key(release),
        subject=str(release),
        subject_url=url_of(release),
        severity=Severity.CRITICAL,
        data=_data(release, broken),
    )


def _data(release: Release, broken: BreakGlass) -> dict[str, Any]:
    return {
        "version": str(release.version),
        "environment": release.environment.name,
        "person": broken.person.username,
        "reason": broken.reason,
        "waived": list(dict.fromkeys(one["code"] for one in broken.waived)),
        "due": break_glass.review_due(broken.at).isoformat(),
    }


def _others(release: Release, person: User) -> QuerySet[User]:
    """All other operators, and who sits in the model's seats."""
    model = release.version.model
    seats = SeatHolder.objects.filter(model=model).values("user")
    operators = Q(roles__overlap=OPERATORS)
    if model.team_id is not None:
        operators |= Q(memberships__team=model.team_id, memberships__roles__overlap=OPERATORS)
    return (
        User.objects.filter(operators | Q(pk__in=seats), is_active=True, kind=UserKind.PERSON)
        .exclude(pk=person.pk)
        .distinct()
    )


def _role_of(actor: Actor, release: Release) -> str:
    """The role by which the actor may break the glass here; raises NotAllowed without one."""
    model, environment = release.version.model, release.environment
    require(actor, "release.break_glass", team_id=model.team_id)
    _check_person(actor)
    held = actor.user.roles_in(model.team_id)
    return break_glass.role_for(environment.name, environment.break_glass_roles, held)


def _check_person(actor: Actor) -> None:
    if actor.user.kind != UserKind.PERSON:
        raise NotAllowed(
            "Releasing against the policy, and looking into it, is for people.",
            code="person_needed",
            hint="Have a person do it, with a key of their own.",
        )


def _check_state(release: Release) -> None:
    if broken_glass(release) is not None:
        raise Conflict(
            f"The glass was broken for the release of {release} already.",
            code="glass_broken_already",
            hint="What was waived then still holds; for anything else ask for a new release.",
        )
    if release.state not in (ReleaseState.PROPOSED, ReleaseState.APPROVED):
        raise Conflict(
            f"The release of {release} is {release.get_state_display()} already.",
            code="release_decided",
            hint="Ask for a new release of the version.",
        )
