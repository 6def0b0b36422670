"""Verifying a bundle with nothing but its bytes and what the verifier already knows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from console.errors import Invalid
from console.rules.canonical import canonical_bytes, digest, digest_text, loads_strict
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE, RELEASE_PAYLOAD_TYPE, Envelope
from console.rules.key_export import KnownKey
from models_registry.rules import release_payload
from models_registry.rules.bundle_report import (
    API_VERSION,
    CONTRACT_BUNDLE,
    RELEASE_BUNDLE,
    SEATS,
    BundleReport,
    Finding,
    Findings,
)
from models_registry.rules.bundle_signatures import (
    SeatSignature,
    Trust,
    check_signatures,
    read_broken_glass,
    read_keys,
    read_seat,
)
from models_registry.rules.contract_document import load
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.release_payload import ReleasePayload

_COMMON = {
    "apiVersion", "kind", "payloadType", "payload", "envelope", "keys", "passkeys", "issued"
}  # fmt: skip
_FIELDS = {
    CONTRACT_BUNDLE: _COMMON | {"model", "revision", "seats"},
    RELEASE_BUNDLE: _COMMON | {"approvals", "contract", "break_glass"},
}
_PAYLOAD_TYPES = {CONTRACT_BUNDLE: CONTRACT_PAYLOAD_TYPE, RELEASE_BUNDLE: RELEASE_PAYLOAD_TYPE}


def verify_bundle(
    data: bytes,
    *,
    trusted_keyids: Collection[str] | None = None,
    seat_keyids: Mapping[str, str] | None = None,
    revoked_keyids: Collection[str] = (),
    files: Mapping[str, str] | None = None,
    required_approvals: Collection[str] = (),
    require_contract: bool = False,
    known_keys: Collection[KnownKey] = (),
) -> BundleReport:
    """Check every claim that a bundle makes; never raises, the report says what is wrong.

    `trusted_keyids`: only these keys count. `seat_keyids`: seat → the key that belongs there.
    `files`: source, onnx, onnx_data, config, report or contract → the SHA-256 in hex that was
    found, compared with what the release signed. `required_approvals`: roles that must have
    approved a release. `require_contract`: a release must carry its contract, signed by all three
    seats. `known_keys`: keys of an exported key set; what it says of owners, sites of passkeys and
    revocations is compared, whether or not the keys are trusted.
    """
    findings = Findings()
    trust = Trust(
        keyids=None if trusted_keyids is None else frozenset(trusted_keyids),
        seats=dict(seat_keyids or {}),
        revoked=frozenset(revoked_keyids),
        known={key.public.key_id: key for key in known_keys},
    )
    try:
        bundle = loads_strict(data)
    except Invalid as error:
        findings.fault("unreadable", error.message)
        return BundleReport(tuple(findings.made))
    kind = bundle.get("kind") if isinstance(bundle, dict) else None
    if not isinstance(bundle, dict) or kind not in (CONTRACT_BUNDLE, RELEASE_BUNDLE):
        findings.fault("not_a_bundle", "This is not a bundle: its kind is not known.")
        return BundleReport(tuple(findings.made))
    if bundle.get("apiVersion") != API_VERSION:
        findings.fault("unknown_version", f"The bundle is not of the version {API_VERSION}.")
    for name in sorted(set(bundle) - _FIELDS[str(kind)]):
        findings.fault("unknown_field", f"The bundle has the unknown field “{name[:60]}”.")
    payload = _payload(bundle, str(kind), findings)
    if payload is None:
        return BundleReport(tuple(findings.made), kind=str(kind))
    if kind == CONTRACT_BUNDLE:
        return _contract_report(bundle, payload, trust, files or {}, findings)
    required = frozenset(required_approvals)
    return _release_report(
        bundle, payload, trust, files or {}, required, require_contract, findings
    )


def _contract_report(
    bundle: dict[str, Any],
    payload: bytes,
    trust: Trust,
    files: Mapping[str, str],
    findings: Findings,
) -> BundleReport:
    document = _contract(payload, findings)
    if document is not None and bundle.get("model") != document.model:
        findings.fault("model_mismatch", f"The bundle names another model than {document.model}.")
    if document is not None and document.revision not in (None, bundle.get("revision")):
        text = f"The bundle names another revision than the document's own, {document.revision}."
        findings.fault("revision_mismatch", text)
    written = bundle.get("seats")
    seats = written if isinstance(written, dict) else {}
    for seat in SEATS:
        if seat not in seats:
            findings.fault("seat_missing", f"The seat {seat} has not signed.")
    for seat in seats:
        if seat not in SEATS:
            findings.fault("unknown_seat", f"There is no seat “{seat[:60]}”.")
    signers = _signers([(seat, item) for seat, item in seats.items() if seat in SEATS], findings)
    _check_envelope(bundle, payload, signers, trust, findings)
    _compare_files({"contract": digest(payload)}, files, findings)
    return BundleReport(
        tuple(findings.made),
        kind=CONTRACT_BUNDLE,
        model=document.model if document else "",
        digest=digest(payload),
        payload=document,
    )


def _release_report(
    bundle: dict[str, Any],
    payload: bytes,
    trust: Trust,
    files: Mapping[str, str],
    required: frozenset[str],
    require_contract: bool,
    findings: Findings,
) -> BundleReport:
    release = _release(payload, findings)
    written = bundle.get("approvals", [])
    listed = written if isinstance(written, list) else [written]
    pairs = [_role_of(item) for item in listed]
    signers = _signers(pairs, findings)
    glass = read_broken_glass(bundle.get("break_glass"), findings)
    for role in sorted(required - {signer.seat for signer in signers}):
        findings.fault("approval_missing", f"No approval by the role {role}.")
    signed = [*signers, *([glass] if glass else [])]
    if signed or "envelope" in bundle:
        # A role's approver need not hold the seat of that name: seats' keys count in contracts.
        _check_envelope(bundle, payload, signed, replace(trust, seats={}), findings)
    if not pairs and glass is None:
        findings.warn(
            "not_signed", "Nobody approved this release; does its environment ask for none?"
        )
    if release is not None:
        named = release.digests.named()
        _compare_files(named, files, findings)
        if "onnx" in files and release_payload.WEIGHTS in named.keys() - files.keys():
            text = "The graph was compared without its weights: compare “onnx_data” as well."
            findings.warn("weights_not_compared", text)
        _check_contract(bundle, release, trust, require_contract, findings)
    return BundleReport(
        tuple(findings.made),
        kind=RELEASE_BUNDLE,
        model=release.model if release else "",
        digest=digest(payload),
        payload=release,
    )


def _check_contract(
    bundle: dict[str, Any],
    release: ReleasePayload,
    trust: Trust,
    require_contract: bool,
    findings: Findings,
) -> None:
    expected, carried = release.digests.contract, bundle.get("contract")
    if carried is None:
        if require_contract or expected is not None:
            report = findings.fault if require_contract else findings.warn
            report("contract_missing", "The bundle does not carry the release's contract.")
        return
    nested = verify_bundle(
        canonical_bytes(carried),
        trusted_keyids=trust.keyids,
        seat_keyids=trust.seats,
        revoked_keyids=trust.revoked,
        known_keys=tuple(trust.known.values()),
    )
    findings.made += [Finding(f.code, f.level, f"Contract: {f.text}") for f in nested.findings]
    if nested.kind != CONTRACT_BUNDLE or nested.digest != expected:
        findings.fault("contract_mismatch", "The contract is not the one that the release names.")
    elif nested.model != release.model:
        findings.fault("model_mismatch", f"The contract is of {nested.model}, not this model.")
    else:
        findings.ok("contract_matches", "The contract is the one that the release names.")


def _payload(bundle: dict[str, Any], kind: str, findings: Findings) -> bytes | None:
    if bundle.get("payloadType") != _PAYLOAD_TYPES[kind]:
        findings.fault("payload_type_mismatch", f"The payload is not a {_PAYLOAD_TYPES[kind]}.")
    try:
        payload = base64.b64decode(str(bundle.get("payload", "")), validate=True)
    except (binascii.Error, ValueError):
        payload = b""
    if not payload or base64.b64encode(payload).decode("ascii") != bundle.get("payload"):
        findings.fault("payload_unreadable", "The payload is missing or not base64.")
        return None
    return payload


def _check_envelope(
    bundle: dict[str, Any],
    payload: bytes,
    signers: list[SeatSignature],
    trust: Trust,
    findings: Findings,
) -> None:
    written = bundle.get("envelope")
    try:
        envelope = Envelope.parse(written if isinstance(written, dict) else {})
    except Invalid as error:
        findings.fault("envelope_unreadable", error.message)
        return
    if envelope.payload != payload or envelope.payload_type != bundle.get("payloadType"):
        findings.fault("payload_mismatch", "The signatures are over other bytes than the payload.")
        return
    keys = read_keys(bundle.get("keys"), bundle.get("passkeys", {}), findings)
    check_signatures(envelope, signers, keys, trust, findings)


def _role_of(item: Any) -> tuple[str, Any]:
    if not isinstance(item, dict):
        return "", None
    return str(item.get("role", "")), {key: item[key] for key in item if key != "role"}


def _signers(pairs: list[tuple[str, Any]], findings: Findings) -> list[SeatSignature]:
    signers: list[SeatSignature] = []
    for seat, written in pairs:
        try:
            signers.append(read_seat(seat, written))
        except ValueError as error:
            findings.fault("signer_unreadable", f"The entry of {seat or 'a signer'} {error}.")
    return signers


def _contract(payload: bytes, findings: Findings) -> ContractDocument | None:
    try:
        document = load(payload, "json")
    except Invalid as error:
        findings.fault("payload_invalid", error.message)
        return None
    if document.canonical != payload:
        findings.fault("payload_not_canonical", "The payload is not in canonical form (RFC 8785).")
    else:
        findings.ok("payload_valid", f"A service contract of {document.model}.")
    return document


def _release(payload: bytes, findings: Findings) -> ReleasePayload | None:
    try:
        release = release_payload.parse(payload)
    except Invalid as error:
        findings.fault("payload_invalid", error.message)
        return None
    text = f"A release of {release.model} version {release.version} to {release.environment}."
    findings.ok("payload_valid", text)
    return release


def _compare_files(
    signed: Mapping[str, str | None], files: Mapping[str, str], findings: Findings
) -> None:
    for name, found in files.items():
        expected = signed.get(name)
        if expected is None:
            findings.fault("file_not_signed", f"Nothing is signed about the file “{name}”.")
        elif expected != found:
            text = f"The {name} file is {_short(found)}, but {_short(expected)} was signed."
            findings.fault("digest_mismatch", text)
        else:
            findings.ok("digest_matches", f"The {name} file is the one that was signed.")


def _short(hex_digest: str) -> str:
    try:
        return digest_text(hex_digest)
    except Invalid:
        return "no digest"
