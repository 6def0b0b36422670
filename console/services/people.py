"""People: created, given roles, deactivated; the last platform admin stays one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from console import live
from console.actors import SYSTEM_USERNAME, Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import Role, User
from console.services import audit
from console.services.sign_ins import check_own_password


def create_person(
    *,
    username: str,
    display_name: str = "",
    email: str = "",
    roles: Sequence[str],
    password: str = "",
    actor: Actor,
) -> tuple[User, str]:
    """Create a person; without a password one is made. The clear password is given back once.

    Raises Invalid for a name, a role or a password that is not accepted, Conflict (`name_taken`).
    """
    require(actor, "user.manage")
    _check_roles(roles)
    clear = password or secrets.token_urlsafe(12)
    person = User(
        username=username.strip(),
        display_name=display_name.strip(),
        email=email.strip(),
        roles=sorted(set(roles)),
    )
    _check_password(clear, person)
    person.set_password(clear)
    try:
        person.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Invalid("The person's data is not accepted.", errors=_fields(error)) from error
    try:
        with transaction.atomic():
            person.save(force_insert=True)
            audit.record(
                actor=actor,
                action="user.create",
                subject=f"user {person.username}",
                after={"roles": person.roles, "email": person.email},
            )
    except IntegrityError as error:
        raise Conflict(
            f"The name {person.username} is taken.",
            code="name_taken",
            hint="Choose another name; a deactivated person keeps theirs.",
        ) from error
    return person, clear


def change_roles(*, username: str, roles: Sequence[str], reason: str = "", actor: Actor) -> User:
    """Give a person exactly these roles; raises Conflict (`last_admin`), Invalid, NotFound."""
    require(actor, "user.manage")
    _check_roles(roles)
    with transaction.atomic():
        person = _locked(username)
        before, after = sorted(person.roles), sorted(set(roles))
        if before == after:
            return person
        if person.has_role(Role.PLATFORM_ADMIN) and Role.PLATFORM_ADMIN not in after:
            _keep_an_admin(person)
        person.roles = after
        person.save(update_fields=["roles"])
        audit.record(
            actor=actor,
            action="user.roles",
            subject=f"user {person.username}",
            before={"roles": before},
            after={"roles": after},
            reason=reason,
        )
        live.publish(f"inbox:{person.username}", "person.changed")
    return person


def deactivate_person(*, username: str, reason: str, actor: Actor) -> User:
    """Take away all access at once: sessions, tokens, streams; what was signed stays.

    Raises Conflict (`last_admin`) and NotFound; doing it twice changes nothing.
    """
    return _set_active(username, active=False, reason=reason, actor=actor)


def reactivate_person(*, username: str, reason: str, actor: Actor) -> User:
    """Let a person sign in again, with the roles they had."""
    return _set_active(username, active=True, reason=reason, actor=actor)


def reset_password(*, username: str, actor: Actor) -> str:
    """Give a person a new password, which ends their sessions; the clear text is given once."""
    require(actor, "user.manage")
    clear = secrets.token_urlsafe(12)
    with transaction.atomic():
        person = _locked(username)
        person.set_password(clear)
        person.save(update_fields=["password"])
        audit.record(actor=actor, action="user.password_reset", subject=f"user {person.username}")
    return clear


def change_own_password(*, old: str, new: str, actor: Actor) -> User:
    """Change one's own password, which ends one's other sessions; raises Invalid, TooMany."""
    check_own_password(password=old, actor=actor)
    _check_password(new, actor.user)
    with transaction.atomic():
        person = _locked(actor.user.username)
        person.set_password(new)
        person.save(update_fields=["password"])
        audit.record(actor=actor, action="user.password", subject=f"user {person.username}")
    return person


def remember_language(*, language: str, actor: Actor) -> None:
    """Keep the language that a person chose, for their next sign-in."""
    User.objects.filter(pk=actor.user.pk).update(language=language)


def _set_active(username: str, *, active: bool, reason: str, actor: Actor) -> User:
    require(actor, "user.manage")
    with transaction.atomic():
        person = _locked(username)
        if person.is_active == active:
            return person
        if not active and person.has_role(Role.PLATFORM_ADMIN):
            _keep_an_admin(person)
        person.is_active = active
        person.save(update_fields=["is_active"])
        audit.record(
            actor=actor,
            action="user.reactivate" if active else "user.deactivate",
            subject=f"user {person.username}",
            before={"active": not active},
            after={"active": active},
            reason=reason,
        )
    return person


def _locked(username: str) -> User:
    """The person's row, locked together with those of all admins: so two cannot demote each other.

    In the order of their keys, so that nobody waits in a circle.
    """
    rows = list(
        User.objects.select_for_update()
        .filter(Q(username=username) | Q(roles__contains=[Role.PLATFORM_ADMIN]))
        .order_by("pk")
    )
    person = next((row for row in rows if row.username == username), None)
    if person is None or username == SYSTEM_USERNAME:
        raise NotFound(f"There is nobody with the name {username}.")
    return person


def _keep_an_admin(person: User) -> None:
    admins = User.objects.filter(is_active=True, roles__contains=[Role.PLATFORM_ADMIN])
    if person.is_active and not admins.exclude(pk=person.pk).exists():
        raise Conflict(
            f"{person.username} is the last platform admin.",
            code="last_admin",
            hint="Make somebody else a platform admin first.",
        )


def _check_roles(roles: Sequence[str]) -> None:
    unknown = sorted(set(roles) - set(Role.values))
    if unknown:
        raise Invalid(
            f"Unknown role: {', '.join(unknown)}.",
            code="unknown_role",
            hint="Roles are " + ", ".join(Role.values) + ".",
            errors=(FieldError("/roles", "Not a role."),),
        )


def _check_password(password: str, person: User) -> None:
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise Invalid(
            "The password is not accepted.",
            code="weak_password",
            hint=" ".join(error.messages),
            errors=tuple(FieldError("/password", message) for message in error.messages),
        ) from error


def _fields(error: ValidationError) -> tuple[FieldError, ...]:
    return tuple(
        FieldError(f"/{name}", message)
        for name, messages in error.message_dict.items()
        for message in messages
    )
