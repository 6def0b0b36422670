"""Rows of signing keys: found by what people call them, and read as what they hold."""

from __future__ import annotations

from console.errors import Invalid
from console.models import SigningKey
from console.rules.key_export import KnownKey
from console.rules.signing_keys import PublicKey, parse_public_key


def find_key(key_id: str, *, lock: bool = False) -> SigningKey | None:
    """The key by its key id, or by its row's number."""
    keys = SigningKey.objects.select_related("user")
    if lock:
        keys = keys.select_for_update(of=("self",))
    if len(key_id) < 19 and key_id.isascii() and key_id.isdecimal():
        return keys.filter(pk=int(key_id)).first()
    return keys.filter(keyid=key_id).first()


def public_key(key: SigningKey) -> PublicKey:
    """The key that the row holds; Invalid when the row does not hold what its key id says."""
    parsed = parse_public_key(key.public_key_pem)
    if parsed.key_id != key.keyid or (key.origin == "passkey") != bool(key.rp_id):
        raise Invalid(
            f"The stored key {key.keyid[:12]}… is not the one that was enrolled.",
            code="signature_invalid",
            hint="Somebody changed it in the database. Restore it from a backup.",
        )
    return PublicKey(parsed.algorithm, parsed.key_id, parsed.der, key.rp_id)


def known_key(key: SigningKey, *, named: bool) -> KnownKey:
    """The row as it is exported; `named` says whose it is and what they call it."""
    return KnownKey(
        public_key(key),
        owner=key.user.username if named else "",
        name=key.name if named else "",
        origin=key.origin,
        enrolled_at=key.enrolled_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        revocation=key.revocation,
        doubted_from=key.doubted_from,
    )
