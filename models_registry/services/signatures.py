"""Signatures over contracts and releases: taken in once, and verified again at every use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from console.actors import Actor
from console.errors import Invalid
from console.models import SigningKey
from console.rules import dsse
from console.rules.signing_keys import PublicKey, parse_public_key


def take_in(
    envelope: bytes | str | Mapping[str, Any],
    *,
    payload_type: str,
    payload: bytes,
    actor: Actor,
) -> tuple[dict[str, Any], SigningKey]:
    """The envelope in its stored form and the actor's key that signed it; notes the key's use.

    Raises Invalid: `key_unknown`, `key_not_yours`, `key_revoked`, and what `dsse.accept` raises
    for other bytes, another type or a signature that does not fit. Belongs into the transaction
    that stores it: the key's row is locked, so that it cannot be revoked meanwhile.
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
    accepted = dsse.accept(
        parsed, public_key=public_key(key), payload_type=payload_type, payload=payload
    )
    key.last_used_at = timezone.now()
    key.save(update_fields=["last_used_at"])
    return accepted.to_dict(), key


def verify_stored(
    envelope: Mapping[str, Any],
    *,
    key: SigningKey,
    signer_id: int,
    signed_at: datetime,
    payload_type: str,
    payload: bytes,
) -> str:
    """Check a stored signature again; gives a note when its key was revoked afterwards, else "".

    Raises Invalid: `signature_invalid` for other bytes, another signer or a signature that does
    not fit, `key_revoked` when the key was revoked before it signed.
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
    if key.revoked_at is None:
        return ""
    if key.revoked_at <= signed_at:
        raise Invalid(
            f"The key {key.name} ({key.keyid[:12]}…) was revoked before it signed.",
            code="key_revoked",
            hint="Have it signed anew with a valid key.",
        )
    return f"The key {key.name} ({key.keyid[:12]}…) was revoked after it signed."


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


def public_key(key: SigningKey) -> PublicKey:
    """The key that the row holds; Invalid when the row does not hold what its key id says."""
    parsed = parse_public_key(key.public_key_pem)
    if parsed.key_id != key.keyid:
        raise Invalid(
            f"The stored key {key.keyid[:12]}… is not the one that was enrolled.",
            code="signature_invalid",
            hint="Somebody changed it in the database. Restore it from a backup.",
        )
    return parsed
