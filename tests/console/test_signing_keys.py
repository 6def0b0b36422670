"""Keys in every spelling people send, and the ones that are refused."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from console.errors import Invalid
from console.rules.signing_keys import (
    KeyAlgorithm,
    PublicKey,
    create_private_key,
    load_private_key,
    parse_public_key,
    private_key_pem,
    public_key_of,
)

ALGORITHMS: list[KeyAlgorithm] = ["ecdsa-p256", "ed25519"]


@pytest.fixture(params=ALGORITHMS)
def key(request: pytest.FixtureRequest) -> PublicKey:
    return public_key_of(create_private_key(request.param))


def test_every_spelling_of_a_key_gives_the_same_key_id(key: PublicKey) -> None:
    der = base64.b64encode(key.der).decode()
    wrapped = "\n".join(der[at : at + 40] for at in range(0, len(der), 40))
    without_padding = {name: value for name, value in key.jwk.items() if name != "kid"}
    for spelling in (key.pem, key.pem.encode(), der, wrapped, key.jwk, without_padding):
        assert parse_public_key(spelling) == key
    assert parse_public_key(json.dumps(key.jwk)) == key
    assert key.key_id == hashlib.sha256(key.der).hexdigest()


def test_a_compressed_point_is_the_same_key() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    # SubjectPublicKeyInfo of id-ecPublicKey on prime256v1 (RFC 5480) with the short point.
    header = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200")
    compressed = base64.b64encode(header + point).decode()
    assert parse_public_key(compressed) == public_key_of(private)


@pytest.mark.parametrize("curve", [ec.SECP384R1(), ec.SECP256K1(), ec.SECP521R1()])
def test_other_curves_are_refused_by_name(curve: ec.EllipticCurve) -> None:
    with pytest.raises(Invalid, match=curve.name) as refusal:
        parse_public_key(_pem(ec.generate_private_key(curve).public_key()))
    assert refusal.value.code == "unsupported_key"


def test_rsa_is_refused_by_name() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(Invalid, match="RSA") as refusal:
        parse_public_key(_pem(key.public_key()))
    assert refusal.value.code == "unsupported_key"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_private_key_is_refused_and_its_owner_warned(algorithm: KeyAlgorithm) -> None:
    private = create_private_key(algorithm)
    plain = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for spelling in (plain, {**public_key_of(private).jwk, "d": "AAAA"}):
        with pytest.raises(Invalid, match="private key") as refusal:
            parse_public_key(spelling)
        assert refusal.value.code == "private_key_sent"
        assert "exposed" in refusal.value.hint


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid_key"),
        ("not a key", "invalid_key"),
        ("AAAA", "invalid_key"),
        ("A" * 9000, "invalid_key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "invalid_key"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "unsupported_key"),
        ("{}", "unsupported_key"),
        ('{"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}', "unsupported_key"),
        ('{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}', "invalid_key"),
        ('{"kty": "EC", "crv": "P-256", "x": 5}', "invalid_key"),
        ('{"kty": "OKP", "crv": "Ed25519", "x": "AA"}', "invalid_key"),
        ('{"kty": "OKP", "crv": "X25519", "x": "AA"}', "unsupported_key"),
        ('{"kty": "oct", "k": "AA"}', "private_key_sent"),
        ('{"kty": "EC", "kty": "OKP"}', "invalid_json"),
    ],
)
def test_what_is_no_usable_key_is_refused(text: str, code: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_public_key(text)
    assert refusal.value.code == code


def test_a_key_of_small_order_binds_nobody_and_is_refused() -> None:
    for point in (bytes(32), b"\x01" + bytes(31), bytes.fromhex("ec" + "ff" * 31)):
        weak = ed25519.Ed25519PublicKey.from_public_bytes(point)
        with pytest.raises(Invalid, match="small order"):
            parse_public_key(_pem(weak))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_file_opens_with_its_passphrase_only(algorithm: KeyAlgorithm) -> None:
    private = create_private_key(algorithm)
    pem = private_key_pem(private, passphrase="correct horse")
    assert b"ENCRYPTED PRIVATE KEY" in pem
    opened = load_private_key(pem, passphrase="correct horse")
    assert public_key_of(opened) == public_key_of(private)
    with pytest.raises(Invalid, match="passphrase") as refusal:
        load_private_key(pem, passphrase="wrong horse")
    assert refusal.value.code == "invalid_key_file"


def test_a_key_file_that_cannot_be_used_is_refused() -> None:
    private = create_private_key()
    plain = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for pem, code in (
        (plain, "unprotected_key_file"),
        (b"nonsense", "invalid_key_file"),
        (private_key_pem(rsa_key, passphrase="correct horse"), "unsupported_key"),  # type: ignore[arg-type]
    ):
        with pytest.raises(Invalid) as refusal:
            load_private_key(pem, passphrase="correct horse")
        assert refusal.value.code == code


def test_a_short_passphrase_is_refused() -> None:
    with pytest.raises(Invalid, match="fewer than 8"):
        private_key_pem(create_private_key(), passphrase="short")


def _pem(key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
