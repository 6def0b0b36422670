"""A contract's bundle checked by OpenSSL's own commands, with nothing of ours."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

from tests.models_registry.test_bundles import PUBLIC, SEATS, make_contract


def test_openssl_verifies_a_bundle_by_its_own_commands(tmp_path: Path) -> None:
    """The PAE rebuilt by hand, P-256 and Ed25519; docs/verification.md has it as a recipe."""
    bundle = json.loads(make_contract())
    payload = base64.b64decode(bundle["payload"])
    kind = bundle["payloadType"]
    message = b"DSSEv1 %d %s %d " % (len(kind), kind.encode(), len(payload)) + payload
    (tmp_path / "message").write_bytes(message)
    for seat in SEATS:
        keyid = bundle["seats"][seat]["keyid"]
        (tmp_path / "key.pem").write_text(bundle["keys"][keyid])
        signatures = {s["keyid"]: s["sig"] for s in bundle["envelope"]["signatures"]}
        (tmp_path / "sig").write_bytes(base64.b64decode(signatures[keyid]))
        digest_option = [] if PUBLIC[seat].algorithm == "ed25519" else ["-digest", "sha256"]
        command = [
            "openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem",
            "-rawin", "-in", "message", "-sigfile", "sig", *digest_option,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Signature Verified Successfully" in done.stdout
