"""Signatures by passkeys: every binding of an assertion, and that no two kinds are confused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils

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
from console.rules.passkeys import PasskeyProof, check_counter, origin_fits
from console.rules.signing_keys import PublicKey
from tests.passkey_device import ED, UP, UV, Device

PAYLOAD = b'{"model":"fraud_detector","revision":3}'
HERE = "http://localhost:8000"


def taken(envelope: Envelope, device: Device, **how: Any) -> Envelope:
    wanted = {"payload_type": CONTRACT_PAYLOAD_TYPE, "payload": PAYLOAD, "origin": HERE} | how
    return accept(envelope, public_key=device.public, **wanted)


def refusal(envelope: Envelope, device: Device, **how: Any) -> str:
    with pytest.raises(Invalid) as refused:
        taken(envelope, device, **how)
    assert refused.value.hint
    return refused.value.code


@pytest.mark.parametrize(
    "private",
    [ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()],
    ids=["es256", "eddsa"],
)
def test_a_passkey_signs_and_its_envelope_survives_a_round_trip(private: Any) -> None:
    device = Device(private=private, count=7)
    stored = taken(device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD), device)
    again = Envelope.parse(stored.to_bytes())
    assert again == stored
    proof = verify(again, device.public).webauthn
    assert proof is not None
    assert proof.sign_count == 7
    assert set(stored.to_dict()["signatures"][0]) == {"keyid", "sig", "webauthn"}


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"challenge": hashlib.sha256(b"other").digest()}, "passkey_other_challenge"),
        ({"challenge": b""}, "passkey_other_challenge"),
        ({"origin": "https://localhost.evil.example"}, "passkey_other_origin"),
        ({"origin": "http://localhost:9999"}, "passkey_other_origin"),
        ({"origin": "http://evil.localhost:8000"}, "passkey_other_origin"),
        ({"origin": None}, "passkey_other_origin"),
        ({"crossOrigin": True}, "passkey_other_origin"),
        ({"crossOrigin": "false"}, "passkey_other_origin"),
        ({"topOrigin": "https://evil.example"}, "passkey_other_origin"),
        ({"kind": "webauthn.create"}, "passkey_other_purpose"),
        ({"kind": "payment.get"}, "passkey_other_purpose"),
        ({"flags": UP}, "passkey_not_verified"),
        ({"flags": UV}, "passkey_not_verified"),
        ({"flags": UP | UV | 16 | 8 | ED}, "passkey_malformed"),
        ({"flags": UP | UV | 16}, "passkey_malformed"),
        ({"flags": UP | UV | 64}, "passkey_malformed"),
        ({"more": b"\xa0"}, "passkey_malformed"),
        ({"more": b"\xa0" * 4000, "flags": UP | UV | ED}, "passkey_malformed"),
        ({"note": "x" * 5000}, "passkey_malformed"),
    ],
)
def test_an_assertion_that_says_something_else_is_refused(how: dict[str, Any], code: str) -> None:
    device = Device()
    assert refusal(device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD, **how), device) == code


def test_extensions_of_the_authenticator_are_fine_where_it_says_that_there_are() -> None:
    device = Device()
    taken(device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD, flags=UP | UV | ED, more=b"\xa0"), device)


def test_a_signature_over_one_revision_or_kind_is_none_over_another() -> None:
    device = Device()
    signed = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    other = PAYLOAD.replace(b"3", b"4")
    assert refusal(replace(signed, payload=other), device, payload=other) == (
        "passkey_other_challenge"
    )
    moved = replace(signed, payload_type=RELEASE_PAYLOAD_TYPE)
    assert refusal(moved, device, payload_type=RELEASE_PAYLOAD_TYPE) == "passkey_other_challenge"


def test_a_proof_cannot_be_swapped_for_another() -> None:
    device = Device(count=1)
    first = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    device.count = 2
    second = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    one, two = first.signatures[0], second.signatures[0]
    assert one.webauthn is not None
    assert two.webauthn is not None
    swapped = replace(
        one, webauthn=replace(one.webauthn, authenticator_data=two.webauthn.authenticator_data)
    )
    assert refusal(replace(first, signatures=(swapped,)), device) == "signature_invalid"


def test_a_passkey_of_another_site_is_refused() -> None:
    device = Device(rp_id="evil.example", origin="https://evil.example")
    signed = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    here = Device(private=device.private)
    assert refusal(signed, here, origin="") == "passkey_other_origin"
    lied = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD, origin=HERE)
    assert refusal(lied, here) == "passkey_other_site"


def test_stored_signatures_hold_on_any_port_of_the_site_and_on_no_other_site() -> None:
    device = Device(origin="http://localhost:4000")
    signed = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    taken(signed, device, origin="")
    assert refusal(signed, device) == "passkey_other_origin"


@pytest.mark.parametrize(
    ("origin", "rp_id", "fits"),
    [
        ("https://example.com", "example.com", True),
        ("https://console.example.com:8443", "example.com", True),
        ("http://localhost:1", "localhost", True),
        ("http://example.com", "example.com", False),
        ("https://notexample.com", "example.com", False),
        ("https://example.com.evil.example", "example.com", False),
        ("https://example.com/", "example.com", False),
        ("https://you@example.com", "example.com", False),
        ("android:apk-key-hash:abc", "example.com", False),
        ("https://[", "example.com", False),
        ("https://example\u2100com", "example.com", False),
        ("", "example.com", False),
    ],
)
def test_which_origins_may_use_a_site_s_passkeys(origin: str, rp_id: str, fits: bool) -> None:
    assert origin_fits(origin, rp_id) is fits


def test_one_kind_of_signature_never_passes_for_the_other() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    device = Device(private=private)
    plain_key = PublicKey(device.public.algorithm, device.public.key_id, device.public.der)
    plain = sign(private, CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    by_passkey = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    # Each as what it is not, by the key that made it.
    assert refusal(plain, device) == "signature_kind"
    with pytest.raises(Invalid) as refused:
        verify(by_passkey, plain_key)
    assert refused.value.code == "signature_kind"
    # With the proof taken off, or put on, the bytes that were signed are others.
    proof = by_passkey.signatures[0].webauthn
    stripped = replace(by_passkey.signatures[0], webauthn=None)
    with pytest.raises(Invalid) as refused:
        verify(replace(by_passkey, signatures=(stripped,)), plain_key)
    assert refused.value.code == "signature_invalid"
    dressed = replace(plain.signatures[0], webauthn=proof)
    assert refusal(replace(plain, signatures=(dressed,)), device) == "signature_invalid"
    # Nor does what a plain key signed pass when it is laid out like an authenticator's bytes.
    assert proof is not None
    as_payload = Envelope(
        PAYLOAD,
        CONTRACT_PAYLOAD_TYPE,
        (EnvelopeSignature(device.public.key_id, device.sign_bytes(pae("x", PAYLOAD)), proof),),
    )
    assert refusal(as_payload, device) == "signature_invalid"


def test_a_passkey_s_signature_comes_in_der_alone() -> None:
    device = Device()
    signed = device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD)
    r, s = utils.decode_dss_signature(signed.signatures[0].sig)
    raw = replace(signed.signatures[0], sig=r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    assert refusal(replace(signed, signatures=(raw,)), device) == "signature_invalid"


@pytest.mark.parametrize(
    ("last", "now", "goes_on"),
    [(0, 0, True), (0, 1, True), (4, 5, True), (5, 5, False), (5, 4, False), (5, 0, False)],
)
def test_the_counter_goes_forward_or_there_is_a_copy(last: int, now: int, goes_on: bool) -> None:
    proof = PasskeyProof(Device(count=now).authenticator_data(), b"{}")
    if goes_on:
        assert check_counter(proof, last=last) == now
        return
    with pytest.raises(Invalid) as refused:
        check_counter(proof, last=last)
    assert refused.value.code == "passkey_counter"
    assert "compromised" in refused.value.hint


@pytest.mark.parametrize(
    ("client_data", "code"),
    [
        (b"not json", "passkey_malformed"),
        (b"[]", "passkey_malformed"),
        (b'{"type":"webauthn.get","type":"webauthn.get"}', "passkey_malformed"),
        (b"{}", "passkey_other_purpose"),
    ],
)
def test_client_data_that_is_none_is_refused(client_data: bytes, code: str) -> None:
    device = Device()
    proof = PasskeyProof(device.authenticator_data(), client_data)
    signature = EnvelopeSignature(
        device.public.key_id, device.sign_bytes(proof.signed_bytes), proof
    )
    envelope = Envelope(PAYLOAD, CONTRACT_PAYLOAD_TYPE, (signature,))
    assert refusal(envelope, device) == code


@pytest.mark.parametrize(
    ("written", "pointer"),
    [
        ([], "/signatures/0/webauthn"),
        ({}, "/signatures/0/webauthn/authenticatorData"),
        (
            {"authenticatorData": "AA==", "clientDataJSON": "{}"},
            "/signatures/0/webauthn/clientDataJSON",
        ),
        (
            {"authenticatorData": "AA==", "clientDataJSON": "e30=", "more": 1},
            "/signatures/0/webauthn/more",
        ),
    ],
)
def test_a_proof_that_is_not_one_is_refused_in_its_place(written: Any, pointer: str) -> None:
    document = Device().sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD).to_dict()
    document["signatures"][0]["webauthn"] = written
    with pytest.raises(Invalid) as refused:
        Envelope.parse(document)
    assert pointer in [error.pointer for error in refused.value.errors]


def test_passkeys_and_plain_keys_sign_in_one_envelope() -> None:
    device, plain = Device(), ed25519.Ed25519PrivateKey.generate()
    merged = merge(
        [device.sign(CONTRACT_PAYLOAD_TYPE, PAYLOAD), sign(plain, CONTRACT_PAYLOAD_TYPE, PAYLOAD)]
    )
    assert len(merged.signatures) == 2
    verify(merged, device.public)
