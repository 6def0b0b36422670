"""DSSE: the specification's vector, a second implementation, and every kind of tampering."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, utils
from hypothesis import given, settings
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as OtherEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from console.errors import Invalid
from console.rules.dsse import (
    CONTRACT_PAYLOAD_TYPE,
    RELEASE_PAYLOAD_TYPE,
    Envelope,
    EnvelopeSignature,
    accept,
    merge,
    pae,
    sign,
    verify,
)
from console.rules.signing_keys import PrivateKey, create_private_key, public_key_of

P256 = create_private_key("ecdsa-p256")
ED25519 = create_private_key("ed25519")
OTHER = create_private_key("ed25519")
PAYLOAD = b'{"model":"fraud_detector"}'
either_key = pytest.mark.parametrize("key", [P256, ED25519], ids=["p256", "ed25519"])


def test_pae_gives_the_bytes_of_the_specification() -> None:
    """protocol.md of DSSE v1, "Test Vectors"."""
    encoded = pae("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("é", b"") == "DSSEv1 2 é 0 ".encode()


def test_the_specification_s_signature_verifies() -> None:
    """protocol.md of DSSE v1: the P-256 key and the signature of "hello world", raw r‖s."""
    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    public = public_key_of(ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key())
    envelope = Envelope.parse(
        {
            "payload": "aGVsbG8gd29ybGQ=",
            "payloadType": "http://example.com/HelloWorld",
            "signatures": [
                {
                    "sig": "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfU"
                    "iHqJPcIAriEGAHTVeCUjW2JIZA=="
                }
            ],
        }
    )
    assert envelope.payload == b"hello world"
    verified = verify(envelope, public)
    assert verified.sig[0] == 0x30
    assert verified.keyid == public.key_id


@either_key
@settings(max_examples=30)
@given(payload=st.binary(min_size=1, max_size=200), kind=st.text("az/+.é", min_size=1, max_size=20))
def test_what_is_signed_verifies_after_a_round_trip(
    key: PrivateKey, payload: bytes, kind: str
) -> None:
    envelope = sign(key, kind, payload)
    again = Envelope.parse(envelope.to_bytes())
    assert again == envelope
    assert verify(again, public_key_of(key)) == envelope.signatures[0]


@either_key
def test_a_second_implementation_accepts_ours_and_refuses_a_change(key: PrivateKey) -> None:
    public = public_key_of(key)
    other_key = SSlibKey.from_crypto(public.verifier(), keyid=public.key_id)
    envelope = sign(key, CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    other = OtherEnvelope.from_dict(envelope.to_dict())
    assert other.pae() == pae(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    assert list(other.verify([other_key], 1)) == [public.key_id]
    changed = OtherEnvelope.from_dict(replace(envelope, payload=PAYLOAD + b" ").to_dict())
    with pytest.raises(VerificationError):
        changed.verify([other_key], 1)


def test_a_merged_envelope_holds_for_a_second_implementation() -> None:
    keys = [P256, ED25519, OTHER]
    merged = merge([sign(key, CONTRACT_PAYLOAD_TYPE, PAYLOAD) for key in keys])
    publics = [public_key_of(key) for key in keys]
    others = [SSlibKey.from_crypto(key.verifier(), keyid=key.key_id) for key in publics]
    accepted = OtherEnvelope.from_dict(merged.to_dict()).verify(others, 3)
    assert set(accepted) == {key.key_id for key in publics}
    for public in publics:
        verify(merged, public)


def test_the_browser_s_raw_signature_is_stored_as_der() -> None:
    der = sign(P256, CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    stored = accept(
        _with_sig(der, _raw(der.signatures[0].sig)),
        public_key=public_key_of(P256),
        payload_type=CONTRACT_PAYLOAD_TYPE,
        payload=PAYLOAD,
    )
    assert stored == der


ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def _raw(der: bytes) -> bytes:
    r, s = utils.decode_dss_signature(der)
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


@pytest.mark.parametrize(
    "mangle",
    [
        lambda raw: raw[:-1],
        lambda raw: raw + b"\0",
        lambda raw: b"",
        lambda raw: bytes(64),
        lambda raw: raw[:32] + bytes(32),
        lambda raw: bytes(32) + raw[32:],
        lambda raw: ORDER.to_bytes(32, "big") + raw[32:],
        lambda raw: raw[:32] + (b"\xff" * 32),
        lambda raw: raw[32:] + raw[:32],
    ],
)
def test_a_mangled_raw_signature_is_refused(mangle: Any) -> None:
    envelope = sign(P256, CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    bad = _with_sig(envelope, mangle(_raw(envelope.signatures[0].sig)))
    with pytest.raises(Invalid) as refusal:
        verify(bad, public_key_of(P256))
    assert refusal.value.code == "signature_invalid"


def test_der_with_room_for_other_bytes_is_refused() -> None:
    envelope = sign(P256, CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    der = envelope.signatures[0].sig
    long_form = b"\x30\x81" + der[1:]
    for sig in (der + b"\0", long_form):
        with pytest.raises(Invalid):
            verify(_with_sig(envelope, sig), public_key_of(P256))


@either_key
def test_a_change_of_any_byte_is_noticed(key: PrivateKey) -> None:
    """Every bit class: each character of the envelope's JSON replaced by another."""
    text = sign(key, CONTRACT_PAYLOAD_TYPE, PAYLOAD).to_bytes()
    public = public_key_of(key)
    for at in range(len(text)):
        for other in (b"A", b"1", b'"', b"\x00", b"\xff"):
            if text[at : at + 1] == other:
                continue
            changed = text[:at] + other + text[at + 1 :]
            with pytest.raises(Invalid):
                accept(
                    Envelope.parse(changed),
                    public_key=public,
                    payload_type=CONTRACT_PAYLOAD_TYPE,
                    payload=PAYLOAD,
                )


