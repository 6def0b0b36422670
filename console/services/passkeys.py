"""Passkeys that people sign in with: enrolled, used, removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.adapters import sign_in_passkeys
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import Passkey, User
from console.rules.relying_party import RelyingParty
from console.services import audit
from console.services.recovery_codes import make_recovery_codes, recovery_codes_left
from console.services.second_factors import forget_codes_without_factor

MOST = 20


def creation_options(*, party: RelyingParty, user: User, challenge: bytes) -> dict[str, Any]:
    """What the browser is asked to make, as WebAuthn's JSON."""
    return sign_in_passkeys.creation_options(
        party=party,
        handle=_handle(user),
        username=user.username,
        display_name=user.get_full_name(),
        challenge=challenge,
        known=user.passkeys.values_list("credential_id", flat=True),
    )


def request_options(
    *, party: RelyingParty, challenge: bytes, user: User | None = None
) -> dict[str, Any]:
    """What the browser is asked to prove: with a passkey of `user`, or with any that it has.

    Without a person nothing is told about anybody: the question is the same for everyone.
    """
    known = user.passkeys.values_list("credential_id", flat=True) if user else ()
    return sign_in_passkeys.request_options(
        party=party, challenge=challenge, known=known, verify=user is None
    )


def enrol_passkey(
    *,
    name: str,
    answer: Mapping[str, Any],
    party: RelyingParty,
    challenge: bytes,
    actor: Actor,
) -> tuple[Passkey, list[str]]:
    """Keep the passkey that the browser made; whoever calls has asked again who it is.

    Gives recovery codes too when the person had none. Raises Invalid, Conflict (`passkey_known`,
    `too_many_passkeys`).
    """
    require(actor, "second_factor.manage_own")
    if not name.strip():
        raise Invalid(
            "A passkey needs a name.",
            code="name_missing",
            hint="Say where it lives, as in “phone” or “blue security key”.",
            errors=(FieldError("/name", "Needed."),),
        )
    made = sign_in_passkeys.read_enrolment(answer, party=party, challenge=challenge)
    if actor.user.passkeys.count() >= MOST:
        raise Conflict(
            f"You have {MOST} passkeys.", code="too_many_passkeys", hint="Remove one first."
        )
    try:
        with transaction.atomic():
            passkey = Passkey.objects.create(
                user=actor.user,
                name=name.strip()[:80],
                credential_id=made.credential_id,
                public_key=made.public_key,
                sign_count=made.sign_count,
                transports=list(made.transports),
                backed_up=made.backed_up,
            )
            codes = [] if recovery_codes_left(actor.user) else make_recovery_codes(actor.user)
            audit.record(
                actor=actor,
                action="passkey.add",
                subject=f"user {actor.user.username}",
                after={"passkey": passkey.name, "credential": passkey.credential_id[:16]},
            )
    except IntegrityError as error:
        raise Conflict(
            "This passkey is enrolled already.",
            code="passkey_known",
            hint="Sign in with it, or make another on this device.",
        ) from error
    return passkey, codes


def remove_passkey(*, passkey_id: int, actor: Actor) -> Passkey:
    """Remove one of one's own; whoever calls has asked again. Raises NotFound."""
    require(actor, "second_factor.manage_own")
    with transaction.atomic():
        passkey = Passkey.objects.select_for_update().filter(pk=passkey_id, user=actor.user).first()
        if passkey is None:
            raise NotFound("There is no such passkey of yours.")
        audit.record(
            actor=actor,
            action="passkey.remove",
            subject=f"user {actor.user.username}",
            before={"passkey": passkey.name, "credential": passkey.credential_id[:16]},
        )
        passkey.delete()
        forget_codes_without_factor(actor.user)
    return passkey


def prove_passkey(
    *,
    answer: Mapping[str, Any],
    party: RelyingParty,
    challenge: bytes,
    user: User | None = None,
) -> User:
    """The person whose passkey answered; its counter is moved forward.

    With `user`, a passkey of theirs as second factor; without, any person's, who then has to be
    verified by the authenticator. Raises Invalid with the same words for a passkey that is not
    known and one of somebody who may not sign in.
    """
    claimed = sign_in_passkeys.credential_id_of(answer)
    handle = sign_in_passkeys.handle_in(answer)
    with transaction.atomic():
        passkeys = Passkey.objects.select_for_update(of=("self",)).select_related("user")
        passkey = passkeys.filter(credential_id=claimed, user__is_active=True).first()
        if (
            passkey is None
            or (user is not None and passkey.user_id != user.pk)
            or (handle is not None and handle != _handle(passkey.user))
        ):
            raise _unknown()
        proven = sign_in_passkeys.read_assertion(
            answer,
            party=party,
            challenge=challenge,
            public_key=passkey.public_key,
            sign_count=passkey.sign_count,
            verify=user is None,
        )
        passkey.sign_count = proven.sign_count
        passkey.backed_up = proven.backed_up
        passkey.last_used_at = timezone.now()
        passkey.save(update_fields=["sign_count", "backed_up", "last_used_at"])
    return passkey.user


def _handle(user: User) -> bytes:
    # Nothing about the person; another than those of signing keys, which are random.
    return f"covenant-person-{user.pk}".encode()


def _unknown() -> Invalid:
    return Invalid(
        "This passkey opens no account here.",
        code="passkey_unknown",
        hint="Sign in another way, and enrol the passkey under Settings → Sign-in and security.",
    )
