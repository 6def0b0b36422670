"""`covenant keys` against a real web server, and exported keys as what a verifier trusts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pytest_django.live_server_helper import LiveServer

from console.models import SigningKey
from console.rules.key_export import from_jwks
from console.rules.signing_keys import create_private_key
from console.services.keys import revoke_key
from console.services.tokens import create_token
from deployments.cli.main import main
from models_registry.models import ContractSignature
from models_registry.services.contracts import contract_bundle
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)
PASSPHRASE = "a long passphrase"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is typed when a passphrase is asked for."""
    answers = [PASSPHRASE]
    monkeypatch.setattr("click.prompt", lambda *_, **__: answers[-1])
    return answers


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    live_server: LiveServer,
    typed: list[str],
) -> Callable[..., tuple[int, str, str]]:
    """Runs `covenant` as dana; gives the exit code and what was printed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    dana = factories.actor(factories.people().dana)
    _, token = create_token(name="test", scopes=["read", "write", "sign"], actor=dana)
    monkeypatch.setenv("COVENANT_BASE_URL", live_server.url)
    monkeypatch.setenv("COVENANT_TOKEN", token)

    def covenant(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["covenant", *arguments])
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = int(ending.code or 0)
        return (code, *capsys.readouterr())

    return covenant


def test_a_key_is_made_enrolled_replaced_exported_and_revoked(run: Any, tmp_path: Path) -> None:
    old, new = tmp_path / "old.pem", tmp_path / "new.pem"
    assert run("keys", "create", str(old))[0] == 0
    code, out, err = run("keys", "enrol", str(old), "--name", "laptop", "--days", "90", "--json")
    assert code == 0, err
    first = json.loads(out)
    assert (first["origin"], first["state"]) == ("cli", "active")
    code, out, err = run("keys", "rotate", str(old), str(new), "--name", "new laptop", "--json")
    assert code == 0, err
    assert json.loads(out)["replaces"] == first["keyid"]
    assert new.stat().st_mode & 0o777 == 0o600
    code, out, _ = run("keys", "list")
    assert "replaced" in out
    assert "new laptop" in out
    # Once is enough: the old file vouches for nobody any more.
    code, _, err = run("keys", "rotate", str(old), str(tmp_path / "third.pem"))
    assert (code, "vouch" in err) == (1, True)
    code, out, err = run(
        "keys", "revoke", SigningKey.objects.get(name="new laptop").keyid,
        "--kind", "lost", "--reason", "left in a train", "--yes",
    )  # fmt: skip
    assert code == 0, err
    assert SigningKey.objects.get(name="new laptop").revocation == "lost"
    code, out, _ = run("keys", "export")
    assert {key.revocation for key in from_jwks(out)} == {"replaced", "lost"}
    code, out, _ = run("keys", "export", "--format", "pem", "--person", "dana")
    assert out.count("BEGIN PUBLIC KEY") == 2


def test_a_key_file_is_opened_only_when_it_is_its_owner_s_alone(
    run: Any, tmp_path: Path, typed: list[str]
) -> None:
    file = tmp_path / "key.pem"
    typed.append("short")
    code, _, err = run("keys", "create", str(file))
    assert (code, "fewer than 8" in err, file.exists()) == (1, True, False)
    typed.append(PASSPHRASE)
    run("keys", "create", str(file))
    assert run("keys", "create", str(file))[0] == 2
    enrol = ("keys", "enrol", str(file), "--name", "x")
    typed.append("another passphrase")
    code, _, err = run(*enrol)
    assert (code, "the passphrase is wrong" in err) == (1, True)
    typed.append(PASSPHRASE)
    file.chmod(0o644)
    code, _, err = run(*enrol)
    assert code == 1
    assert "0644" in err
    assert "chmod 600" in err
    file.chmod(0o600)
    assert run(*enrol)[0] == 0
    code, _, err = run(*enrol)
    assert (code, "enrolled already" in err) == (1, True)


def test_a_key_file_without_a_passphrase_is_refused(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "bare.pem"
    key = create_private_key()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    code, _, err = run("keys", "enrol", str(file), "--name", "x")
    assert (code, "not protected by a passphrase" in err) == (1, True)


def test_exported_keys_are_what_a_verifier_trusts(run: Any, tmp_path: Path) -> None:
    contract = factories.make_contract(factories.make_model())
    bundle, keys = tmp_path / "bundle.json", tmp_path / "keys.jwks.json"
    bundle.write_bytes(contract_bundle(contract))
    assert run("keys", "export", "-o", str(keys))[0] == 0
    code, out, _ = run("contract", "verify", str(bundle), "--keys", str(keys))
    assert (code, "not compared" in out) == (0, False)
    # A set without one of the keys: that signature counts for nothing.
    written = json.loads(keys.read_text())
    fewer = tmp_path / "fewer.json"
    fewer.write_text(json.dumps({"keys": written["keys"][1:]}))
    code, out, _ = run("contract", "verify", str(bundle), "--keys", str(fewer))
    assert (code, "not among those you trust" in out) == (4, True)
    # By a newer set the old bundle is known to rest on a compromised key.
    signature = ContractSignature.objects.select_related("key", "signer").first()
    assert signature is not None
    revoke_key(
        key_id=signature.key.keyid,
        reason="x",
        kind="compromised",
        doubted_from=signature.signed_at,
        actor=factories.actor(signature.signer),
    )
    run("keys", "export", "-o", str(keys))
    code, out, _ = run("contract", "verify", str(bundle), "--keys", str(keys))
    assert (code, "compromised before it signed" in out) == (4, True)
    # And a set that says that the keys are other people's.
    swapped = json.loads(keys.read_text())
    for key in swapped["keys"]:
        key["owner"] = "mallory"
    keys.write_text(json.dumps(swapped))
    code, out, _ = run("contract", "verify", str(bundle), "--keys", str(keys))
    assert (code, "mallory's" in out) == (4, True)
    keys.write_text("no keys")
    assert run("contract", "verify", str(bundle), "--keys", str(keys))[0] == 1
