"""Checking who signed a bundle: keys, seats, trust and revocation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from console.errors import Invalid
from console.rules.dsse import Envelope, verify
from console.rules.key_export import KnownKey
from console.rules.key_life import outcome_of
from console.rules.signing_keys import PublicKey, parse_public_key
from models_registry.rules.bundle_report import Findings
from models_registry.rules.release_payload import parse_time


@dataclass(frozen=True, slots=True)
class SeatSignature:
    """Who signed in which seat (or, on a release, as which role), with which key, when.

    A revoked or expired key keeps what it signed before; it signs nothing after. What a key signed
    since it is `doubted_from` (it was compromised) does not count.
    """

    seat: str
    user: str
    keyid: str
    signed_at: datetime
    revoked_at: datetime | None = None
    doubted_from: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """What the verifier knows: keys they trust, the key of each seat, keys they know revoked.

    `known` are keys of an exported key set, by key id: with the site a passkey is bound to, whose
    it is, and whether it was revoked meanwhile.
    """

    keyids: frozenset[str] | None = None
    seats: Mapping[str, str] = field(default_factory=dict)
    revoked: frozenset[str] = frozenset()
    known: Mapping[str, KnownKey] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        return self.keyids is not None or bool(self.seats)


def read_keys(listed: Any, passkeys: Any, findings: Findings) -> dict[str, PublicKey]:
    """The bundle's public keys by key id; one that is not what it is called is a fault.

    `passkeys` names, by key id, the site (rp id) that each of them which is a passkey is bound to.
    """
    keys = _plain_keys(listed, findings)
    for name, rp_id in passkeys.items() if isinstance(passkeys, Mapping) else ():
        if name in keys and isinstance(rp_id, str) and rp_id:
            keys[name] = replace(keys[name], rp_id=rp_id)
        else:
            text = f"The passkey {str(name)[:16]}… has no key, or names no site."
            findings.fault("passkey_unreadable", text)
    return keys


def _plain_keys(listed: Any, findings: Findings) -> dict[str, PublicKey]:
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
    required, times = {"user", "keyid", "signed_at"}, ("revoked_at", "doubted_from", "expires_at")
    if not isinstance(written, Mapping) or not required <= set(written):
        raise ValueError("does not name user, keyid and signed_at")
    if unknown := set(written) - required - set(times):
        raise ValueError(f"has the unknown field {sorted(unknown)[0]}")
    read = {name: parse_time(str(written[name])) for name in times if name in written}
    return SeatSignature(
        seat=seat,
        user=str(written["user"]),
        keyid=str(written["keyid"]),
        signed_at=parse_time(str(written["signed_at"])),
        **read,
    )


def read_broken_glass(written: Any, findings: Findings) -> SeatSignature | None:
    """Who signed a release past its policy; says so, with what was waived and who reviewed it."""
    if written is None:
        return None
    about = ("role", "reason", "waived", "reviewed_by", "reviewed_at", "review")
    signer = None
    try:
        if not isinstance(written, Mapping) or not set(about) <= set(written):
            raise ValueError(f"does not say {', '.join(about)}")
        entry = {name: value for name, value in written.items() if name not in about}
        signer = read_seat(str(written["role"]), entry)
        waived = [str(one["sentence"]) for one in written["waived"]]
    except (KeyError, TypeError, ValueError) as error:
        findings.fault("break_glass_unreadable", f"The entry on breaking the glass {error}.")
        return signer
    findings.warn(
        "break_glass",
        f"Released by break-glass, against the environment's policy, by {signer.user} "
        f"({signer.seat}): {written['reason']} Waived: {' '.join(waived)}",
    )
    if written["reviewed_by"]:
        findings.ok(
            "break_glass_reviewed", f"{written['reviewed_by']} reviewed it: {written['review']}"
        )
    else:
        findings.warn("break_glass_not_reviewed", "Nobody had reviewed it when this was made.")
    return signer


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
    how = f", a passkey of {key.rp_id}" if key.is_passkey else ""
    findings.ok("signature_valid", f"Signed by {who}{how}.")
    if trust.keyids is not None and key.key_id not in trust.keyids:
        findings.fault("key_not_trusted", f"The key of {who} is not among those you trust.")
    expected = trust.seats.get(signer.seat)
    if expected is not None and expected != key.key_id:
        findings.fault("wrong_seat_key", f"The seat {signer.seat} belongs to another key: {who}.")
    known = trust.known.get(key.key_id)
    if known is not None:
        _compare_known(signer, who, key, known, findings)
    _check_life(signer, who, trust, known, findings)


def _compare_known(
    signer: SeatSignature, who: str, key: PublicKey, known: KnownKey, findings: Findings
) -> None:
    if known.owner and known.owner != signer.user:
        findings.fault("key_of_another", f"By your keys, the key of {who} is {known.owner}'s.")
    if known.public.rp_id != key.rp_id:
        text = f"By your keys, the key of {who} is of another site than the bundle says."
        findings.fault("passkey_of_another_site", text)


def _check_life(
    signer: SeatSignature, who: str, trust: Trust, known: KnownKey | None, findings: Findings
) -> None:
    """Revoked, doubted, expired: by the bundle, or by what the verifier has heard since."""
    signed_at = signer.signed_at
    revoked = _first(signer.revoked_at, known.revoked_at if known else None)
    doubted = _first(signer.doubted_from, known.doubted_from if known else None)
    expires = _first(signer.expires_at, known.expires_at if known else None)
    if signer.keyid in trust.revoked:
        findings.fault("key_revoked", f"The key of {who} is among those you hold for revoked.")
    elif revoked is not None and revoked <= signed_at:
        findings.fault("signed_after_revocation", f"{who} signed with a key already revoked.")
    elif outcome_of(signed_at, doubted) == "no_longer_counts":
        text = f"The key of {who} was compromised before it signed: the signature does not count."
        findings.fault("key_doubted", text)
    elif expires is not None and expires <= signed_at:
        findings.fault("signed_after_expiry", f"{who} signed with a key that had expired.")
    elif revoked is not None:
        findings.warn("key_revoked_later", f"The key of {who} was revoked after it signed.")


def _first(*times: datetime | None) -> datetime | None:
    return min((at for at in times if at is not None), default=None)
