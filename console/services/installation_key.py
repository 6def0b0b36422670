"""The installation's own key: it signs what no person does, checkpoints and deployed folders."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from django.conf import settings

from console.errors import Unavailable
from console.models import InstallationKey
from console.rules import dsse
from console.rules.signing_keys import PublicKey, create_private_key, public_key_of

FILE = "installation_key.pem"


def key_path() -> Path:
    """The PEM file (P-256, mode 0600): COVENANT_SIGNING_KEY's; the embedded stack makes its own.

    Raises Unavailable (`installation_key_missing`) where somebody has to say which it is.
    """
    if settings.CONFIG.signing_key is not None:
        return Path(settings.CONFIG.signing_key)
    if not settings.CONFIG.embedded_database:
        raise Unavailable(
            "This installation has no signing key of its own.",
            code="installation_key_missing",
            hint="Set COVENANT_SIGNING_KEY to a P-256 key in PEM; see docs/configuration.md.",
            retryable=False,
        )
    path: Path = settings.CONFIG.home / "secrets" / FILE
    if not path.exists():
        _make(path)
    return path


def private_key() -> ec.EllipticCurvePrivateKey:
    """The private half, its public half noted for later checks. Raises Unavailable."""
    path = key_path()
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise Unavailable(
            f"The installation's signing key {path.name} cannot be read: {error}",
            code="installation_key_unreadable",
            hint="It is a P-256 key in PEM without a passphrase; see docs/configuration.md.",
            retryable=False,
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Unavailable(
            f"The installation's signing key {path.name} is not a P-256 key.",
            code="installation_key_unreadable",
            hint="Make one with: openssl ecparam -name prime256v1 -genkey -noout",
            retryable=False,
        )
    public = public_key_of(key)
    InstallationKey.objects.get_or_create(
        keyid=public.key_id,
        defaults={"algorithm": public.algorithm, "public_key_pem": public.pem},
    )
    return key


def public_key() -> PublicKey:
    """The public half of the key that signs now."""
    return public_key_of(private_key())


def sign(payload_type: str, payload: bytes) -> dsse.Envelope:
    """A DSSE envelope of the installation over the payload."""
    return dsse.sign(private_key(), payload_type, payload)


def _make(path: Path) -> None:
    """Write a new key; of several processes that start at once, one makes it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = create_private_key("ecdsa-p256")
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = path.with_name(f".{FILE}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