@either_key
def test_a_signature_over_another_type_does_not_count(key: PrivateKey) -> None:
    envelope = sign(key, RELEASE_PAYLOAD_TYPE, PAYLOAD)
    with pytest.raises(Invalid) as refusal:
        verify(replace(envelope, payload_type=CONTRACT_PAYLOAD_TYPE), public_key_of(key))
    assert refusal.value.code == "signature_invalid"


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        (sign(ED25519, CONTRACT_PAYLOAD_TYPE, PAYLOAD + b" "), "payload_mismatch"),
        (sign(ED25519, RELEASE_PAYLOAD_TYPE, PAYLOAD), "payload_type_mismatch"),
        (sign(OTHER, CONTRACT_PAYLOAD_TYPE, PAYLOAD), "signature_by_other_key"),
        (
            merge([sign(key, CONTRACT_PAYLOAD_TYPE, PAYLOAD) for key in (ED25519, OTHER)]),
            "one_signature_expected",
        ),
    ],
)
def test_an_envelope_that_is_not_this_person_s_over_this_is_refused(
    envelope: Envelope, code: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        accept(
            envelope,
            public_key=public_key_of(ED25519),
            payload_type=CONTRACT_PAYLOAD_TYPE,
            payload=PAYLOAD,
        )
    assert refusal.value.code == code
    assert refusal.value.hint


def test_somebody_else_s_signature_under_my_key_id_is_refused() -> None:
    stolen = sign(OTHER, CONTRACT_PAYLOAD_TYPE, PAYLOAD).signatures[0].sig
    mine = public_key_of(ED25519)
    forged = Envelope(PAYLOAD, CONTRACT_PAYLOAD_TYPE, (EnvelopeSignature(mine.key_id, stolen),))
    with pytest.raises(Invalid) as refusal:
        verify(forged, mine)
    assert refusal.value.code == "signature_invalid"


def test_url_safe_base64_is_read() -> None:
    payload = b"\xfb\xff\xfe"
    envelope = sign(ED25519, "x", payload)
    document = envelope.to_dict()
    document["payload"] = base64.urlsafe_b64encode(payload).decode()
    assert document["payload"] == "-__-"
    assert Envelope.parse(json.dumps(document)) == envelope


GOOD = sign(ED25519, "x", b"y").to_dict()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"payload": None}, "/payload"),
        ({"payload": "eQ"}, "/payload"),
        ({"payload": "eR=="}, "/payload"),
        ({"payload": "e Q=="}, "/payload"),
        ({"payloadType": ""}, "/payloadType"),
        ({"payloadType": 5}, "/payloadType"),
        ({"signatures": []}, "/signatures"),
        ({"signatures": {}}, "/signatures"),
        ({"signatures": GOOD["signatures"] * 33}, "/signatures"),
        ({"signatures": ["x"]}, "/signatures/0"),
        ({"signatures": [{"keyid": 5, "sig": "AA=="}]}, "/signatures/0/keyid"),
        ({"signatures": [{"keyid": "a"}]}, "/signatures/0/sig"),
        ({"signatures": [{"keyid": "a", "sig": "AA==", "alg": "none"}]}, "/signatures/0/alg"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_a_malformed_envelope_is_refused_with_the_place(
    change: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        Envelope.parse({**GOOD, **change})
    assert refusal.value.code == "invalid_envelope"
    assert [error.pointer for error in refusal.value.errors] == [pointer]


def test_envelopes_over_different_bytes_do_not_merge() -> None:
    with pytest.raises(Invalid) as refusal:
        merge([sign(ED25519, "x", b"1"), sign(OTHER, "x", b"2")])
    assert refusal.value.code == "payload_mismatch"
    with pytest.raises(Invalid):
        merge([])


def _with_sig(envelope: Envelope, sig: bytes) -> Envelope:
    return replace(envelope, signatures=(replace(envelope.signatures[0], sig=sig),))
