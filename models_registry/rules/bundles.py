"""Offline bundles: everything needed to verify a contract or a release with no server at hand.

A bundle proves that keys signed bytes. *Whose* keys they are it can only claim, so a verifier
passes the key ids that they know to be right (`trusted_keyids`, or one per seat, `seat_keyids`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from console.errors import Invalid
from console.rules.canonical import loads_strict
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, RELEASE_PAYLOAD_TYPE, Envelope, merge
from console.rules.signing_keys import PublicKey
from models_registry.rules.bundle_report import (
    API_VERSION,
    CONTRACT_BUNDLE,
    RELEASE_BUNDLE,
    SEATS,
    BrokenGlass,
    BundleReport,
    Finding,
)
from models_registry.rules.bundle_signatures import SeatSignature
from models_registry.rules.bundle_verification import verify_bundle
from models_registry.rules.release_payload import time_text

__all__ = [
    "SEATS",
    "BundleReport",
    "Finding",
    "SeatSignature",
    "contract_bundle",
    "release_bundle",
    "verify_bundle",
]


def contract_bundle(
    *,
    model: str,
    revision: int,
    payload: bytes,
    envelopes: Sequence[Envelope],
    seats: Sequence[SeatSignature],
    keys: Sequence[PublicKey],
    issued: datetime,
) -> bytes:
    """The bundle of a contract as JSON text: the signed bytes, every signature, who and which key.

    A contract that not every seat has signed gives a bundle too; verifying it says who is missing.
    """
    order = {seat: index for index, seat in enumerate(SEATS)}
    ordered = sorted(seats, key=lambda signer: order.get(signer.seat, len(SEATS)))
    bundle = {
        "apiVersion": API_VERSION,
        "kind": CONTRACT_BUNDLE,
        "model": model,
        "revision": revision,
        **_signed(CONTRACT_PAYLOAD_TYPE, payload, envelopes),
        "seats": {signer.seat: _signer(signer) for signer in ordered},
        **_keys(keys),
        "issued": time_text(issued),
    }
    return _text(bundle)


def release_bundle(
    *,
    payload: bytes,
    envelopes: Sequence[Envelope],
    approvals: Sequence[SeatSignature],
    keys: Sequence[PublicKey],
    issued: datetime,
    contract: bytes | None = None,
    broken_glass: tuple[SeatSignature, BrokenGlass] | None = None,
) -> bytes:
    """The bundle of a release as JSON text; `contract` is the bundle of its contract.

    `broken_glass`: who signed it past the policy, and how.
    """
    bundle: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": RELEASE_BUNDLE,
        **_signed(RELEASE_PAYLOAD_TYPE, payload, envelopes),
        "approvals": [{"role": signer.seat, **_signer(signer)} for signer in approvals],
        **_keys(keys),
        "issued": time_text(issued),
    }
    if broken_glass is not None:
        bundle["break_glass"] = _broken_glass(*broken_glass)
    if contract is not None:
        bundle["contract"] = loads_strict(contract)
    return _text(bundle)


def _broken_glass(signer: SeatSignature, glass: BrokenGlass) -> dict[str, Any]:
    reviewed_at = glass.reviewed_at
    return {
        "role": signer.seat,
        **_signer(signer),
        "reason": glass.reason,
        "waived": [{"code": code, "sentence": sentence} for code, sentence in glass.waived],
        "reviewed_by": glass.reviewed_by,
        "reviewed_at": None if reviewed_at is None else time_text(reviewed_at),
        "review": glass.review,
    }


def _signed(payload_type: str, payload: bytes, envelopes: Sequence[Envelope]) -> dict[str, Any]:
    signed: dict[str, Any] = {
        "payloadType": payload_type,
        "payload": base64.b64encode(payload).decode("ascii"),
    }
    if envelopes:
        envelope = merge(envelopes)
        if (envelope.payload, envelope.payload_type) != (payload, payload_type):
            raise Invalid("The signatures are over other bytes.", code="payload_mismatch")
        signed["envelope"] = envelope.to_dict()
    return signed


def _keys(keys: Sequence[PublicKey]) -> dict[str, Any]:
    """The keys as PEM, by key id; which of them are passkeys, and of which site."""
    written: dict[str, Any] = {"keys": {key.key_id: key.pem for key in keys}}
    if passkeys := {key.key_id: key.rp_id for key in keys if key.is_passkey}:
        written["passkeys"] = passkeys
    return written


def _signer(signer: SeatSignature) -> dict[str, str]:
    entry = {
        "user": signer.user,
        "keyid": signer.keyid,
        "signed_at": time_text(signer.signed_at),
    }
    for name in ("revoked_at", "doubted_from", "expires_at"):
        if (at := getattr(signer, name)) is not None:
            entry[name] = time_text(at)
    return entry


def _text(bundle: dict[str, Any]) -> bytes:
    return (json.dumps(bundle, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
