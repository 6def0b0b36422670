"""Teams: groups of people that own models, each member with roles that hold for these."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.text import slugify

from console import live
from console.actors import SYSTEM_USERNAME, Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import Role, Team, TeamMembership, User, UserKind
from console.services import audit
from console.services.duties import keep_seats
from console.services.people import check_roles

MOST_NAMED = 5
# Only for the whole installation: a team has nothing that takes an administrator.
TEAM_ROLES = tuple(role for role in Role.values if role != Role.PLATFORM_ADMIN)


def create_team(*, name: str, slug: str = "", description: str = "", actor: Actor) -> Team:
    """Make a team without members; `slug` names it in addresses, made of its name when left out.

    Raises Invalid for a name that is not accepted, Conflict (`name_taken`).
    """
    require(actor, "team.manage")
    team = Team(
        name=name.strip(), slug=slug.strip() or slugify(name)[:64], description=description.strip()
    )
    _check(team)
    try:
        with transaction.atomic():
            team.save(force_insert=True)
            _record(
                team,
                "team.create",
                actor,
                after={"name": team.name, "description": team.description},
            )
    except IntegrityError as error:
        raise Conflict(
            f"There is a team {team.slug} already.",
            code="name_taken",
            hint="Add people to it, or choose another short name.",
            errors=(FieldError("/slug", "is taken"),),
        ) from error
    return team


def change_team(*, slug: str, name: str, description: str, actor: Actor) -> Team:
    """Rename or describe a team; its short name stays, since addresses hold it."""
    require(actor, "team.manage")
    with transaction.atomic():
        team = _locked(slug)
        before = {"name": team.name, "description": team.description}
        team.name, team.description = name.strip(), description.strip()
        after = {"name": team.name, "description": team.description}
        if before == after:
            return team
        _check(team)
        team.save(update_fields=["name", "description"])
        _record(team, "team.change", actor, before=before, after=after)
    return team


def set_member(
    *, slug: str, username: str, roles: Sequence[str], reason: str = "", actor: Actor
) -> TeamMembership:
    """Take somebody in with exactly these roles for the team's models, or change a member's.

    A member without roles sees what the team sees. Raises Invalid (`unknown_role`,
    `role_is_global`), NotFound, Conflict (`seats_depend`; `deactivated`).
    """
    require(actor, "team.manage")
    check_roles(roles)
    if Role.PLATFORM_ADMIN in roles:
        raise Invalid(
            "Platform admin is a role for the whole installation, not of a team.",
            code="role_is_global",
            hint="Give it under Settings → People.",
            errors=(FieldError("/roles", "is no role of a team"),),
        )
    with transaction.atomic():
        team = _locked(slug)
        person = _locked_user(username)
        present = TeamMembership.objects.filter(team=team, user=person).first()
        before = sorted(present.roles) if present else None
        after = sorted(set(roles))
        if before == after and present is not None:
            return present
        if not person.is_active:
            raise Conflict(
                f"{person.username} is deactivated and joins no team.",
                code="deactivated",
                hint="Let the person in again first.",
            )
        kept = {**person.team_roles, team.pk: frozenset(after)}
        keep_seats(person, roles=frozenset(person.roles), team_roles=kept)
        membership, _ = TeamMembership.objects.update_or_create(
            team=team, user=person, defaults={"roles": after}
        )
        _record(
            team,
            "team.member",
            actor,
            before={"user": person.username, "roles": before},
            after={"user": person.username, "roles": after},
            reason=reason,
        )
        live.publish(f"inbox:{person.username}", "person.changed")
    return membership


def remove_member(*, slug: str, username: str, reason: str = "", actor: Actor) -> Team:
    """Take somebody out of a team; raises NotFound, Conflict (`seats_depend`, `owner_team`)."""
    require(actor, "team.manage")
    with transaction.atomic():
        team = _locked(slug)
        person = _locked_user(username)
        membership = TeamMembership.objects.filter(team=team, user=person).first()
        if membership is None:
            raise NotFound(f"{username[:64]} is not in the team {team}.")
        if person.is_service:
            raise Conflict(
                f"The service account {person.username} belongs to the team {team}.",
                code="owner_team",
                hint="Give it to another team, or disable it, under Settings → Service accounts.",
            )
        kept = {key: value for key, value in person.team_roles.items() if key != team.pk}
        keep_seats(person, roles=frozenset(person.roles), team_roles=kept)
        membership.delete()
        _record(
            team,
            "team.member",
            actor,
            before={"user": person.username, "roles": sorted(membership.roles)},
            after={"user": person.username, "roles": None},
            reason=reason,
        )
        live.publish(f"inbox:{person.username}", "person.changed")
    return team


def delete_team(*, slug: str, reason: str, actor: Actor) -> None:
    """Delete a team that owns no model and no service account.

    Raises Conflict (`team_in_use`) that names what belongs to it, NotFound.
    """
    require(actor, "team.manage")
    with transaction.atomic():
        team = _locked(slug)
        machines = team.members.filter(kind=UserKind.SERVICE).order_by("username")
        _refuse_in_use(team, [f"the service account {one.username}" for one in machines])
        members = {
            one.user.username: sorted(one.roles)
            for one in team.memberships.select_related("user").order_by("user__username")
        }
        name = team.name
        try:
            # What owns a row of ours protects it: the storeys above need not be known here.
            with transaction.atomic():
                team.delete()
        except ProtectedError as error:
            owned = sorted(str(row) for row in error.protected_objects)
            _refuse_in_use(team, [f"the model {one}" for one in owned])
        audit.record(
            actor=actor,
            action="team.delete",
            subject=f"team {slug}",
            before={"name": name, "members": members},
            reason=reason,
        )


def url_of(team: Team) -> str:
    """The team's page."""
    return f"/settings/teams/{team.slug}/"


def _refuse_in_use(team: Team, owned: Sequence[str]) -> None:
    if not owned:
        return
    shown = ", ".join(owned[:MOST_NAMED])
    more = f" and {len(owned) - MOST_NAMED} more" if len(owned) > MOST_NAMED else ""
    raise Conflict(
        f"What belongs to the team {team} has no other: {shown}{more}.",
        code="team_in_use",
        hint="Give these to another team first, then delete it.",
    )


def _locked(slug: str) -> Team:
    team = Team.objects.select_for_update(no_key=True).filter(slug=slug).first()
    if team is None:
        raise NotFound(f"There is no team {slug[:64]}.", hint="See Settings → Teams.")
    return team


def _locked_user(username: str) -> User:
    user = (
        User.objects.select_for_update(no_key=True)
        .filter(username=username)
        .exclude(username=SYSTEM_USERNAME)
        .first()
    )
    if user is None:
        raise NotFound(
            f"There is nobody with the name {username[:64]}.", hint="See Settings → People."
        )
    return user


def _check(team: Team) -> None:
    try:
        team.clean_fields()
    except ValidationError as error:
        raise Invalid(
            "The team's data is not accepted.",
            errors=tuple(
                FieldError(f"/{field}", message)
                for field, messages in error.message_dict.items()
                for message in messages
            ),
        ) from error


def _record(
    team: Team,
    action: str,
    actor: Actor,
    *,
    before: object = None,
    after: object = None,
    reason: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"team {team.slug}",
        subject_url=url_of(team),
        before=before,
        after=after,
        reason=reason,
    )
