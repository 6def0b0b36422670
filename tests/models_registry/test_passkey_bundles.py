"""Bundles whose signers used passkeys: what stands in them, and what cannot be changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from console.rules.key_export import KnownKey, from_jwks, to_jwks
from console.rules.signing_keys import PublicKey
from models_registry.rules.bundles import SEATS, SeatSignature, contract_bundle, verify_bundle
from models_registry.rules.contract_document import load
from tests.models_registry.contract_samples import SAMPLE
from tests.passkey_device import Device

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DOCUMENT = load(SAMPLE)
DEVICES = [Device(rp_id="console.example.com", origin="https://console.example.com") for _ in SEATS]
PEOPLE = ("dana", "sam", "bea")


def bundle() -> dict[str, Any]:
    made = contract_bundle(
        model=DOCUMENT.model,
        revision=1,
        payload=DOCUMENT.canonical,
        envelopes=[one.sign(CONTRACT_PAYLOAD_TYPE, DOCUMENT.canonical) for one in DEVICES],
        seats=[
            SeatSignature(seat, user, device.public.key_id, NOW)
            for seat, user, device in zip(SEATS, PEOPLE, DEVICES, strict=True)
        ],
        keys=[device.public for device in DEVICES],
        issued=NOW,
    )
    written: dict[str, Any] = json.loads(made)
    return written


def faults(written: dict[str, Any], **how: Any) -> set[str]:
    report = verify_bundle(json.dumps(written).encode(), **how)
    assert report.ok is not bool(report.faults)
    return {fault.code for fault in report.faults}


def test_a_bundle_signed_by_passkeys_holds_and_names_their_site() -> None:
    written = bundle()
    assert faults(written) == set()
    assert set(written["passkeys"].values()) == {"console.example.com"}


def strip(written: dict[str, Any]) -> None:
    del written["passkeys"]


def other_site(written: dict[str, Any]) -> None:
    written["passkeys"] = dict.fromkeys(written["passkeys"], "evil.example")


def nobody_s(written: dict[str, Any]) -> None:
    written["passkeys"]["0" * 64] = "console.example.com"


def no_site(written: dict[str, Any]) -> None:
    written["passkeys"][DEVICES[0].public.key_id] = ""


def swap(written: dict[str, Any]) -> None:
    one, two, _ = written["envelope"]["signatures"]
    one["webauthn"], two["webauthn"] = two["webauthn"], one["webauthn"]
    one["sig"], two["sig"] = two["sig"], one["sig"]


def bare(written: dict[str, Any]) -> None:
    for signature in written["envelope"]["signatures"]:
        del signature["webauthn"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (strip, "signature_kind"),
        (other_site, "passkey_other_origin"),
        (nobody_s, "passkey_unreadable"),
        (no_site, "passkey_unreadable"),
        (swap, "signature_invalid"),
        (bare, "signature_kind"),
    ],
)
def test_a_changed_bundle_does_not_hold(
    change: Callable[[dict[str, Any]], None], code: str
) -> None:
    written = bundle()
    change(written)
    assert code in faults(written)


def known(**changed: Any) -> list[KnownKey]:
    keys = [
        KnownKey(device.public, owner=user, **changed)
        for user, device in zip(PEOPLE, DEVICES, strict=True)
    ]
    return list(from_jwks(to_jwks(keys, NOW)))


def test_what_the_verifier_heard_since_is_held_against_the_bundle() -> None:
    written = bundle()
    assert faults(written, known_keys=known()) == set()
    later, before = NOW + timedelta(days=9), NOW - timedelta(hours=1)
    assert faults(written, known_keys=known(revoked_at=later, revocation="lost")) == set()
    doubted = known(revoked_at=later, revocation="compromised", doubted_from=before)
    assert faults(written, known_keys=doubted) == {"key_doubted"}
    still = known(revoked_at=later, revocation="compromised", doubted_from=later)
    assert faults(written, known_keys=still) == set()
    assert faults(written, known_keys=known(revoked_at=before)) == {"signed_after_revocation"}
    assert faults(written, known_keys=known(expires_at=before)) == {"signed_after_expiry"}


def test_a_key_set_of_another_site_or_of_other_people_is_a_fault() -> None:
    written = bundle()
    plain = [
        KnownKey(PublicKey(one.public.algorithm, one.public.key_id, one.public.der), owner=user)
        for user, one in zip(PEOPLE, DEVICES, strict=True)
    ]
    assert faults(written, known_keys=plain) == {"passkey_of_another_site"}
    mixed = [KnownKey(one.public, owner="mallory") for one in DEVICES]
    assert faults(written, known_keys=mixed) == {"key_of_another"}
