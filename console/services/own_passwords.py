"""The password of somebody who is signed in, asked again."""

from __future__ import annotations

from django.db import transaction

from console.actors import Actor
from console.errors import Invalid
from console.services import audit
from console.services.attempts import Limit, count_attempt, forget_attempts
from console.services.directory import is_directory_password

GUESSES = Limit(attempts=5, seconds=15 * 60)


def check_own_password(*, password: str, actor: Actor) -> None:
    """Ask a signed-in person for the password again; raises Invalid (`wrong_password`), TooMany."""
    key = f"again:{actor.user.username}"
    count_attempt(key, GUESSES)
    if not actor.user.check_password(password) and not is_directory_password(
        user=actor.user, password=password
    ):
        record_refusal(actor=actor, by="password", why="wrong_password")
        raise Invalid(
            "This is not your password.",
            code="wrong_password",
            hint="Enter the password that you sign in with.",
        )
    forget_attempts(key)


def record_refusal(*, actor: Actor, by: str, why: str) -> None:
    """Put on record that somebody who is signed in could not prove again who they are.

    Called outside the transaction of what is refused, so that it stays.
    """
    with transaction.atomic():
        audit.record(
            actor=actor,
            action="sign_in.failed",
            subject=f"user {actor.user.username}",
            after={"by": by, "why": why, "again": True},
        )
