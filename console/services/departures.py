"""Somebody goes: what they carry is handed over, what opens doors to them ends; and coming back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.utils import timezone
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from console import live
from console.actors import Actor, require
from console.errors import FieldError, Invalid
from console.models import (
    ApiToken,
    Passkey,
    RevocationKind,
    Session,
    SigningKey,
    TeamMembership,
    User,
)
from console.rules.duties import Duty, faults_of
from console.services import audit
from console.services.duties import duties_of, hand_over, lock_duties
from console.services.keys import revoke_key
from console.services.people import keep_an_admin, lock_person


@dataclass(frozen=True, slots=True)
class Ended:
    """What deactivating a person did."""

    person: User
    moved: tuple[Duty, ...]
    keys: int
    tokens: int
    sessions: int


def deactivate_person(
    *, username: str, reason: str, actor: Actor, successors: Mapping[str, str] | None = None
) -> Ended:
    """Take away all access at once and hand over what the person carries: all of it or nothing.

    `successors` names a user for each seat and model, by `Duty.key`. Seats and models move, signing
    keys are revoked as `left`, tokens are revoked, sessions, passkeys and second factors end, roles
    and teams are taken away. Signatures stay valid, jobs go on, invitations stay.
    Raises Invalid (`reason_missing`; `successors_missing`, `successors_unfit` with each fault at
    `/successors/<key>`), Conflict (`last_admin`) and NotFound; doing it twice changes nothing.
    """
    require(actor, "user.manage")
    named = {key: name.strip() for key, name in (successors or {}).items() if name.strip()}
    if not reason.strip():
        raise Invalid(
            "Say why the person is deactivated.",
            code="reason_missing",
            errors=(FieldError("/reason", "A reason is required."),),
        )
    with transaction.atomic():
        person = lock_person(username, before=lock_duties)
        if not person.is_active:
            return Ended(person, (), 0, 0, 0)
        keep_an_admin(person)
        people = _successors(person, named)
        keys = _lock_what_opens(person)
        moved = hand_over(person=person, successors=people, reason=reason, actor=actor)
        tokens = ApiToken.objects.filter(user=person, revoked_at__isnull=True).update(
            revoked_at=timezone.now()
        )
        _revoke_keys(keys, person, actor)
        sessions = _end_sign_ins(person)
        before = {"active": True, "roles": sorted(person.roles), "teams": _take_teams(person)}
        person.is_active, person.deactivated_at, person.roles = False, timezone.now(), []
        person.save(update_fields=["is_active", "deactivated_at", "roles", "password"])
        audit.record(
            actor=actor,
            action="user.deactivate",
            subject=f"user {person.username}",
            subject_url=f"/settings/people/{person.username}/",
            before=before,
            after={
                "active": False,
                # To whom is told by an entry of each model, for those who may see that model.
                "handed_over": len(moved),
                "keys_revoked": len(keys),
                "tokens_revoked": tokens,
                "sessions_ended": sessions,
            },
            reason=reason.strip(),
        )
        live.publish(f"inbox:{person.username}", "person.changed")
    return Ended(person, tuple(moved), len(keys), tokens, sessions)


def reactivate_person(*, username: str, reason: str, actor: Actor) -> User:
    """Let a person in again, with nothing of what they had: no role, team, seat, key or password.

    What they shall have is given anew, where it can be seen.
    """
    require(actor, "user.manage")
    with transaction.atomic():
        person = lock_person(username)
        if person.is_active:
            return person
        had = {"active": False, "roles": sorted(person.roles), "teams": _take_teams(person)}
        person.is_active, person.deactivated_at, person.roles = True, None, []
        person.set_unusable_password()
        person.save(update_fields=["is_active", "deactivated_at", "roles", "password"])
        audit.record(
            actor=actor,
            action="user.reactivate",
            subject=f"user {person.username}",
            subject_url=f"/settings/people/{person.username}/",
            before=had,
            after={"active": True, "roles": [], "teams": {}},
            reason=reason.strip(),
        )
    return person


def _successors(person: User, named: Mapping[str, str]) -> dict[str, User]:
    """The named people. Raises Invalid with every place that names nobody."""
    faults = faults_of(duties_of(person), named)
    found = {user.username: user for user in User.objects.filter(username__in=named.values())}
    faults += tuple(
        FieldError(f"/successors/{key}", f"is nobody's user name: {name[:64]}")
        for key, name in named.items()
        if name not in found
    )
    if faults:
        raise Invalid(
            f"{person.username} cannot go yet: somebody has to carry on what they carry.",
            code="successors_missing",
            hint="Name a successor for each seat and each model; "
            f"GET /api/v1/people/{person.username}/departure/ lists them with suggestions.",
            errors=faults,
        )
    return {key: found[name] for key, name in named.items()}


def _lock_what_opens(person: User) -> list[SigningKey]:
    """Lock keys and tokens before the first entry: the audit trail's head is locked last of all."""
    keys = list(
        SigningKey.objects.select_for_update(of=("self",))
        .filter(user=person, revoked_at__isnull=True)
        .order_by("pk")
    )
    list(ApiToken.objects.select_for_update(of=("self",)).filter(user=person).order_by("pk"))
    return keys


def _revoke_keys(keys: Sequence[SigningKey], person: User, actor: Actor) -> None:
    # That people may be managed was asked; a token for that need not be one that signs.
    unbound = replace(actor, scopes=None)
    for key in keys:
        revoke_key(
            key_id=key.keyid,
            reason=f"{person.username} was deactivated.",
            kind=RevocationKind.LEFT,
            actor=unbound,
        )


def _end_sign_ins(person: User) -> int:
    """End the sessions (gives how many) and the ways to begin one; identities at a provider stay.

    A provider asks anew who somebody is; what was enrolled here may be in other hands by then.
    """
    sessions, _ = Session.objects.filter(user=person).delete()
    Passkey.objects.filter(user=person).delete()
    TOTPDevice.objects.filter(user=person).delete()
    StaticDevice.objects.filter(user=person).delete()
    person.set_unusable_password()
    return sessions


def _take_teams(person: User) -> dict[str, list[str]]:
    """Take the person out of all teams; gives the roles that they had in each."""
    memberships = TeamMembership.objects.filter(user=person).select_related("team")
    had = {one.team.slug: sorted(one.roles) for one in memberships.order_by("team__slug")}
    memberships.delete()
    return had
