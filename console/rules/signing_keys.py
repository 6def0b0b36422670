"""Signing keys: P-256 (made by a browser's WebCrypto) and Ed25519 (made by the command line).

A key is known everywhere by its key id, the SHA-256 of its DER SubjectPublicKeyInfo in hex.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from console.errors import Invalid
from console.rules.canonical import digest, loads_strict

KeyAlgorithm = Literal["ecdsa-p256", "ed25519"]
PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
Verifier: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

MAX_KEY_TEXT = 8192
MIN_PASSPHRASE = 8
_HINT = "Send a P-256 or Ed25519 public key as PEM, as base64 of DER, or as a JWK."

# Ed25519 points of small order (and their second spellings): under such a "key" one signature
# fits many messages, so it would bind nobody to what was signed. The sign bit is masked off.
# Source: Brendel et al., "The Provable Security of Ed25519", 2020, table 6.
_SMALL_ORDER = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that may verify signatures here; `der` is its SubjectPublicKeyInfo.

    A passkey's is bound to the host name `rp_id`: it signs by WebAuthn assertions alone.
    """

    algorithm: KeyAlgorithm
    key_id: str
    der: bytes
    rp_id: str = ""

    @property
    def is_passkey(self) -> bool:
        return bool(self.rp_id)

    def verifier(self) -> Verifier:
        """The `cryptography` key that checks signatures."""
        return cast(Verifier, load_der_public_key(self.der))

    @property
    def pem(self) -> str:
        return (
            self.verifier()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            .decode("ascii")
        )

    @property
    def jwk(self) -> dict[str, str]:
        """The key as a JSON Web Key (RFC 7517; Ed25519 by RFC 8037), with its key id as `kid`."""
        key = self.verifier()
        if isinstance(key, ed25519.Ed25519PublicKey):
            point = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
            return {"kty": "OKP", "crv": "Ed25519", "x": _b64url(point), "kid": self.key_id}
        numbers = key.public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "x": _b64url(numbers.x.to_bytes(32, "big")),
            "y": _b64url(numbers.y.to_bytes(32, "big")),
            "kid": self.key_id,
        }


def parse_public_key(text: str | bytes | Mapping[str, Any]) -> PublicKey:
    """The public key that a person sent as PEM, base64 of DER, or JWK (text or object).

    Raises `Invalid`: `private_key_sent` when it is a private key, `unsupported_key` for RSA,
    other curves and other algorithms, `invalid_key` when it cannot be read.
    """
    if isinstance(text, Mapping):
        return _from_jwk(text)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = text.strip()
    if len(text) > MAX_KEY_TEXT:
        raise _invalid("The key is longer than any key that can be used here.")
    if text.startswith("{"):
        document = loads_strict(text)
        return _from_jwk(document if isinstance(document, dict) else {})
    if "PRIVATE KEY" in text:
        raise _private_key_sent()
    if text.startswith("-----BEGIN"):
        return _from_pem(text)
    return _from_der(text)


def public_key_of(key: PrivateKey | Verifier) -> PublicKey:
    """The typed public half of a `cryptography` key, private or public."""
    if isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        return _typed(key.public_key())
    return _typed(key)


def create_private_key(algorithm: KeyAlgorithm = "ed25519") -> PrivateKey:
    """A new private key from the operating system's random source."""
    if algorithm == "ecdsa-p256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


def private_key_pem(key: PrivateKey, *, passphrase: str) -> bytes:
    """The private key as PEM, PKCS #8, encrypted with `passphrase` (at least 8 characters)."""
    if len(passphrase) < MIN_PASSPHRASE:
        raise Invalid(
            f"The passphrase has fewer than {MIN_PASSPHRASE} characters.",
            code="weak_passphrase",
            hint="A signing key speaks for its owner: choose a passphrase nobody can guess.",
        )
    encryption = BestAvailableEncryption(passphrase.encode("utf-8"))
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def load_private_key(pem: bytes, *, passphrase: str) -> PrivateKey:
    """The private key in an encrypted PEM file; raises `Invalid` (`invalid_key_file`)."""
    try:
        key = load_pem_private_key(pem, passphrase.encode("utf-8"))
    except TypeError as error:
        raise Invalid(
            "The key file is not protected by a passphrase.",
            code="unprotected_key_file",
            hint="Create a key with “covenant keys create”, or encrypt this one (PKCS #8).",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Invalid(
            "The key file cannot be opened: the passphrase is wrong or it is no PEM private key.",
            code="invalid_key_file",
            hint="Check the passphrase and the path of the file.",
        ) from error
    public_key_of(cast(PrivateKey, key))
    return cast(PrivateKey, key)


def _from_pem(text: str) -> PublicKey:
    if "CERTIFICATE" in text:
        raise _unsupported("This is a certificate, not a public key.")
    try:
        return _typed(load_pem_public_key(text.encode("utf-8")))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid("The PEM text holds no public key that can be read.") from error


def _from_der(text: str) -> PublicKey:
    try:
        der = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid("The text is neither PEM nor base64 nor a JWK.") from error
    try:
        return _typed(load_der_public_key(der))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid("The base64 text holds no public key (DER SubjectPublicKeyInfo).") from error


def _from_jwk(jwk: Mapping[str, Any]) -> PublicKey:
    if "d" in jwk or "k" in jwk:
        raise _private_key_sent()
    kind = (jwk.get("kty"), jwk.get("crv"))
    try:
        if kind == ("EC", "P-256"):
            x, y = (int.from_bytes(_unb64url(jwk.get(name)), "big") for name in ("x", "y"))
            numbers = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1())
            return _typed(numbers.public_key())
        if kind == ("OKP", "Ed25519"):
            return _typed(ed25519.Ed25519PublicKey.from_public_bytes(_unb64url(jwk.get("x"))))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _invalid("The JWK's numbers are not a point of its curve.") from error
    raise _unsupported(f"A JWK of kty {jwk.get('kty')!r}, crv {jwk.get('crv')!r} cannot sign here.")


def _typed(key: object) -> PublicKey:
    if isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, ec.SECP256R1):
            raise _unsupported(f"The key's curve is {key.curve.name}, not P-256.")
        algorithm: KeyAlgorithm = "ecdsa-p256"
    elif isinstance(key, ed25519.Ed25519PublicKey):
        algorithm = "ed25519"
        point = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
        if point[:31] + bytes([point[31] & 0x7F]) in _SMALL_ORDER:
            raise _invalid("The Ed25519 key is a point of small order: it would bind nobody.")
    else:
        name = type(key).__name__.removesuffix("PublicKey").removesuffix("PrivateKey")
        raise _unsupported(f"A key of the kind {name} cannot sign here.")
    # Written anew, so that one key has one spelling (point uncompressed) and one key id.
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(algorithm=algorithm, key_id=digest(der), der=der)


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _unb64url(text: object) -> bytes:
    if not isinstance(text, str):
        raise ValueError("a coordinate is missing")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _private_key_sent() -> Invalid:
    return Invalid(
        "This is a private key; it must never leave its owner. It was not stored.",
        code="private_key_sent",
        hint="Treat that key as exposed: make a new one and send only its public half.",
    )


def _unsupported(message: str) -> Invalid:
    return Invalid(message, code="unsupported_key", hint=_HINT)


def _invalid(message: str) -> Invalid:
    return Invalid(message, code="invalid_key", hint=_HINT)
