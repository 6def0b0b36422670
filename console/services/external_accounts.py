"""People whom a directory or an identity provider vouches for: found, made, linked, kept in step.

An account is found by issuer and subject alone. Neither an e-mail address nor a user name that
the other side gives opens an account that is here already.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import SYSTEM_USERNAME, Actor, require
from console.errors import Conflict, NotAllowed, NotFound
from console.models import ExternalIdentity, Role, Severity, TeamMembership, User, UserKind
from console.rules.group_roles import GroupRule, standing_of
from console.rules.outsiders import Outsider, free_username
from console.services import audit
from console.services.invitations import accept_invitation
from console.services.notices import end, notify
from console.services.people import change_roles
from console.services.teams import remove_member, set_member


@dataclass(frozen=True, slots=True)
class Invited:
    """The secret of an invitation that the browser came with, and from where."""

    secret: str
    address: str
    source: str
    request_id: str = ""


def enter(
    *,
    outsider: Outsider,
    sign_up: str,
    rules: Collection[GroupRule],
    invited: Invited | None = None,
) -> User:
    """The person that the outsider is here, with the roles that their groups give them.

    Who has no account gets the one that they were invited to, or with `sign_up` "anybody" a new
    one. Raises what accepting an invitation raises, and NotAllowed: `not_invited`
    for who has none otherwise, `deactivated` for who may not sign in any more.
    """
    person = _known(outsider)
    if person is None:
        person = _joined(outsider, invited) if invited else _made(outsider, sign_up)
    if not person.is_active or person.kind != UserKind.PERSON:
        raise NotAllowed(
            f"The account {person.username} is deactivated.",
            code="deactivated",
            hint="Ask a platform admin to let you in again.",
        )
    ExternalIdentity.objects.filter(issuer=outsider.issuer, subject=outsider.subject).update(
        last_used_at=timezone.now(), email=outsider.email[:254]
    )
    if rules:
        _keep_in_step(person, outsider, rules)
        person.refresh_from_db()
    return person


def link_identity(*, outsider: Outsider, actor: Actor) -> ExternalIdentity:
    """Let the outsider's account open the actor's; whoever calls has asked again who it is.

    Raises Conflict when it opens another account already; linking it twice changes nothing.
    """
    require(actor, "second_factor.manage_own")
    known = ExternalIdentity.objects.filter(
        issuer=outsider.issuer, subject=outsider.subject
    ).first()
    if known is not None and known.user_id == actor.user.pk:
        return known
    try:
        with transaction.atomic():
            identity = _identity(outsider, actor.user)
            audit.record(
                actor=actor,
                action="identity.link",
                subject=f"user {actor.user.username}",
                after={"issuer": outsider.issuer, "subject": outsider.subject},
            )
    except IntegrityError as error:
        raise Conflict(
            "This account opens somebody else's account here.",
            code="identity_taken",
            hint="Sign out at the provider and sign in there as yourself.",
        ) from error
    return identity


def unlink_identity(*, identity_id: int, actor: Actor) -> None:
    """Stop an outside account from opening one's own; whoever calls has asked again.

    Raises NotFound, and Conflict (`last_way_in`) when nothing else would be left to sign in with.
    """
    require(actor, "second_factor.manage_own")
    with transaction.atomic():
        person = User.objects.select_for_update(of=("self",)).get(pk=actor.user.pk)
        identity = person.identities.filter(pk=identity_id).first()
        if identity is None:
            raise NotFound("There is no such linked account of yours.")
        others = person.identities.exclude(pk=identity.pk).exists() or person.passkeys.exists()
        if not others and not person.has_usable_password():
            raise Conflict(
                "You could not sign in any more without this account.",
                code="last_way_in",
                hint="Enrol a passkey first, or have a platform admin give you a password.",
            )
        audit.record(
            actor=actor,
            action="identity.unlink",
            subject=f"user {person.username}",
            before={"issuer": identity.issuer, "subject": identity.subject},
        )
        identity.delete()


def _known(outsider: Outsider) -> User | None:
    identity = (
        ExternalIdentity.objects.filter(issuer=outsider.issuer, subject=outsider.subject)
        .select_related("user")
        .first()
    )
    return identity.user if identity else None


def _joined(outsider: Outsider, invited: Invited) -> User:
    """Accept the invitation with this account in place of a password."""
    with transaction.atomic():
        person = accept_invitation(
            secret=invited.secret,
            password=None,
            address=invited.address,
            source=invited.source,
            request_id=invited.request_id,
        )
        _identity(outsider, person)
        audit.record(
            actor=Actor(user=person, source=invited.source, request_id=invited.request_id),
            action="identity.link",
            subject=f"user {person.username}",
            after={"issuer": outsider.issuer, "subject": outsider.subject},
        )
    return person


def _made(outsider: Outsider, sign_up: str) -> User:
    if sign_up != "anybody":
        raise NotAllowed(
            "You have no account here yet.",
            code="not_invited",
            hint="Ask a platform admin for an invitation. If you have an account, sign in to it "
            "and link this one under Settings → Sign-in and security.",
        )
    try:
        with transaction.atomic():
            person = User(
                username=free_username(
                    outsider,
                    lambda name: (
                        name == SYSTEM_USERNAME or User.objects.filter(username=name).exists()
                    ),
                ),
                display_name=outsider.display_name[:120],
                email=outsider.email[:254],
            )
            person.set_unusable_password()
            person.save(force_insert=True)
            _identity(outsider, person)
            audit.record(
                actor=Actor.system(outsider.source),
                action="user.create",
                subject=f"user {person.username}",
                after={"roles": [], "issuer": outsider.issuer, "subject": outsider.subject},
            )
    except IntegrityError:
        # Somebody was made with that name, or by the same person in another tab, meanwhile.
        return _known(outsider) or _made(outsider, sign_up)
    return person


def _identity(outsider: Outsider, person: User) -> ExternalIdentity:
    return ExternalIdentity.objects.create(
        user=person,
        source=outsider.source,
        issuer=outsider.issuer,
        subject=outsider.subject,
        email=outsider.email[:254],
    )


def _keep_in_step(person: User, outsider: Outsider, rules: Collection[GroupRule]) -> None:
    """Give the person what their groups stand for, as far as the house allows.

    A seat that would be left without its role, or the last platform admin, stays as it is: the
    admins are told, and the next sign-in tries again.
    """
    standing = standing_of(outsider.groups, rules)
    actor = Actor.system(outsider.source)
    reason = f"Groups at {outsider.issuer}"[:300]
    kept: list[str] = []
    try:
        change_roles(username=person.username, roles=standing.roles, reason=reason, actor=actor)
    except Conflict as first:
        kept.append(first.message)
        roles = {*standing.roles, *person.roles}
        change_roles(username=person.username, roles=sorted(roles), reason=reason, actor=actor)
    for slug, team_roles in standing.teams.items():
        try:
            _keep_in_team(person, slug, team_roles, actor=actor, reason=reason)
        except Conflict as conflict:
            kept.append(conflict.message)
        except NotFound:
            # The mapping may name a team that is not made yet.
            continue
    key = f"groups-not-followed:{person.pk}"
    if kept:
        notify(
            people=User.objects.filter(is_active=True, roles__contains=[Role.PLATFORM_ADMIN]),
            kind="groups.not_followed",
            key=key,
            subject=f"user {person.username}",
            subject_url=f"/settings/people/{person.username}/",
            severity=Severity.WARNING,
            data={"username": person.username, "why": " ".join(kept)[:500]},
        )
    else:
        end(key=key)


def _keep_in_team(
    person: User, slug: str, roles: tuple[str, ...] | None, *, actor: Actor, reason: str
) -> None:
    if roles is not None:
        set_member(slug=slug, username=person.username, roles=roles, reason=reason, actor=actor)
    elif TeamMembership.objects.filter(team__slug=slug, user=person).exists():
        remove_member(slug=slug, username=person.username, reason=reason, actor=actor)
