"""People: created, given roles and passwords; the last platform admin stays one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from console import live
from console.actors import SYSTEM_USERNAME, Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import Role, User, UserKind
from console.selectors.departures import is_last_admin
from console.services import audit
from console.services.duties import keep_seats
from console.services.own_passwords import check_own_password
from console.services.sessions import forget_sessions


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
    check_roles(roles)
    clear = password or secrets.token_urlsafe(12)
    person = User(
        username=username.strip(),
        display_name=display_name.strip(),
        email=email.strip(),
        roles=sorted(set(roles)),
    )
    check_password(clear, person)
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
    """Give a person exactly these roles.

    Raises Conflict (`last_admin`; `seats_depend` when a seat of theirs takes a role that goes),
    Invalid, NotFound.
    """
    require(actor, "user.manage")
    check_roles(roles)
    with transaction.atomic():
        person = lock_person(username)
        before, after = sorted(person.roles), sorted(set(roles))
        if before == after:
            return person
        if person.has_role(Role.PLATFORM_ADMIN) and Role.PLATFORM_ADMIN not in after:
            keep_an_admin(person)
        keep_seats(person, roles=frozenset(after), team_roles=person.team_roles)
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


def reset_password(*, username: str, actor: Actor) -> str:
    """Give a person a new password, which ends their sessions; the clear text is given once."""
    require(actor, "user.manage")
    clear = secrets.token_urlsafe(12)
    with transaction.atomic():
        person = lock_person(username)
        person.set_password(clear)
        person.save(update_fields=["password"])
        forget_sessions(person)
        audit.record(actor=actor, action="user.password_reset", subject=f"user {person.username}")
    return clear


def change_own_password(*, old: str, new: str, actor: Actor) -> User:
    """Change one's own password, which ends one's other sessions.

    Raises Invalid, TooMany, and Conflict (`no_password_here`) for who signs in by a directory or
    a provider: a password here would still open the account when they no longer do.
    """
    if not actor.user.has_usable_password():
        raise Conflict(
            "You have no password here.",
            code="no_password_here",
            hint="You sign in by a provider, a directory or a passkey; change it there.",
        )
    check_own_password(password=old, actor=actor)
    check_password(new, actor.user)
    with transaction.atomic():
        person = lock_person(actor.user.username)
        person.set_password(new)
        person.save(update_fields=["password"])
        audit.record(actor=actor, action="user.password", subject=f"user {person.username}")
    return person


def remember_language(*, language: str, actor: Actor) -> None:
    """Keep the language that a person chose, for their next sign-in."""
    User.objects.filter(pk=actor.user.pk).update(language=language)


def lock_person(username: str, *, before: Callable[[User], None] | None = None) -> User:
    """The person's row, locked together with those of all admins: so two cannot demote each other.

    In the order of their keys, so that nobody waits in a circle. `before` locks what has to be
    locked earlier, once it is known who it is. Raises NotFound, also for a service account.
    """
    people = User.objects.filter(kind=UserKind.PERSON).exclude(username=SYSTEM_USERNAME)
    if before is not None and (known := people.filter(username=username).first()) is not None:
        before(known)
    # Not against rows that refer to them: an audit entry or a job of theirs may be under way.
    rows = list(
        people.select_for_update(no_key=True)
        .filter(Q(username=username) | Q(roles__contains=[Role.PLATFORM_ADMIN]))
        .order_by("pk")
    )
    person = next((row for row in rows if row.username == username), None)
    if person is None:
        raise NotFound(
            f"There is nobody with the name {username[:64]}.", hint="See Settings → People."
        )
    return person


def keep_an_admin(person: User) -> None:
    """Raise Conflict (`last_admin`) when without this person nobody could manage people."""
    if is_last_admin(person):
        raise Conflict(
            f"{person.username} is the last platform admin.",
            code="last_admin",
            hint="Make somebody else a platform admin first.",
        )


def check_roles(roles: Sequence[str]) -> None:
    """Raise Invalid (`unknown_role`) for a role that there is not."""
    unknown = sorted(set(roles) - set(Role.values))
    if unknown:
        raise Invalid(
            f"Unknown role: {', '.join(unknown)}.",
            code="unknown_role",
            hint="Roles are " + ", ".join(Role.values) + ".",
            errors=(FieldError("/roles", "Not a role."),),
        )


def check_password(password: str, person: User) -> None:
    """Raise Invalid (`weak_password`) with what the password lacks."""
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
