"""Asking a signed-in person to prove again who they are, before what cannot be taken back."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from console.actors import Actor
from console.errors import FieldError, Invalid
from console.models import IdentitySource, User
from console.rules.fresh_sign_ins import SessionData, is_fresh
from console.services.one_time_codes import has_app, is_right_code
from console.services.own_passwords import check_own_password, record_refusal


@dataclass(frozen=True, slots=True)
class Ways:
    """What the person can prove it with; `fresh` when nothing needs to be asked."""

    password: bool
    code: bool
    fresh: bool


def ways_to_confirm(*, user: User, session: SessionData | None = None) -> Ways:
    """What a form has to ask of this person.

    A sign-in of the last ten minutes counts for those alone who have no password to give.
    """
    password = has_password(user)
    return Ways(
        password=password,
        code=has_app(user),
        fresh=not password and is_fresh(session, timezone.now()),
    )


def confirm(
    *, actor: Actor, password: str = "", code: str = "", session: SessionData | None = None
) -> None:
    """Return when the actor proved who they are; `session` is the one of a page's request.

    Raises Invalid (`wrong_password`, `wrong_code`; `confirmation_needed` when nothing was given,
    or when somebody without a password signed in more than ten minutes ago) and TooMany.
    """
    if password:
        check_own_password(password=password, actor=actor)
        return
    if code:
        if is_right_code(user=actor.user, code=code):
            return
        record_refusal(actor=actor, by="totp", why="wrong_code")
        raise Invalid(
            "This is not the code that your authenticator app shows now.",
            code="wrong_code",
            hint="Wait for the next code: each is taken once, and only for half a minute.",
            errors=(FieldError("/code", "Not the code that the app shows now, or taken already."),),
        )
    ways = ways_to_confirm(user=actor.user, session=session)
    if ways.fresh:
        return
    if ways.password or ways.code:
        raise Invalid(
            "Prove again that it is you.",
            code="confirmation_needed",
            hint="Enter your password."
            if not ways.code
            else "Enter your password or the code that your authenticator app shows."
            if ways.password
            else "Enter the code that your authenticator app shows.",
            errors=(
                FieldError(
                    "/password" if ways.password else "/code", "Prove again that it is you."
                ),
            ),
        )
    raise Invalid(
        "You signed in more than ten minutes ago.",
        code="confirmation_needed",
        hint="Sign out and in again, then do this within ten minutes.",
    )


def has_password(user: User) -> bool:
    """Whether there is a password to ask for: one kept here, or the directory's."""
    return user.has_usable_password() or user.identities.filter(source=IdentitySource.LDAP).exists()
