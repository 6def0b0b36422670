"""The password of somebody who is signed in, asked again."""

from __future__ import annotations

from console.actors import Actor
from console.errors import Invalid
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
        raise Invalid(
            "This is not your password.",
            code="wrong_password",
            hint="Enter the password that you sign in with.",
        )
    forget_attempts(key)
