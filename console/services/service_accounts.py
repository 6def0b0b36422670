"""Accounts of programs: a team's, with its roles, tokens that admins make, and no password."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import ApiToken, Role, Team, TeamMembership, User, UserKind
from console.services import audit
from console.services.people import check_roles

# Roles that a machine may have; it administers nobody, and carries no promise.
MACHINE_ROLES = (Role.DATA_SCIENTIST, Role.SRE, Role.VIEWER)


def create_service_account(
    *, username: str, display_name: str = "", team: str, roles: Sequence[str], actor: Actor
) -> User:
    """Make an account for a program of a team; the roles hold for that team's models.

    It has no password and signs in nowhere: tokens are made for it, or it is recognised by its
    platform's own (`workloads`). Raises Invalid (`unknown_role`, `role_not_for_machines`,
    `unknown_team`), Conflict (`name_taken`).
    """
    require(actor, "service_account.manage")
    _check_machine_roles(roles)
    account = User(
        username=username.strip(), display_name=display_name.strip(), kind=UserKind.SERVICE
    )
    account.set_unusable_password()
    try:
        account.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Invalid(
            "The account's data is not accepted.",
            errors=tuple(
                FieldError(f"/{name}", message)
                for name, messages in error.message_dict.items()
                for message in messages
            ),
        ) from error
    owner = _team(team)
    try:
        with transaction.atomic():
            account.save(force_insert=True)
            TeamMembership.objects.create(team=owner, user=account, roles=sorted(set(roles)))
            _record(
                account,
                "service_account.create",
                actor,
                after={"team": owner.slug, "roles": sorted(set(roles))},
            )
    except IntegrityError as error:
        raise Conflict(
            f"The name {account.username} is taken.",
            code="name_taken",
            hint="People and service accounts share their names; choose another.",
            errors=(FieldError("/username", "is taken"),),
        ) from error
    return account


def change_service_account(
    *,
    username: str,
    display_name: str,
    team: str,
    roles: Sequence[str],
    reason: str = "",
    actor: Actor,
) -> User:
    """Rename it, give it to another team, or change its roles there."""
    require(actor, "service_account.manage")
    _check_machine_roles(roles)
    owner = _team(team)
    with transaction.atomic():
        account = lock_account(username)
        present = _membership(account)
        before = {
            "name": account.display_name,
            "team": present.team.slug if present else None,
            "roles": sorted(present.roles) if present else [],
        }
        kept = sorted(set(roles))
        after = {"name": display_name.strip(), "team": owner.slug, "roles": kept}
        if before == after:
            return account
        account.display_name = display_name.strip()[:120]
        account.save(update_fields=["display_name"])
        TeamMembership.objects.filter(user=account).delete()
        TeamMembership.objects.create(team=owner, user=account, roles=kept)
        _record(account, "service_account.change", actor, before=before, after=after, reason=reason)
    return account


def disable_service_account(*, username: str, reason: str, actor: Actor) -> User:
    """Let it in nowhere: its tokens are revoked at once; doing it twice changes nothing."""
    require(actor, "service_account.manage")
    if not reason.strip():
        raise Invalid(
            "Say why the account is disabled.",
            code="reason_missing",
            errors=(FieldError("/reason", "A reason is required."),),
        )
    with transaction.atomic():
        account = lock_account(username)
        if not account.is_active:
            return account
        list(ApiToken.objects.select_for_update(of=("self",)).filter(user=account).order_by("pk"))
        revoked = ApiToken.objects.filter(user=account, revoked_at__isnull=True).update(
            revoked_at=timezone.now()
        )
        account.is_active, account.deactivated_at = False, timezone.now()
        account.save(update_fields=["is_active", "deactivated_at"])
        _record(
            account,
            "service_account.disable",
            actor,
            before={"active": True},
            after={"active": False, "tokens_revoked": revoked},
            reason=reason.strip(),
        )
    return account


def enable_service_account(*, username: str, reason: str = "", actor: Actor) -> User:
    """Let it in again: by its workload identities, and by tokens that are made from now on."""
    require(actor, "service_account.manage")
    with transaction.atomic():
        account = lock_account(username)
        if account.is_active:
            return account
        account.is_active, account.deactivated_at = True, None
        account.save(update_fields=["is_active", "deactivated_at"])
        _record(
            account,
            "service_account.enable",
            actor,
            before={"active": False},
            after={"active": True},
            reason=reason.strip(),
        )
    return account


def lock_account(username: str) -> User:
    """The account's row, locked. Raises NotFound, also for a person."""
    account = (
        User.objects.select_for_update(no_key=True)
        .filter(username=username, kind=UserKind.SERVICE)
        .first()
    )
    if account is None:
        raise NotFound(
            f"There is no service account {username[:64]}.",
            hint="See Settings → Service accounts.",
        )
    return account


def url_of(account: User) -> str:
    """The account's page."""
    return f"/settings/service-accounts/{account.username}/"


def _membership(account: User) -> TeamMembership | None:
    return TeamMembership.objects.filter(user=account).select_related("team").first()


def _team(slug: str) -> Team:
    team = Team.objects.filter(slug=slug).first()
    if team is None:
        raise Invalid(
            f"There is no team {slug[:64]}." if slug else "A service account belongs to a team.",
            code="unknown_team",
            hint="Name the team that answers for the program; see Settings → Teams.",
            errors=(FieldError("/team", "is no team"),),
        )
    return team


def _check_machine_roles(roles: Sequence[str]) -> None:
    check_roles(roles)
    beyond = sorted(set(roles) - set(MACHINE_ROLES))
    if beyond:
        raise Invalid(
            f"A service account cannot be {', '.join(beyond)}: that takes a person.",
            code="role_not_for_machines",
            hint="Its roles are " + ", ".join(MACHINE_ROLES) + ".",
            errors=(FieldError("/roles", "is no role of a machine"),),
        )


def _record(
    account: User,
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
        subject=f"service account {account.username}",
        subject_url=url_of(account),
        before=before,
        after=after,
        reason=reason,
    )
