"""Passwords checked, with a limit on how often anybody may guess, and every outcome on record."""

from __future__ import annotations

from django.contrib.auth import authenticate
from django.db import transaction

from console.actors import Actor
from console.errors import Invalid, NotAllowed
from console.models import User
from console.services import audit
from console.services.attempts import Limit, count_attempt, forget_attempts

PER_PERSON_AND_ADDRESS = Limit(attempts=5, seconds=15 * 60)
PER_ADDRESS = Limit(attempts=300, seconds=15 * 60)


def check_sign_in(
    *, username: str, password: str, address: str, source: str, request_id: str = ""
) -> User:
    """The person whose name and password these are.

    Raises NotAllowed (`wrong_credentials`) without saying which of the two is wrong, TooMany after
    5 failures in 15 minutes for one name from one address, or 300 attempts from one address.
    """
    username = username.strip()[:64]
    count_attempt(f"address:{address}", PER_ADDRESS)
    count_attempt(f"sign-in:{username.lower()}:{address}", PER_PERSON_AND_ADDRESS)
    user = authenticate(username=username, password=password)
    if not isinstance(user, User):
        _record_failure(username, f"{source} {address}", request_id)
        raise NotAllowed(
            "The name or the password is not right.",
            code="wrong_credentials",
            hint="Check both; an account that was deactivated cannot sign in.",
        )
    forget_attempts(f"sign-in:{username.lower()}:{address}")
    actor = Actor(user=user, source=f"{source} {address}"[:100], request_id=request_id)
    with transaction.atomic():
        audit.record(actor=actor, action="sign_in.succeeded", subject=f"user {user.username}")
    return user


def check_own_password(*, password: str, actor: Actor) -> None:
    """Ask a signed-in person for the password again; raises Invalid (`wrong_password`), TooMany."""
    key = f"again:{actor.user.username}"
    count_attempt(key, PER_PERSON_AND_ADDRESS)
    if not actor.user.check_password(password):
        raise Invalid(
            "This is not your password.",
            code="wrong_password",
            hint="Enter the password that you sign in with.",
        )
    forget_attempts(key)


def _record_failure(username: str, source: str, request_id: str) -> None:
    user = User.objects.filter(username=username).first()
    actor = (
        Actor(user=user, source=source[:100], request_id=request_id)
        if user
        else Actor.system(source[:100])
    )
    with transaction.atomic():
        audit.record(actor=actor, action="sign_in.failed", subject=f"user {username}")
