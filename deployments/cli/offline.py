"""What the CLI does with no server and no account: verify bundles, sign bytes it understands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from console.errors import Invalid
from console.rules import dsse
from console.rules.canonical import digest_text, parse_digest
from console.rules.key_export import from_jwks
from console.rules.signing_keys import PrivateKey
from models_registry.rules import release_payload
from models_registry.rules.bundles import SEATS, BundleReport, Finding, verify_bundle
from models_registry.rules.contract_document import load
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.contract_validity import is_past


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """What `--trust` said: key ids that count, and the key of a seat."""

    keyids: frozenset[str] | None
    seats: Mapping[str, str]


def read_trust(options: Iterable[str]) -> TrustOptions:
    """`KEYID` or `SEAT=KEYID`, each as often as wanted; raises `Invalid` for anything else.

    A key named for a seat is trusted; when only seats are named, other keys are not.
    """
    keyids: set[str] = set()
    seats: dict[str, str] = {}
    for option in options:
        seat, _, keyid = option.rpartition("=")
        if seat and seat not in SEATS:
            raise Invalid(
                f"There is no seat “{seat}”.",
                code="unknown_seat",
                hint=f"Seats are {', '.join(SEATS)}.",
            )
        known = parse_digest(keyid)
        keyids.add(known)
        if seat:
            seats[seat] = known
    return TrustOptions(frozenset(keyids) if keyids else None, seats)


def verify(
    bundle: bytes,
    *,
    trust: Iterable[str] = (),
    files: Mapping[str, Path] | None = None,
    key_set: bytes | None = None,
    now: datetime | None = None,
) -> BundleReport:
    """Verify a contract's or a release's bundle; `files` (onnx, config …) are compared with it.

    `key_set` is an exported JSON Web Key Set: what it says of owners, sites of passkeys and
    revocations is compared, and where `trust` names no key, those of the set count alone. With
    `now` a contract whose last day is over is warned of.
    """
    trusted = read_trust(trust)
    known = () if key_set is None else from_jwks(key_set)
    in_set = None if key_set is None else [key.public.key_id for key in known]
    report = verify_bundle(
        bundle,
        trusted_keyids=in_set if trusted.keyids is None else trusted.keyids,
        seat_keyids=trusted.seats,
        files={name: _file_digest(path) for name, path in (files or {}).items()},
        known_keys=known,
    )
    return report if now is None else _with_expiry(report, now)


def _with_expiry(report: BundleReport, now: datetime) -> BundleReport:
    contract = report.payload
    if not isinstance(contract, ContractDocument) or not is_past(contract.valid_until, now):
        return report
    text = f"The contract was to hold until {contract.valid_until} (UTC): it has expired."
    return replace(report, findings=(*report.findings, Finding("expired", "warning", text)))


def report_json(report: BundleReport) -> dict[str, Any]:
    """The report for programs."""
    return {
        "ok": report.ok,
        "kind": report.kind,
        "model": report.model,
        "digest": report.digest,
        "findings": [
            {"code": finding.code, "level": finding.level, "text": finding.text}
            for finding in report.findings
        ],
    }


def report_words(report: BundleReport) -> str:
    """The report for people: one line for each finding, then the verdict."""
    marks = {"ok": "ok      ", "warning": "warning ", "fault": "FAULT   "}
    lines = [marks[finding.level] + finding.text for finding in report.findings]
    verdict = "The bundle holds." if report.ok else "The bundle does not hold."
    shown = f" {digest_text(report.digest)}" if report.digest else ""
    return "\n".join([*lines, verdict + shown])


def sign_payload(key: PrivateKey, payload_type: str, payload: bytes) -> dsse.Envelope:
    """Sign bytes that a server gave, once they are what they are said to be.

    A server (or somebody between) cannot get a signature over anything but a contract or a release
    that is well formed and in canonical form. Raises `Invalid` otherwise.
    """
    if payload_type == dsse.RELEASE_PAYLOAD_TYPE:
        release_payload.parse(payload)
    elif payload_type == dsse.CONTRACT_PAYLOAD_TYPE:
        if load(payload, "json").canonical != payload:
            raise Invalid(
                "The bytes to sign are not in canonical form.",
                code="payload_not_canonical",
                hint="Fetch the payload again; report it when it stays so.",
            )
    else:
        raise Invalid(f"Nothing of the type {payload_type} is signed.", code="unknown_payload_type")
    return dsse.sign(key, payload_type, payload)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
