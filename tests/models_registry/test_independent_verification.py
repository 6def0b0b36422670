"""Real bundles, made by the services, checked by programs that share no code with ours.

The recipes are taken from docs/verification.md as they stand there.
"""

from __future__ import annotations

import base64
import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from console.models import KeyOrigin, SigningKey, User
from console.rules.dsse import CONTRACT_PAYLOAD_TYPE
from console.rules.key_export import KnownKey, to_jwks
from deployments.cli import offline
from models_registry.models import ContractState
from models_registry.rules import contract_document
from models_registry.rules.bundles import contract_bundle
from models_registry.services import contracts
from models_registry.services.release_bundles import release_bundle
from tests import factories
from tests.factories import actor
from tests.models_registry import signing
from tests.passkey_device import Device

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "deploy" / "requirements" / "verify.lock"


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle and the key ids of all who signed it, the contract's seats in their order."""

    text: bytes
    keyids: tuple[str, ...]

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body


def sign_all(*, passkey: bool = False) -> Made:
    """A contract signed by P-256, Ed25519 and P-256 keys; the last may be a passkey."""
    people = factories.people()
    contract = factories.make_contract(factories.make_model(), state=ContractState.PROPOSED)
    payload = bytes(contract.payload)
    envelopes: dict[User, Any] = {}
    for user, p256 in ((people.dana, True), (people.sam, False), (people.bea, True)):
        if passkey and user == people.bea:
            device = Device(count=3)
            enrol_passkey(user, device)
            envelopes[user] = device.sign(CONTRACT_PAYLOAD_TYPE, payload).to_dict()
            continue
        signing.enrol(user, device="verified", p256=p256)
        envelopes[user] = signing.contract_envelope(user, payload, device="verified", p256=p256)
    keyids = []
    for user, envelope in envelopes.items():
        made = contracts.sign_contract(contract=contract, envelope=envelope, actor=actor(user))
        keyids.append(made.key.keyid)
    contract.refresh_from_db()
    assert contract.state == ContractState.IN_FORCE
    return Made(contracts.contract_bundle(contract), tuple(keyids))


def enrol_passkey(user: User, device: Device) -> None:
    public = device.public
    SigningKey.objects.create(
        user=user, name="Phone", keyid=public.key_id, algorithm=public.algorithm,
        origin=KeyOrigin.PASSKEY, public_key_pem=public.pem, rp_id=device.rp_id,
        credential_id="credential-1",
    )  # fmt: skip


@pytest.fixture
def contract(db: None) -> Made:
    return sign_all()


@pytest.fixture
def release(db: None) -> Made:
    made = factories.make_release()
    approval = made.approvals.get()
    return Made(release_bundle(made), (approval.key.keyid,))


def recipe(name: str, kind: str) -> str:
    """The block of the documentation that says what it is."""
    text = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    (block,) = [one for one in text.split(f"```{kind}\n")[1:] if f"# {name} " in one[:60]]
    return block.split("\n```")[0] + "\n"


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=60, check=False,
        **options,
    )  # fmt: skip


@pytest.fixture
def by_openssl(tmp_path: Path) -> Callable[[dict[str, Any], tuple[str, ...]], Any]:
    script = tmp_path / "verify.sh"
    script.write_text(recipe("verify.sh", "sh"), encoding="utf-8")

    def check(bundle: dict[str, Any], keyids: tuple[str, ...]) -> Any:
        file = tmp_path / "bundle.json"
        file.write_text(json.dumps(bundle), encoding="utf-8")
        return run("sh", script, file, *keyids)

    return check


@pytest.fixture
def by_python(tmp_path: Path) -> Callable[[dict[str, Any], tuple[str, ...]], Any]:
    script = tmp_path / "verify.py"
    script.write_text(recipe("verify.py", "python"), encoding="utf-8")

    def check(bundle: dict[str, Any], keyids: tuple[str, ...]) -> Any:
        file = tmp_path / "bundle.json"
        file.write_text(json.dumps(bundle), encoding="utf-8")
        return run(sys.executable, "-I", script, file, *keyids, cwd=tmp_path)

    return check


