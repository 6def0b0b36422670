"""Invitations: a link by which somebody makes their own account, once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.adapters.mail import send_mail
from console.errors import Conflict, FieldError, Invalid, NotFound, Unavailable
from console.models import Invitation, Role, Team, TeamMembership, User
from console.rules.invitations import (
    FEWEST_DAYS,
    MOST_DAYS,
    USUAL_DAYS,
    invitation_state,
    username_from,
)
from console.services import audit
from console.services.attempts import Limit, count_attempt
from console.services.people import check_password, check_roles

PER_ADDRESS = Limit(attempts=30, seconds=15 * 60)


@dataclass(frozen=True, slots=True)
class Invited:
    """A new invitation and its link, which is told this once; how the mail went."""

    invitation: Invitation
    link: str
    mailed: bool
    mail_fault: str = ""


def invite(
    *,
    email: str,
    display_name: str = "",
    username: str = "",
    roles: Sequence[str] = (),
    teams: Sequence[Mapping[str, Any]] = (),
    days: int = USUAL_DAYS,
    actor: Actor,
) -> Invited:
    """Invite somebody; `teams` are [{"team": slug, "roles": [...]}].

    The user name is made of the address when left out. The link is mailed where mail is set up; a
    mail that is not taken changes nothing, since the link is given here. Raises Invalid, Conflict
    (`name_taken`, `invited_already`).
    """
    require(actor, "user.manage")
    check_roles(roles)
    invitation = Invitation(
        email=email.strip(),
        display_name=display_name.strip(),
        username=username.strip() or username_from(email),
        roles=sorted(set(roles)),
        teams=_teams(teams),
        invited_by=actor.user,
        digest="0" * 64,
    )
    if not FEWEST_DAYS <= days <= MOST_DAYS:
        raise Invalid(
            f"An invitation is valid for {FEWEST_DAYS} to {MOST_DAYS} days.",
            errors=(FieldError("/days", f"is not {FEWEST_DAYS} to {MOST_DAYS}"),),
        )
    _check_fields(invitation)
    secret = secrets.token_urlsafe(32)
    with transaction.atomic():
        # One after the other: of two clicks at once only one makes a link.
        audit.lock_head()
        _check_free(invitation)
        invitation.digest = _digest(secret)
        invitation.expires_at = timezone.now() + timedelta(days=days)
        invitation.save(force_insert=True)
        audit.record(
            actor=actor,
            action="invitation.create",
            subject=f"invitation {invitation.username}",
            subject_url="/settings/invitations/",
            after={
                "email": invitation.email,
                "roles": invitation.roles,
                "teams": invitation.teams,
                "expires_at": invitation.expires_at.isoformat(timespec="seconds"),
            },
        )
    link = f"{settings.CONFIG.base_url}/invitation/{secret}/"
    mailed, fault = _mail(invitation, link)
    return Invited(invitation, link, mailed, fault)


def revoke_invitation(*, invitation_id: str, reason: str = "", actor: Actor) -> Invitation:
    """Take an open invitation back; doing it twice changes nothing. Conflict once it is used."""
    require(actor, "user.manage")
    with transaction.atomic():
        invitation = _locked(pk=invitation_id)
        if invitation is None:
            raise NotFound("There is no such invitation.", hint="See Settings → People.")
        if invitation.accepted_at is not None:
            raise Conflict(
                f"{invitation.username} has accepted the invitation already.",
                code="invitation_used",
                hint="Deactivate the person instead.",
            )
        if invitation.revoked_at is None:
            invitation.revoked_at = timezone.now()
            invitation.save(update_fields=["revoked_at"])
            audit.record(
                actor=actor,
                action="invitation.revoke",
                subject=f"invitation {invitation.username}",
                subject_url="/settings/invitations/",
                reason=reason,
            )
    return invitation


def open_invitation(*, secret: str, address: str) -> Invitation:
    """The invitation that a link opens, for the page that asks for a password.

    Raises NotFound in the same words for a link that is used, expired, revoked or made up, and
    TooMany after 30 tries from one address in 15 minutes.
    """
    count_attempt(f"invitation:{address}", PER_ADDRESS)
    invitation = (
        Invitation.objects.select_related("invited_by").filter(digest=_digest(secret)).first()
    )
    if invitation is None or state_of(invitation, timezone.now()) != "open":
        raise _not_valid()
    return invitation


def accept_invitation(
    *,
    secret: str,
    password: str | None,
    language: str = "",
    address: str,
    source: str,
    request_id: str = "",
) -> User:
    """Make the account; of two who accept at once one does. Gives the new person.

    `password` is None for somebody who signs in elsewhere (an identity is then linked by the
    caller, in the same transaction). Raises NotFound and TooMany as `open_invitation`, Invalid
    (`weak_password`), Conflict (`name_taken`).
    """
    count_attempt(f"invitation:{address}", PER_ADDRESS)
    with transaction.atomic():
        invitation = _locked(digest=_digest(secret))
        if invitation is None or state_of(invitation, timezone.now()) != "open":
            raise _not_valid()
        person = User(
            username=invitation.username,
            display_name=invitation.display_name,
            email=invitation.email,
            roles=invitation.roles,
            language=language,
        )
        if password is not None:
            check_password(password, person)
        person.set_password(password)
        joined = _make(person, invitation)
        invitation.accepted_at, invitation.accepted_by = timezone.now(), person
        invitation.save(update_fields=["accepted_at", "accepted_by"])
        audit.record(
            actor=Actor(user=person, source=f"{source} {address}"[:100], request_id=request_id),
            action="invitation.accept",
            subject=f"user {person.username}",
            subject_url=f"/settings/people/{person.username}/",
            after={
                "invited_by": invitation.invited_by.username,
                "email": person.email,
                "roles": person.roles,
                "teams": joined,
            },
        )
    return person


def state_of(invitation: Invitation, now: datetime) -> str:
    """`open`, `accepted`, `expired` or `revoked`."""
    return invitation_state(
        now=now,
        expires_at=invitation.expires_at,
        accepted_at=invitation.accepted_at,
        revoked_at=invitation.revoked_at,
    )


def _teams(teams: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    known = set(Team.objects.values_list("slug", flat=True))
    found: dict[str, list[str]] = {}
    for number, one in enumerate(teams):
        slug, roles = str(one.get("team", "")), list(one.get("roles", ()))
        if slug not in known:
            raise Invalid(
                f"There is no team {slug[:64]}.",
                code="unknown_team",
                errors=(FieldError(f"/teams/{number}/team", "is no team"),),
            )
        check_roles(roles)
        if Role.PLATFORM_ADMIN in roles:
            raise Invalid(
                "Platform admin is a role for the whole installation, not of a team.",
                code="role_is_global",
                errors=(FieldError(f"/teams/{number}/roles", "is no role of a team"),),
            )
        found[slug] = sorted(set(roles))
    return [{"team": slug, "roles": roles} for slug, roles in sorted(found.items())]


def _check_fields(invitation: Invitation) -> None:
    try:
        invitation.clean_fields(exclude=["invited_by", "expires_at", "digest"])
    except ValidationError as error:
        raise Invalid(
            "The invitation is not accepted.",
            errors=tuple(
                FieldError(f"/{name}", message)
                for name, messages in error.message_dict.items()
                for message in messages
            ),
        ) from error


def _check_free(invitation: Invitation) -> None:
    if User.objects.filter(username=invitation.username).exists():
        raise Conflict(
            f"The name {invitation.username} is taken.",
            code="name_taken",
            hint="Choose another user name; a deactivated person keeps theirs.",
            errors=(FieldError("/username", "is taken"),),
        )
    waiting = Invitation.objects.filter(
        username=invitation.username,
        accepted_at__isnull=True,
        revoked_at__isnull=True,
        expires_at__gt=timezone.now(),
    )
    if waiting.exists():
        raise Conflict(
            f"{invitation.username} is invited already.",
            code="invited_already",
            hint="Revoke that invitation first, when its link is lost.",
            errors=(FieldError("/username", "is invited already"),),
        )


def _make(person: User, invitation: Invitation) -> dict[str, list[str]]:
    """Write the person and their memberships; teams that are gone since are left out."""
    try:
        with transaction.atomic():
            person.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"The name {person.username} was taken meanwhile.",
            code="name_taken",
            hint="Ask whoever invited you for another invitation.",
        ) from error
    teams = {team.slug: team for team in Team.objects.all()}
    joined = {one["team"]: one["roles"] for one in invitation.teams if one["team"] in teams}
    TeamMembership.objects.bulk_create(
        TeamMembership(team=teams[slug], user=person, roles=roles) for slug, roles in joined.items()
    )
    return joined


def _mail(invitation: Invitation, link: str) -> tuple[bool, str]:
    """Send the link, outside of any transaction; gives whether it went, and else why not."""
    if settings.MAIL_SERVER is None:
        return False, ""
    name = invitation.display_name or invitation.username
    text = (
        f"Hello {name},\n\n"
        f"{invitation.invited_by} invites you to Covenant at {settings.CONFIG.base_url}.\n"
        f"Your user name is {invitation.username}. Choose your password here:\n\n"
        f"{link}\n\n"
        "The link works once, until "
        f"{invitation.expires_at:%Y-%m-%d %H:%M} UTC. Whoever has it can make the account: "
        "do not forward it.\n"
    )
    try:
        send_mail(
            settings.MAIL_SERVER,
            to=[invitation.email],
            subject="Your invitation to Covenant",
            text=text,
        )
    except Unavailable as error:
        return False, error.message
    return True, ""


def _locked(**which: Any) -> Invitation | None:
    try:
        return (
            Invitation.objects.select_for_update(of=("self",))
            .select_related("invited_by")
            .filter(**which)
            .first()
        )
    except ValidationError:
        # An id that is none.
        return None


def _not_valid() -> NotFound:
    return NotFound(
        "This invitation is not valid.",
        code="invitation_not_valid",
        hint="It was used, revoked, is too old, or the link is not whole. Ask for another.",
    )


def _digest(secret: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
