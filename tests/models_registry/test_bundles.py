"""Offline bundles: what holds, and everything that must not."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from console.errors import Invalid
from console.rules import dsse
from console.rules.canonical import canonical_bytes, digest
from console.rules.signing_keys import create_private_key, public_key_of
from deployments.cli import offline
from models_registry.rules import release_payload
from models_registry.rules.bundles import (
    SEATS,
    SeatSignature,
    contract_bundle,
    release_bundle,
    verify_bundle,
)
from models_registry.rules.contract_document import load
from models_registry.rules.contract_types import ContractDocument
from models_registry.rules.release_payload import Digests, ReleasePayload
from tests.models_registry.contract_samples import SAMPLE, body

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
KEYS = {
    "data_scientist": create_private_key("ecdsa-p256"),
    "sre": create_private_key("ed25519"),
    "business_owner": create_private_key("ecdsa-p256"),
}
PUBLIC = {seat: public_key_of(key) for seat, key in KEYS.items()}
KEYIDS = {seat: key.key_id for seat, key in PUBLIC.items()}
USERS = {"data_scientist": "dana", "sre": "sam", "business_owner": "bea"}
DOCUMENT = load(SAMPLE)
STRANGER = create_private_key("ed25519")


def signer(seat: str) -> SeatSignature:
    return SeatSignature(seat, USERS[seat], KEYIDS[seat], NOW)


def make_contract(seats: tuple[str, ...] = SEATS) -> bytes:
    return contract_bundle(
        model="fraud_detector",
        revision=3,
        payload=DOCUMENT.canonical,
        envelopes=[
            dsse.sign(KEYS[seat], dsse.CONTRACT_PAYLOAD_TYPE, DOCUMENT.canonical) for seat in seats
        ],
        seats=[signer(seat) for seat in seats],
        keys=[PUBLIC[seat] for seat in seats],
        issued=NOW,
    )


RELEASE = ReleasePayload(
    release="7d0f3c9e-0b7e-4c59-8a52-0d6c7f4f1c11",
    model="fraud_detector",
    version=4,
    environment="production",
    digests=Digests(
        source=digest(b"source"),
        onnx=digest(b"onnx"),
        config=digest(b"config"),
        report=digest(b"report"),
        contract=DOCUMENT.digest,
    ),
    requested_by="dana",
    requested_at=NOW,
)


def make_release(
    release: ReleasePayload = RELEASE,
    roles: tuple[str, ...] = ("sre",),
    contract: bytes | None = None,
) -> bytes:
    payload = release_payload.canonical(release)
    return release_bundle(
        payload=payload,
        envelopes=[dsse.sign(KEYS[role], dsse.RELEASE_PAYLOAD_TYPE, payload) for role in roles],
        approvals=[signer(role) for role in roles],
        keys=[PUBLIC[role] for role in roles],
        issued=NOW,
        contract=contract,
    )


def codes(data: bytes, **options: Any) -> set[str]:
    return {finding.code for finding in verify_bundle(data, **options).faults}


def test_a_contract_signed_by_all_three_seats_holds() -> None:
    report = verify_bundle(make_contract(), trusted_keyids=set(KEYIDS.values()))
    assert report.ok
    assert (report.kind, report.model) == ("ContractBundle", "fraud_detector")
    assert report.digest == DOCUMENT.digest
    assert isinstance(report.payload, ContractDocument)
    assert [finding.level for finding in report.findings] == ["ok"] * 4


def test_keys_that_nobody_vouches_for_are_a_warning() -> None:
    report = verify_bundle(make_contract())
    assert report.ok
    assert [f.code for f in report.findings if f.level == "warning"] == ["keys_not_compared"]


def test_a_key_that_is_not_trusted_is_a_fault() -> None:
    trusted = {KEYIDS["sre"], KEYIDS["data_scientist"]}
    assert codes(make_contract(), trusted_keyids=trusted) == {"key_not_trusted"}
    assert codes(make_contract(), trusted_keyids=set()) == {"key_not_trusted"}


def test_a_seat_signed_by_another_seat_s_key_is_a_fault() -> None:
    swapped = {**KEYIDS, "sre": KEYIDS["business_owner"]}
    assert verify_bundle(make_contract(), seat_keyids=KEYIDS).ok
    assert codes(make_contract(), seat_keyids=swapped) == {"wrong_seat_key"}


@pytest.mark.parametrize("missing", SEATS)
def test_a_seat_that_has_not_signed_is_a_fault(missing: str) -> None:
    present = tuple(seat for seat in SEATS if seat != missing)
    report = verify_bundle(make_contract(present))
    assert [finding.code for finding in report.faults] == ["seat_missing"]
    assert missing in report.faults[0].text


def test_revoked_keys_are_told_apart_by_time() -> None:
    bundle = json.loads(make_contract())
    seat = bundle["seats"]["sre"]
    seat["revoked_at"] = "2026-05-02T12:00:00Z"
    later = verify_bundle(json.dumps(bundle).encode(), trusted_keyids=set(KEYIDS.values()))
    assert later.ok
    assert [f.code for f in later.findings if f.level == "warning"] == ["key_revoked_later"]
    seat["revoked_at"] = seat["signed_at"]
    assert codes(json.dumps(bundle).encode()) == {"signed_after_revocation"}
    assert codes(make_contract(), revoked_keyids={KEYIDS["sre"]}) == {"key_revoked"}


def other_document() -> bytes:
    changed = body()
    changed["objectives"][0]["threshold_ms"] = 8000
    return canonical_bytes(changed)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def replace_payload(bundle: dict[str, Any]) -> None:
    bundle["payload"] = b64(other_document())


def replace_payload_everywhere(bundle: dict[str, Any]) -> None:
    bundle["payload"] = bundle["envelope"]["payload"] = b64(other_document())


def swap_two_seats_keys(bundle: dict[str, Any]) -> None:
    seats = bundle["seats"]
    seats["sre"]["keyid"] = seats["business_owner"]["keyid"]


def swap_key_material(bundle: dict[str, Any]) -> None:
    bundle["keys"][KEYIDS["sre"]] = public_key_of(STRANGER).pem


def sign_as_stranger(bundle: dict[str, Any]) -> None:
    stranger = public_key_of(STRANGER)
    bundle["keys"][stranger.key_id] = stranger.pem
    bundle["seats"]["sre"]["keyid"] = stranger.key_id


def forge_signature(bundle: dict[str, Any]) -> None:
    forged = dsse.sign(STRANGER, dsse.CONTRACT_PAYLOAD_TYPE, DOCUMENT.canonical).to_dict()
    for signature in bundle["envelope"]["signatures"]:
        if signature["keyid"] == KEYIDS["sre"]:
            signature["sig"] = forged["signatures"][0]["sig"]


def one_person_twice(bundle: dict[str, Any]) -> None:
    bundle["seats"]["sre"]["user"] = "dana"


def not_canonical(bundle: dict[str, Any]) -> None:
    spaced = json.dumps(body()).encode()
    bundle["payload"] = bundle["envelope"]["payload"] = b64(spaced)


TAMPERINGS: list[tuple[Callable[[dict[str, Any]], Any], set[str]]] = [
    (replace_payload, {"payload_mismatch"}),
    (replace_payload_everywhere, {"signature_invalid"}),
    (swap_two_seats_keys, {"one_key_twice"}),
    (swap_key_material, {"key_id_mismatch", "key_missing"}),
    (sign_as_stranger, {"signature_by_other_key"}),
    (forge_signature, {"signature_invalid"}),
    (one_person_twice, {"one_person_twice"}),
    (not_canonical, {"payload_not_canonical", "signature_invalid"}),
    (lambda b: b.update(payloadType="text/plain"), {"payload_type_mismatch", "payload_mismatch"}),
    (lambda b: b.update(model="other_model"), {"model_mismatch"}),
    (lambda b: b.update(apiVersion="covenant/v9"), {"unknown_version"}),
    (lambda b: b.update(extra=1), {"unknown_field"}),
    (lambda b: b.update(kind="Something"), {"not_a_bundle"}),
    (lambda b: b.update(payload="***"), {"payload_unreadable"}),
    (lambda b: b.pop("payload"), {"payload_unreadable"}),
    (lambda b: b.update(payload=b64(b"{}")), {"payload_invalid", "payload_mismatch"}),
    (lambda b: b.pop("envelope"), {"envelope_unreadable"}),
    (lambda b: b.update(keys={}), {"key_missing"}),
    (lambda b: b["keys"].update({KEYIDS["sre"]: "junk"}), {"key_unreadable", "key_missing"}),
    (lambda b: b["seats"].update(auditor=b["seats"]["sre"]), {"unknown_seat"}),
    (lambda b: b["seats"]["sre"].update(signed_at="yesterday"), {"signer_unreadable"}),
    (lambda b: b["seats"]["sre"].update(note="x"), {"signer_unreadable"}),
    (lambda b: b["seats"].update(sre=None), {"signer_unreadable"}),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "expected"), TAMPERINGS)
def test_a_tampered_bundle_does_not_hold(
    tamper: Callable[[dict[str, Any]], Any], expected: set[str]
) -> None:
    bundle = json.loads(make_contract())
    tamper(bundle)
    found = codes(json.dumps(bundle).encode())
    assert expected <= found
    assert not verify_bundle(json.dumps(bundle).encode()).ok


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'{"kind": 1}', b"\xff", b'{"a":1,"a":2}'])
def test_what_is_no_bundle_is_reported_not_raised(data: bytes) -> None:
    assert not verify_bundle(data).ok


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = [at] if at else []
    for name, item in items if isinstance(value, dict | list) else ():
        found += places(item, (*at, name)) if isinstance(item, dict | list) else [(*at, name)]
    return found


NOT_SIGNED = {"revision", "issued", "user", "signed_at", "role", "requested_by"}


@pytest.mark.parametrize("make", [make_contract, lambda: make_release(contract=make_contract())])
@pytest.mark.parametrize("value", [None, [], {}, 5, "x", True, ["x"], {"x": []}])
def test_no_place_of_a_bundle_can_be_anything_else(make: Callable[[], bytes], value: Any) -> None:
    """Whatever stands in whatever place: a report, and only what nobody signs may differ."""
    for place in places(json.loads(make())):
        bundle = json.loads(make())
        holder = bundle
        for name in place[:-1]:
            holder = holder[name]
        if holder[place[-1]] == value:
            continue
        holder[place[-1]] = value
        report = verify_bundle(json.dumps(bundle).encode())
        optional = (place, value) in [(("contract",), None), (("approvals",), [])]
        assert not report.ok or optional or place[-1] in NOT_SIGNED, (place, value)


@pytest.mark.parametrize(("said", "found"), [(3, set()), (4, {"revision_mismatch"})])
def test_a_document_that_names_its_revision_holds_the_bundle_to_it(
    said: int, found: set[str]
) -> None:
    payload = canonical_bytes({**json.loads(DOCUMENT.canonical), "revision": 3})
    bundle = contract_bundle(
        model="fraud_detector",
        revision=said,
        payload=payload,
        envelopes=[dsse.sign(KEYS[seat], dsse.CONTRACT_PAYLOAD_TYPE, payload) for seat in SEATS],
        seats=[signer(seat) for seat in SEATS],
        keys=[PUBLIC[seat] for seat in SEATS],
        issued=NOW,
    )
    assert codes(bundle) == found


def test_a_signature_that_belongs_to_nobody_is_mentioned() -> None:
    bundle = json.loads(make_contract())
    extra = dsse.sign(STRANGER, dsse.CONTRACT_PAYLOAD_TYPE, DOCUMENT.canonical).to_dict()
    bundle["envelope"]["signatures"] += extra["signatures"]
    report = verify_bundle(json.dumps(bundle).encode(), trusted_keyids=set(KEYIDS.values()))
    assert report.ok
    assert "signature_of_nobody" in {finding.code for finding in report.findings}


def test_a_bundle_is_not_made_of_signatures_over_other_bytes() -> None:
    other = dsse.sign(KEYS["sre"], dsse.CONTRACT_PAYLOAD_TYPE, other_document())
    with pytest.raises(Invalid) as refusal:
        contract_bundle(
            model="fraud_detector",
            revision=1,
            payload=DOCUMENT.canonical,
            envelopes=[other],
            seats=[signer("sre")],
            keys=[PUBLIC["sre"]],
            issued=NOW,
        )
    assert refusal.value.code == "payload_mismatch"


FOUND = {name: digest(name.encode()) for name in ("source", "onnx", "config", "report")}


def test_a_release_holds_with_its_files_and_its_contract() -> None:
    report = verify_bundle(
        make_release(contract=make_contract()),
        trusted_keyids=set(KEYIDS.values()),
        files={**FOUND, "contract": DOCUMENT.digest},
        required_approvals=["sre"],
        require_contract=True,
    )
    assert report.ok, report.faults
    assert report.payload == RELEASE


@pytest.mark.parametrize("name", list(FOUND))
def test_a_file_that_differs_from_what_was_signed_is_a_fault(name: str) -> None:
    files = {**FOUND, name: digest(b"something else")}
    assert codes(make_release(), files=files) == {"digest_mismatch"}


def test_a_file_that_nothing_is_signed_about_is_a_fault() -> None:
    assert codes(make_release(), files={"weights": digest(b"x")}) == {"file_not_signed"}
    without = replace(RELEASE, digests=replace(RELEASE.digests, contract=None))
    assert codes(make_release(without), files={"contract": digest(b"x")}) == {"file_not_signed"}


def test_a_release_without_what_its_environment_asks_for_is_a_fault() -> None:
    assert codes(make_release(), required_approvals=["business_owner"]) == {"approval_missing"}
    assert codes(make_release(), require_contract=True) == {"contract_missing"}
    unsigned = make_release(roles=())
    assert verify_bundle(unsigned).ok
    assert "not_signed" in {finding.code for finding in verify_bundle(unsigned).findings}
    assert codes(unsigned, required_approvals=["sre"]) == {"approval_missing"}


def test_a_release_with_another_contract_than_it_names_is_a_fault() -> None:
    other = replace(RELEASE, digests=replace(RELEASE.digests, contract=digest(b"other")))
    assert codes(make_release(other, contract=make_contract())) == {"contract_mismatch"}
    half_signed = make_contract(("sre", "data_scientist"))
    assert codes(make_release(contract=half_signed)) == {"seat_missing"}
    model = replace(RELEASE, model="other_model")
    assert codes(make_release(model, contract=make_contract())) == {"model_mismatch"}


def test_an_approval_of_one_release_does_not_count_for_another() -> None:
    bundle = json.loads(make_release())
    later = replace(RELEASE, version=5, requested_at=NOW + timedelta(hours=1))
    payload = b64(release_payload.canonical(later))
    bundle["payload"] = bundle["envelope"]["payload"] = payload
    assert codes(json.dumps(bundle).encode()) == {"signature_invalid"}


def test_a_release_document_is_read_back_as_it_was() -> None:
    data = release_payload.canonical(RELEASE)
    assert release_payload.parse(data) == RELEASE
    local = RELEASE.requested_at.astimezone().replace(microsecond=5)
    assert (
        release_payload.parse(
            release_payload.canonical(replace(RELEASE, requested_at=local))
        ).requested_at
        == local
    )


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"extra": 1}, "/extra"),
        ({"version": 0}, "/version"),
        ({"version": True}, "/version"),
        ({"version": "4"}, "/version"),
        ({"model": "Fraud"}, "/model"),
        ({"kind": "ServiceContract"}, "/kind"),
        ({"apiVersion": "covenant/v2"}, "/apiVersion"),
        ({"environment": "a b"}, "/environment"),
        ({"requested_at": "2026-05-01T12:00:00+02:00"}, "/requested_at"),
        ({"requested_at": "2026-13-01T12:00:00Z"}, "/requested_at"),
        ({"requested_by": ""}, "/requested_by"),
        ({"digests": {}}, "/digests"),
        ({"digests": {**body(), "onnx": "x"}}, "/digests"),
    ],
)
def test_a_wrong_release_document_is_refused_with_the_place(
    change: dict[str, Any], pointer: str
) -> None:
    document = {**json.loads(release_payload.canonical(RELEASE)), **change}
    with pytest.raises(Invalid) as refusal:
        release_payload.parse(canonical_bytes(document))
    assert refusal.value.code == "invalid_release"
    assert [error.pointer for error in refusal.value.errors] == [pointer]


def test_a_digest_in_a_release_is_complete() -> None:
    document = json.loads(release_payload.canonical(RELEASE))
    document["digests"]["onnx"] = None
    with pytest.raises(Invalid) as refusal:
        release_payload.parse(canonical_bytes(document))
    assert refusal.value.errors[0].pointer == "/digests/onnx"
    naive = replace(RELEASE, requested_at=datetime(2026, 5, 1))  # noqa: DTZ001
    with pytest.raises(Invalid, match="time zone"):
        release_payload.canonical(naive)


def test_a_release_document_in_another_spelling_is_refused() -> None:
    document = json.loads(release_payload.canonical(RELEASE))
    with pytest.raises(Invalid, match="canonical form"):
        release_payload.parse(json.dumps(document, indent=1).encode())


def test_trust_is_read_from_the_command_line() -> None:
    keyid = KEYIDS["sre"]
    assert offline.read_trust([]).keyids is None
    trust = offline.read_trust([f"sre={keyid}", f"sha256:{KEYIDS['data_scientist'].upper()}"])
    assert trust.keyids == {keyid, KEYIDS["data_scientist"]}
    assert trust.seats == {"sre": keyid}
    for wrong in (f"boss={keyid}", "abc", f"sre={keyid[:-1]}"):
        with pytest.raises(Invalid):
            offline.read_trust([wrong])


def test_offline_verification_says_what_it_found(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"onnx")
    bundle = make_release(contract=make_contract())
    trust = KEYIDS.values()
    good = offline.verify(bundle, trust=trust, files={"onnx": model})
    assert good.ok
    assert "The bundle holds. sha256:" in offline.report_words(good)
    model.write_bytes(b"something else")
    bad = offline.verify(bundle, trust=trust, files={"onnx": model})
    assert "FAULT   The onnx file is sha256:" in offline.report_words(bad)
    assert offline.report_json(bad)["ok"] is False


def test_only_what_is_understood_is_signed() -> None:
    key = KEYS["sre"]
    release = release_payload.canonical(RELEASE)
    for kind, payload in (
        (dsse.CONTRACT_PAYLOAD_TYPE, DOCUMENT.canonical),
        (dsse.RELEASE_PAYLOAD_TYPE, release),
    ):
        dsse.verify(offline.sign_payload(key, kind, payload), PUBLIC["sre"])
    for kind, payload in (
        (dsse.CONTRACT_PAYLOAD_TYPE, release),
        (dsse.RELEASE_PAYLOAD_TYPE, DOCUMENT.canonical),
        (dsse.CONTRACT_PAYLOAD_TYPE, json.dumps(body()).encode()),
        ("text/plain", b"anything"),
    ):
        with pytest.raises(Invalid):
            offline.sign_payload(key, kind, payload)


def test_verifying_needs_no_server_and_no_django(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_bytes(make_contract())
    program = (
        "import sys, pathlib\n"
        "from deployments.cli import offline\n"
        "report = offline.verify(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "assert report.ok, report.faults\n"
        "print(sorted(m for m in ('django', 'celery', 'psycopg', 'redis') if m in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "bundle.json")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.strip() == "[]", done.stderr
