"""Checking who signed a bundle: keys, seats, trust and revocation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from console.errors import Invalid
from console.rules.dsse import Envelope, verify
from console.rules.signing_keys import PublicKey, parse_public_key
from models_registry.rules.bundle_report import Findings
from models_registry.rules.release_payload import parse_time


@dataclass(frozen=True, slots=True)
class SeatSignature:
    """Who signed in which seat (or, on a release, as which role), with which key, when.

    A revoked key keeps what it signed before, marked; it signs nothing after.
    """

    seat: str
    user: str
    keyid: str
    signed_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """What the verifier knows: keys they trust, the key of each seat, keys they know revoked."""

    keyids: frozenset[str] | None = None
    seats: Mapping[str, str] = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()

    @property
    def is_given(self) -> bool:
        return self.keyids is not None or bool(self.seats)


def read_keys(listed: Any, findings: Findings) -> dict[str, PublicKey]:
    """The bundle's public keys by key id; one that is not what it is called is a fault."""
    keys: dict[str, PublicKey] = {}
    for name, pem in listed.items() if isinstance(listed, Mapping) else ():
        try:
            key = parse_public_key(str(pem))
        except Invalid as error:
            findings.fault(
                "key_unreadable", f"The key {name[:16]}… cannot be read: {error.message}"
            )
            continue
        if key.key_id != name:
            findings.fault(
                "key_id_mismatch", f"The key called {name[:16]}… is really {key.key_id[:16]}…."
            )
            continue
        keys[name] = key
    return keys


def read_seat(seat: str, written: Any) -> SeatSignature:
    """One seat of a bundle; raises `ValueError` in plain words."""
    known = {"user", "keyid", "signed_at", "revoked_at"}
    if not isinstance(written, Mapping) or not {"user", "keyid", "signed_at"} <= set(written):
        raise ValueError("does not name user, keyid and signed_at")
    if unknown := set(written) - known:
        raise ValueError(f"has the unknown field {sorted(unknown)[0]}")
    revoked_at = written.get("revoked_at")
    return SeatSignature(
        seat=seat,
        user=str(written["user"]),
        keyid=str(written["keyid"]),
        signed_at=parse_time(str(written["signed_at"])),
        revoked_at=None if revoked_at is None else parse_time(str(revoked_at)),
    )


def check_signatures(
    envelope: Envelope,
    signers: Collection[SeatSignature],
    keys: Mapping[str, PublicKey],
    trust: Trust,
    findings: Findings,
) -> None:
    """Every signer's signature, and that nobody stands in two seats."""
    for signer in signers:
        _check_signer(envelope, signer, keys.get(signer.keyid), trust, findings)
    for name, values in (
        ("key", [signer.keyid for signer in signers]),
        ("person", [signer.user for signer in signers]),
    ):
        if len(set(values)) < len(values):
            findings.fault(f"one_{name}_twice", f"One {name} stands in more than one place.")
    claimed = {signer.keyid for signer in signers}
    for signature in envelope.signatures:
        if signature.keyid not in claimed:
            text = f"A signature by {signature.keyid[:16] or 'an unnamed key'}… belongs to nobody."
            findings.warn("signature_of_nobody", text)
    if signers and not trust.is_given:
        findings.warn(
            "keys_not_compared",
            "The keys were not compared with keys you trust: pass the key ids that you know.",
        )


def _check_signer(
    envelope: Envelope,
    signer: SeatSignature,
    key: PublicKey | None,
    trust: Trust,
    findings: Findings,
) -> None:
    who = f"{signer.seat} ({signer.user}, key {signer.keyid[:16]}…)"
    if key is None:
        findings.fault("key_missing", f"The bundle does not hold the key of {who}.")
        return
    try:
        verify(envelope, key)
    except Invalid as error:
        findings.fault(error.code, f"{who}: {error.message}")
        return
    findings.ok("signature_valid", f"Signed by {who}.")
    if trust.keyids is not None and key.key_id not in trust.keyids:
        findings.fault("key_not_trusted", f"The key of {who} is not among those you trust.")
    expected = trust.seats.get(signer.seat)
    if expected is not None and expected != key.key_id:
        findings.fault("wrong_seat_key", f"The seat {signer.seat} belongs to another key: {who}.")
    _check_revocation(signer, who, trust, findings)


def _check_revocation(signer: SeatSignature, who: str, trust: Trust, findings: Findings) -> None:
    if signer.keyid in trust.revoked:
        findings.fault("key_revoked", f"The key of {who} is among those you hold for revoked.")
    elif signer.revoked_at is not None and signer.revoked_at <= signer.signed_at:
        findings.fault("signed_after_revocation", f"{who} signed with a key already revoked.")
    elif signer.revoked_at is not None:
        findings.warn("key_revoked_later", f"The key of {who} was revoked after it signed.")
