"""Signing in: what is proven first, what is asked beside it, and every outcome on record.

A sign-in by password has two steps where the person has a second factor, or needs one. Between
them nothing is open yet: the doors keep who it is, and come back with the second proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate
from django.db import transaction

from console.actors import Actor
from console.errors import CovenantError, FieldError, Invalid, NotAllowed
from console.models import User, UserKind
from console.rules import sign_in_means as means
from console.rules.relying_party import RelyingParty
from console.services import audit
from console.services.attempts import Limit, count_attempt, forget_attempts
from console.services.directory import ask_directory
from console.services.external_accounts import enter
from console.services.one_time_codes import is_right_code
from console.services.passkeys import prove_passkey
from console.services.recovery_codes import use_recovery_code
from console.services.second_factors import factors_of

PER_PERSON_AND_ADDRESS = Limit(attempts=5, seconds=15 * 60)
PER_ADDRESS = Limit(attempts=300, seconds=15 * 60)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an attempt came from, for throttling and the audit trail."""

    address: str
    source: str
    request_id: str = ""

    def actor(self, user: User) -> Actor:
        """The person as the one who acts at this door."""
        return Actor(
            user=user, source=f"{self.source} {self.address}"[:100], request_id=self.request_id
        )


class Missing(StrEnum):
    """What a person who proved a first factor has to do before they are in."""

    NOTHING = "nothing"
    SECOND_FACTOR = "second_factor"
    SET_UP = "set_up"


def check_password(*, username: str, password: str, origin: Origin) -> tuple[User, str]:
    """The person whose name and password these are, and by what: "password" or "ldap".

    Not signed in by that: see `what_is_missing`. Raises NotAllowed (`wrong_credentials`) without
    saying which of the two is wrong, TooMany after 5 failures in 15 minutes for one name from one
    address, or 300 attempts from one address.
    """
    username = username.strip()[:64]
    count_address(origin)
    count_attempt(f"sign-in:{username.lower()}:{origin.address}", PER_PERSON_AND_ADDRESS)
    user, by = authenticate(username=username, password=password), means.PASSWORD
    try:
        if not isinstance(user, User):
            user, by = _in_directory(username, password), means.LDAP
        if not isinstance(user, User) or user.kind != UserKind.PERSON:
            raise NotAllowed(
                "The name or the password is not right.",
                code="wrong_credentials",
                hint="Check both; an account that was deactivated cannot sign in.",
            )
    except CovenantError as error:
        record_failure(username=username, by=means.PASSWORD, why=error.code, origin=origin)
        raise
    forget_attempts(f"sign-in:{username.lower()}:{origin.address}")
    return user, by


def _in_directory(username: str, password: str) -> User | None:
    config = settings.CONFIG.sign_in.ldap
    found = ask_directory(username=username, password=password)
    if config is None or found is None:
        return None
    return enter(outsider=found, sign_up=config.sign_up, rules=config.group_rules)


def count_address(origin: Origin) -> None:
    """Count an attempt of an address before it is made; raises TooMany."""
    count_attempt(f"address:{origin.address}", PER_ADDRESS)


def what_is_missing(user: User, by: str) -> Missing:
    """What stands between a first factor (`by`) and being signed in."""
    if means.is_strong(by):
        return Missing.NOTHING
    if factors_of(user).any:
        return Missing.SECOND_FACTOR
    return Missing.SET_UP if must_have_second_factor(user) else Missing.NOTHING


def must_have_second_factor(user: User) -> bool:
    """Whether this installation asks a second factor of the person."""
    policy = settings.CONFIG.sign_in.require_second_factor
    if policy == "none":
        return False
    roles = {role for member in user.memberships.all() for role in member.roles}
    return means.needs_second_factor(policy, {*user.roles, *roles})


def is_admitted(user: User, by: str) -> bool:
    """Whether a session that began `by` these means still opens anything to the person."""
    return means.is_strong(by) or not must_have_second_factor(user)


def check_code(*, user: User, code: str, by: str, origin: Origin) -> str:
    """Check a code of the app, or a recovery code, beside `by`; gives what is proven now.

    Raises NotAllowed (`wrong_code`), TooMany.
    """
    if is_right_code(user=user, code=code):
        return f"{by}+{means.TOTP}"
    if use_recovery_code(user=user, code=code):
        return f"{by}+{means.RECOVERY}"
    record_failure(username=user.username, by=f"{by}+{means.TOTP}", why="wrong_code", origin=origin)
    raise NotAllowed(
        "This code is not right, or was used already.",
        code="wrong_code",
        hint="Enter the code that your authenticator app shows now, or an unused recovery code.",
        errors=(FieldError("/code", "This code is not right, or was used already."),),
    )


def check_passkey(
    *,
    answer: Mapping[str, Any],
    party: RelyingParty,
    challenge: bytes,
    origin: Origin,
    user: User | None = None,
    by: str = "",
) -> tuple[User, str]:
    """Check a passkey, alone or beside `by` as the second factor of `user`; who, and by what.

    Raises Invalid (`passkey_…`), TooMany after 300 attempts from one address in 15 minutes.
    """
    count_address(origin)
    proven = f"{by}+{means.PASSKEY}" if user else means.PASSKEY
    try:
        found = prove_passkey(answer=answer, party=party, challenge=challenge, user=user)
    except Invalid as error:
        name = user.username if user else "unknown"
        record_failure(username=name, by=proven, why=error.code, origin=origin)
        raise
    return found, proven


def record_success(*, user: User, by: str, origin: Origin) -> None:
    """Put a sign-in on record; `by` as in "password+totp"."""
    with transaction.atomic():
        audit.record(
            actor=origin.actor(user),
            action="sign_in.succeeded",
            subject=f"user {user.username}",
            after={"by": by},
        )


def record_failure(*, username: str, by: str, why: str, origin: Origin) -> None:
    """Put a failed attempt on record, in the person's name where there is such a person."""
    user = User.objects.filter(username=username).first()
    source = f"{origin.source} {origin.address}"[:100]
    actor = origin.actor(user) if user else Actor.system(source)
    with transaction.atomic():
        audit.record(
            actor=actor,
            action="sign_in.failed",
            subject=f"user {username}",
            after={"by": by, "why": why},
        )


def record_sign_out(*, actor: Actor) -> None:
    """Put the end of a session by its person on record."""
    with transaction.atomic():
        audit.record(actor=actor, action="session.sign_out", subject=f"user {actor.user.username}")


def check_sign_in(*, username: str, password: str, code: str = "", origin: Origin) -> User:
    """All of a sign-in at once, for programs that ask on behalf of a person.

    Raises what the steps raise, and Invalid: `second_factor_required` when a code is needed and
    none was given, `second_factor_missing` when one has to be set up on the page first.
    """
    user, by = check_password(username=username, password=password, origin=origin)
    match what_is_missing(user, by):
        case Missing.SET_UP:
            raise Invalid(
                f"{user.username} needs a second factor here and has none yet.",
                code="second_factor_missing",
                hint="Sign in on the console's page once: it leads through setting one up.",
            )
        case Missing.SECOND_FACTOR if not code:
            raise Invalid(
                "The password is right; a second factor is asked for beside it.",
                code="second_factor_required",
                hint="Give `code` (--code on the command line): the six digits of your "
                "authenticator app, or a recovery code. With a passkey alone, make a token on the "
                "console's page instead.",
                errors=(FieldError("/code", "Needed for this account."),),
            )
        case Missing.SECOND_FACTOR:
            by = check_code(user=user, code=code, by=by, origin=origin)
        case Missing.NOTHING:
            pass
    record_success(user=user, by=by, origin=origin)
    return user