def tampered(bundle: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The bundle with one thing changed; none of them may verify."""
    changed: dict[str, dict[str, Any]] = {}

    def change(name: str, act: Callable[[dict[str, Any]], object]) -> None:
        changed[name] = copy.deepcopy(bundle)
        act(changed[name])

    first = bundle["envelope"]["signatures"][0]
    payload = base64.b64decode(bundle["payload"])
    other = base64.b64encode(payload.replace(b"fraud", b"freud")).decode()
    sig = bytearray(base64.b64decode(first["sig"]))
    sig[-1] ^= 1

    change("another payload beside the envelope", lambda b: b.update(payload=other))
    change(
        "another payload in both",
        lambda b: (b.update(payload=other), b["envelope"].update(payload=other)),
    )
    change(
        "another type in both",
        lambda b: (b.update(payloadType="x/y"), b["envelope"].update(payloadType="x/y")),
    )
    change(
        "a spoilt signature",
        lambda b: b["envelope"]["signatures"][0].update(sig=base64.b64encode(sig).decode()),
    )
    change("a signature gone", lambda b: b["envelope"]["signatures"].pop(0))
    change(
        "somebody else's key under the name",
        lambda b: b["keys"].update(
            {first["keyid"]: signing.public_key_of(signing.private_key("eve", p256=True)).pem}
        ),
    )
    return changed


@pytest.mark.parametrize("kind", ["contract", "release"])
@pytest.mark.parametrize("way", ["by_openssl", "by_python"])
def test_the_recipes_accept_what_was_signed_and_nothing_else(
    kind: str, way: str, request: pytest.FixtureRequest
) -> None:
    made: Made = request.getfixturevalue(kind)
    check = request.getfixturevalue(way)
    good = check(made.body, made.keyids)
    assert good.returncode == 0, good.stderr
    report = _our_report(made.text)
    assert good.stdout.splitlines()[-1] == f"payload {report['digest']}"
    for name, bundle in tampered(made.body).items():
        assert check(bundle, made.keyids).returncode == 1, name
        assert not _our_report(json.dumps(bundle).encode())["ok"], name
    stranger = signing.public_key_of(signing.private_key("eve")).key_id
    assert check(made.body, (*made.keyids, stranger)).returncode == 1


@pytest.mark.parametrize("way", ["by_openssl", "by_python"])
def test_the_recipes_check_a_passkey_by_hand(
    db: None, settings: Any, way: str, request: pytest.FixtureRequest
) -> None:
    settings.CONFIG = replace(settings.CONFIG, base_url="http://localhost:8000")
    made = sign_all(passkey=True)
    check = request.getfixturevalue(way)
    good = check(made.body, made.keyids)
    assert good.returncode == 0, good.stderr
    passkey = made.keyids[2]

    def spoilt(act: Callable[[dict[str, Any], dict[str, Any]], object]) -> dict[str, Any]:
        bundle = made.body
        (one,) = [s for s in bundle["envelope"]["signatures"] if s["keyid"] == passkey]
        act(bundle, one)
        return bundle

    def without_user(_: dict[str, Any], one: dict[str, Any]) -> None:
        data = bytearray(base64.b64decode(one["webauthn"]["authenticatorData"]))
        data[32] = 1
        one["webauthn"]["authenticatorData"] = base64.b64encode(data).decode()

    def other_challenge(_: dict[str, Any], one: dict[str, Any]) -> None:
        client = json.loads(base64.b64decode(one["webauthn"]["clientDataJSON"]))
        client["challenge"] = "A" * 43
        text = json.dumps(client).encode()
        one["webauthn"]["clientDataJSON"] = base64.b64encode(text).decode()

    for act in (
        without_user,
        other_challenge,
        lambda bundle, _: bundle["passkeys"].update({passkey: "evil.example"}),
        lambda bundle, _: bundle.pop("passkeys"),
        lambda _, one: one.pop("webauthn"),
    ):
        bundle = spoilt(act)
        assert check(bundle, made.keyids).returncode == 1
        assert not _our_report(json.dumps(bundle).encode())["ok"]


@pytest.mark.parametrize("kind", ["contract", "release"])
def test_securesystemslib_verifies_the_envelope(kind: str, request: pytest.FixtureRequest) -> None:
    made: Made = request.getfixturevalue(kind)
    threshold = len(made.keyids)

    def verify(bundle: dict[str, Any]) -> Any:
        keys = [
            SSlibKey.from_crypto(load_pem_public_key(pem.encode()), keyid=keyid)
            for keyid, pem in bundle["keys"].items()
        ]
        return Envelope.from_dict(bundle["envelope"]).verify(keys, threshold=threshold)

    assert set(verify(made.body)) == set(made.keyids)
    changed = tampered(made.body)
    changed.pop("another payload beside the envelope")  # it looks at the envelope alone
    for bundle in changed.values():
        with pytest.raises((VerificationError, ValueError)):
            verify(bundle)


def test_an_empty_environment_verifies_with_twelve_packages_and_no_server(
    contract: Made, tmp_path: Path
) -> None:
    uv = Path(sys.executable).with_name("uv")
    check, bundle = tmp_path / "check", tmp_path / "bundle.json"
    python = check / "bin" / "python"
    assert run(uv, "venv", "-q", "--python", sys.executable, check).returncode == 0
    install = (uv, "pip", "install", "-q", "--python", python, "--require-hashes", "-r", LOCK)
    if run(*install, "--offline").returncode:  # the cache was cleared
        done = run(*install)
        assert done.returncode == 0, done.stderr
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(ROOT / "pyproject.toml", source)
    for package in ("console", "models_registry", "deployments"):
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__", "locale")
        )
    built = run(
        uv, "build", "-q", "--wheel", "--no-build-isolation", "--python", sys.executable,
        "--out-dir", tmp_path, source,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert (
        run(
            uv, "pip", "install", "-q", "--offline", "--no-deps", "--python", python, wheel
        ).returncode
        == 0
    )
    listed = json.loads(run(uv, "pip", "list", "--python", python, "--format", "json").stdout)
    assert len(listed) == 13  # with ours
    assert not {"django", "psycopg", "httpx"} & {one["name"] for one in listed}

    bundle.write_bytes(contract.text)
    trust = [
        f"--trust={seat}={keyid}"
        for seat, keyid in zip(factories.SEATS, contract.keyids, strict=True)
    ]
    # No variable, no home, no working directory of ours.
    alone: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin"}, "cwd": tmp_path}
    covenant = check / "bin" / "covenant"
    good = run(covenant, "verify", bundle, *trust, "--json", **alone)
    assert good.returncode == 0, good.stderr
    report = json.loads(good.stdout)
    assert (report["ok"], report["kind"]) == (True, "ContractBundle")
    assert {one["level"] for one in report["findings"]} == {"ok"}
    for text, arguments, code in (
        (json.dumps(tampered(contract.body)["a spoilt signature"]), (), 4),
        ("{", (), 4),
        (contract.text.decode(), ("--trust", "0" * 64), 4),
        (contract.text.decode(), ("--trust", "dana"), 2),
        (contract.text.decode(), ("--nonsense",), 2),
    ):
        bundle.write_text(text, encoding="utf-8")
        ended = run(covenant, "verify", bundle, *arguments, **alone)
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_key_set_and_the_day_say_what_a_bundle_cannot(contract: Made) -> None:
    now = datetime(2026, 7, 1, tzinfo=UTC)
    known = [
        KnownKey(signing.public_key_of(signing.private_key("dana", device="verified", p256=True))),
        KnownKey(
            signing.public_key_of(signing.private_key("sam", device="verified")),
            owner="sam",
            revoked_at=now - timedelta(days=400),
        ),
    ]
    report = offline.verify(contract.text, key_set=to_jwks(known, now).encode(), now=now)
    # The third key is not in the set, and no other is trusted.
    faults = {finding.code for finding in report.faults}
    assert faults == {"signed_after_revocation", "key_not_trusted"}
    assert "expired" not in {finding.code for finding in report.findings}
    body = contract_document.load(json.dumps(factories.contract_body(valid_until="2026-06-30")))
    unsigned = contract_bundle(
        model="fraud_detector", revision=1, payload=body.canonical, envelopes=(), seats=(),
        keys=(), issued=now,
    )  # fmt: skip
    for day, told in ((now - timedelta(seconds=1), False), (now, True)):
        found = offline.verify(unsigned, now=day).findings
        assert ("expired" in {finding.code for finding in found}) is told


def _our_report(text: bytes) -> dict[str, Any]:
    return offline.report_json(offline.verify(text))
