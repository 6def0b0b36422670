"""Signatures over contracts and releases: taken in once, and verified again at every use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from console.actors import Actor
from console.errors import Conflict, Invalid
from console.models import SigningKey
from console.rules import dsse
from console.rules.key_life import outcome_of
from console.rules.passkeys import check_counter
from console.rules.relying_party import relying_party
from console.services.key_rows import public_key

__all__ = ["is_same_signature", "public_key", "take_in", "verify_stored"]


def take_in(
    envelope: bytes | str | Mapping[str, Any],
    *,
    payload_type: str,
    payload: bytes,
    actor: Actor,
) -> tuple[dict[str, Any], SigningKey]:
    """The envelope in its stored form and the actor's key that signed it; notes the key's use.

    Raises Invalid: `key_unknown`, `key_not_yours`, `key_revoked`, `key_expired`, what `dsse.accept`
    raises for other bytes, another type or a signature that does not fit, and `passkey_counter`
    for a passkey whose counter went back. Belongs into the transaction that stores it: the key's
    row is locked, so that it cannot be revoked meanwhile.
    """
    parsed = dsse.Envelope.parse(envelope)
    keyid = parsed.signatures[0].keyid
    key = SigningKey.objects.select_for_update().filter(keyid=keyid).first()
    if key is None:
        raise Invalid(
            f"The key {keyid[:12]}… is not enrolled here." if keyid else "No key is named.",
            code="key_unknown",
            hint="Enrol the key under Settings → My keys, then sign again.",
        )
    if key.user_id != actor.user.pk:
        raise Invalid(
            f"The key {keyid[:12]}… belongs to somebody else.",
            code="key_not_yours",
            hint="Sign with a key that is enrolled for you.",
        )
    if key.is_revoked:
        raise Invalid(
            f"The key {key.name} ({keyid[:12]}…) is revoked and signs nothing new.",
            code="key_revoked",
            hint="Enrol a new key under Settings → My keys, then sign again.",
        )
    now = timezone.now()
    if key.expires_at is not None and key.expires_at <= now:
        raise Invalid(
            f"The key {key.name} ({keyid[:12]}…) expired on {key.expires_at:%Y-%m-%d} and signs "
            "nothing new.",
            code="key_expired",
            hint="What it signed stays valid. Enrol a new key in its place under Settings → My "
            "keys, then sign again.",
        )
    accepted = dsse.accept(
        parsed,
        public_key=public_key(key),
        payload_type=payload_type,
        payload=payload,
        origin=_origin(key),
    )
    proof = accepted.signatures[0].webauthn
    if proof is not None:
        key.sign_count = check_counter(proof, last=key.sign_count)
    key.last_used_at = now
    key.save(update_fields=["last_used_at", "sign_count"])
    return accepted.to_dict(), key


def _origin(key: SigningKey) -> str:
    """Where a passkey has to be used: here, and nowhere else that its host would allow."""
    if not key.rp_id:
        return ""
    try:
        return relying_party(settings.CONFIG.base_url).origin
    except Conflict as error:
        raise Invalid(error.message, code=error.code, hint=error.hint) from error


def verify_stored(
    envelope: Mapping[str, Any],
    *,
    key: SigningKey,
    signer_id: int,
    signed_at: datetime,
    payload_type: str,
    payload: bytes,
    restoring: bool = False,
) -> str:
    """Check a stored signature again; gives a note when its key was revoked afterwards, else "".

    Raises Invalid: `signature_invalid` for other bytes, another signer or a signature that does
    not fit, `key_revoked` or `key_expired` when the key had ended before it signed, `key_doubted`
    when it signed after the time from which its key may have been in other hands; `restoring` what
    ran already takes that for a note, since what serves goes on until somebody acts.
    """
    try:
        parsed = dsse.Envelope.parse(envelope)
        dsse.accept(parsed, public_key=public_key(key), payload_type=payload_type, payload=payload)
    except Invalid as error:
        raise Invalid(
            f"A stored signature does not hold: {error.message}",
            code="signature_invalid",
            hint="Somebody changed it in the database. Restore it, or have it signed anew.",
        ) from error
    if key.user_id != signer_id:
        raise Invalid(
            f"The signature is said to be another person's than the key {key.keyid[:12]}….",
            code="signature_invalid",
            hint="Somebody changed it in the database. Restore it, or have it signed anew.",
        )
    return _life_note(key, signed_at, restoring=restoring)


def _life_note(key: SigningKey, signed_at: datetime, *, restoring: bool) -> str:
    who = f"The key {key.name} ({key.keyid[:12]}…)"
    if key.expires_at is not None and key.expires_at <= signed_at:
        raise Invalid(
            f"{who} had expired before it signed.",
            code="key_expired",
            hint="Have it signed anew with a valid key.",
        )
    if key.revoked_at is None:
        return ""
    if key.revoked_at <= signed_at:
        raise Invalid(
            f"{who} was revoked before it signed.",
            code="key_revoked",
            hint="Have it signed anew with a valid key.",
        )
    if key.doubted_from is not None and outcome_of(signed_at, key.doubted_from) != "stays_valid":
        said = (
            f"{who} was compromised, and what it signed since "
            f"{key.doubted_from:%Y-%m-%d %H:%M} UTC no longer counts."
        )
        if restoring:
            return said
        raise Invalid(
            said,
            code="key_doubted",
            hint="Have its owner sign again with a new key; see the page of the contract or "
            "release.",
        )
    if key.revocation in ("", "other"):
        return f"{who} was revoked after it signed."
    return f"{who} was revoked after it signed ({key.revocation})."


def is_same_signature(
    stored: Mapping[str, Any], key: SigningKey, sent: bytes | str | Mapping[str, Any]
) -> bool:
    """Whether what was sent is the stored signature again (P-256's may come in its raw form)."""
    before, now = dsse.Envelope.parse(stored), dsse.Envelope.parse(sent)
    try:
        accepted = dsse.accept(
            now,
            public_key=public_key(key),
            payload_type=before.payload_type,
            payload=before.payload,
        )
    except Invalid:
        return False
    return accepted.to_dict() == before.to_dict()
