"""Signing keys for tests: each person's key follows from their name, so it needs no keeping."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from console.models import KeyOrigin, SigningKey, User
from console.rules import dsse
from console.rules.signing_keys import PrivateKey, public_key_of


def private_key(username: str, *, device: str = "laptop", p256: bool = False) -> PrivateKey:
    """The private key of a person on a device; the same names give the same key."""
    seed = hashlib.sha256(f"{username}:{device}".encode()).digest()
    if p256:
        # Any number from 1 to below the group's order will do; 31 bytes are always below it.
        return ec.derive_private_key(int.from_bytes(seed[:31], "big") + 1, ec.SECP256R1())
    return Ed25519PrivateKey.from_private_bytes(seed)


def enrol(
    user: User,
    *,
    device: str = "laptop",
    p256: bool = False,
    revoked_at: datetime | None = None,
) -> SigningKey:
    """The row of the person's key, made on first use."""
    public = public_key_of(private_key(user.username, device=device, p256=p256))
    key, _ = SigningKey.objects.get_or_create(
        keyid=public.key_id,
        defaults={
            "user": user,
            "name": device,
            "algorithm": public.algorithm,
            "origin": KeyOrigin.BROWSER if p256 else KeyOrigin.CLI,
            "public_key_pem": public.pem,
            "revoked_at": revoked_at,
        },
    )
    return key


def envelope(
    user: User, payload_type: str, payload: bytes, *, device: str = "laptop", p256: bool = False
) -> dict[str, Any]:
    """What the person's device would send for these bytes; the key need not be enrolled."""
    key = private_key(user.username, device=device, p256=p256)
    return dsse.sign(key, payload_type, bytes(payload)).to_dict()


def contract_envelope(user: User, payload: bytes, **device: Any) -> dict[str, Any]:
    """`envelope` over a contract's payload."""
    return envelope(user, dsse.CONTRACT_PAYLOAD_TYPE, payload, **device)


def release_envelope(user: User, payload: bytes, **device: Any) -> dict[str, Any]:
    """`envelope` over a release's payload."""
    return envelope(user, dsse.RELEASE_PAYLOAD_TYPE, payload, **device)
