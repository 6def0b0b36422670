"""One key takes the place of another: a small document that both of them sign.

The old key says that the new one speaks for its owner from now on; the new one, that its owner
holds it. The document names both, and a key is enrolled once, so it cannot be used again.
"""

from __future__ import annotations

from dataclasses import replace

from console.errors import Invalid
from console.rules.canonical import canonical_bytes
from console.rules.dsse import ROTATION_PAYLOAD_TYPE, Envelope, check_content, merge, sign, verify
from console.rules.signing_keys import PrivateKey, PublicKey, public_key_of


def rotation_payload(*, owner: str, old: str, new: str) -> bytes:
    """The bytes that both keys sign; `old` and `new` are key ids."""
    return canonical_bytes(
        {
            "apiVersion": "covenant/v1",
            "kind": "KeyRotation",
            "owner": owner,
            "old": old,
            "new": new,
        }
    )


def sign_rotation(*, owner: str, old: PrivateKey, new: PrivateKey) -> Envelope:
    """The document with both signatures, for who holds both private keys."""
    ids = (public_key_of(old).key_id, public_key_of(new).key_id)
    payload = rotation_payload(owner=owner, old=ids[0], new=ids[1])
    return merge([sign(key, ROTATION_PAYLOAD_TYPE, payload) for key in (old, new)])


def accept_rotation(
    envelope: Envelope, *, owner: str, old: PublicKey, new: PublicKey, origin: str = ""
) -> Envelope:
    """The envelope with exactly the two signatures, both checked.

    Raises Invalid: `two_signatures_expected`, and what `dsse.accept` raises.
    """
    payload = rotation_payload(owner=owner, old=old.key_id, new=new.key_id)
    check_content(envelope, payload_type=ROTATION_PAYLOAD_TYPE, payload=payload)
    if {signature.keyid for signature in envelope.signatures} != {old.key_id, new.key_id}:
        raise Invalid(
            "A rotation is signed by two keys: the old one and the new one.",
            code="two_signatures_expected",
            hint="Sign with both; when the old key is not at hand, enrol the new one with your "
            "password and say which key it replaces.",
        )
    signatures = tuple(verify(envelope, key, origin=origin) for key in (old, new))
    return replace(envelope, signatures=signatures)
