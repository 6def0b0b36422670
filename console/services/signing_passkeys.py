"""Passkeys as signing keys: a challenge is given out once, and its answer enrolled."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import redis
from django.conf import settings
from django.core.cache import cache

from console.actors import Actor, require
from console.adapters.passkey_registration import (
    NewPasskey,
    challenge_in,
    creation_options,
    read_answer,
)
from console.errors import Invalid, Unavailable
from console.models import KeyOrigin, SigningKey
from console.rules.fresh_sign_ins import SessionData
from console.rules.relying_party import relying_party
from console.services.keys import confirm_owner, rotation_of, store_key

CHALLENGE_SECONDS = 300


def begin_passkey(*, actor: Actor) -> dict[str, Any]:
    """PublicKeyCredentialCreationOptionsJSON for a new signing passkey of the actor.

    Its challenge is kept here for five minutes, for this person, for one answer. Raises Conflict
    (`passkeys_unavailable`) and Unavailable.
    """
    require(actor, "key.manage_own")
    party = relying_party(settings.CONFIG.base_url)
    challenge = secrets.token_bytes(32)
    try:
        cache.set(_kept_as(actor, challenge), "enrol", CHALLENGE_SECONDS)
    except (redis.RedisError, OSError) as error:
        raise _no_cache() from error
    known = SigningKey.objects.filter(user=actor.user, revoked_at=None, rp_id=party.id)
    return creation_options(
        party=party,
        username=actor.user.username,
        display_name=str(actor.user),
        challenge=challenge,
        known=known.values_list("credential_id", flat=True),
        seconds=CHALLENGE_SECONDS,
    )


def enrol_passkey(
    *,
    name: str,
    credential: Mapping[str, Any],
    actor: Actor,
    password: str = "",
    code: str = "",
    session: SessionData | None = None,
    days: int | None = None,
    replaces: str = "",
) -> SigningKey:
    """Enrol the passkey that the browser made for `begin_passkey`'s challenge.

    `credential` is RegistrationResponseJSON. The challenge is spent by the first answer, whatever
    comes of it. Raises what `keys.enrol_key` raises, `challenge_unknown`, and what
    `passkey_registration.read_answer` raises.
    """
    require(actor, "key.manage_own")
    party = relying_party(settings.CONFIG.base_url)
    # Asked first: a wrong password must not cost the challenge.
    confirm_owner(actor=actor, password=password, code=code, session=session)
    challenge = challenge_in(credential)
    _spend(actor, challenge)
    made: NewPasskey = read_answer(credential, party=party, challenge=challenge)
    return store_key(
        name=name,
        public_key=made.public_key,
        origin=KeyOrigin.PASSKEY,
        days=days,
        rotation=rotation_of(actor=actor, replaces=replaces, new=made.public_key),
        credential_id=made.credential_id,
        sign_count=made.sign_count,
        actor=actor,
    )


def _spend(actor: Actor, challenge: bytes) -> None:
    try:
        # Deleting says whether it was there: of two answers that come at once, one has it.
        was_there = cache.delete(_kept_as(actor, challenge))
    except (redis.RedisError, OSError) as error:
        raise _no_cache() from error
    if not was_there:
        raise Invalid(
            "The passkey answers a question that was not asked, was answered, or is too old.",
            code="challenge_unknown",
            hint="Begin again on Settings → My keys; each try is good once, for five minutes.",
        )


def _kept_as(actor: Actor, challenge: bytes) -> str:
    return f"signing-passkey:{actor.user.pk}:{hashlib.sha256(challenge).hexdigest()}"


def _no_cache() -> Unavailable:
    return Unavailable(
        "The store for short-lived things is away, so no passkey can be made just now.",
        code="cache_unavailable",
        hint="Try again in a moment; see Settings → System check.",
    )
