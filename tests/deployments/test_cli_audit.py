"""`covenant audit`: the trail taken home as a file, and checked there without a server."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from console.services import installation_key
from console.services.audit_checkpoints import make_checkpoint
from console.services.tokens import create_token
from tests import factories
from tests.console.audit_writing import NOON, write
from tests.deployments.test_cli import Run
from tests.deployments.test_cli import run as run

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_export_is_verified_offline_with_the_installations_key(
    run: Run, live_server: LiveServer, tmp_path: Path
) -> None:
    persons = factories.people()
    write(persons.ada, 5)
    make_checkpoint(actor=factories.actor(persons.ada), now=NOON)
    _, token = create_token(name="ci", scopes=["read"], actor=factories.actor(persons.ada))
    key = tmp_path / "installation.pem"
    key.write_text(installation_key.public_key().pem)
    there = ("--url", live_server.url, "--token", token)

    whole = tmp_path / "audit.jsonl.gz"
    made = run(*there, "--json", "audit", "export", "-o", str(whole), "--gz")
    assert (made.code, made.body["bytes"]) == (0, whole.stat().st_size)
    checked = run("--json", "audit", "verify", str(whole), "--key", str(key))
    assert (checked.code, checked.body["ok"], checked.body["checkpoints"]) == (0, True, 1)
    assert checked.body["entries"] == 7

    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(gzip.decompress(whole.read_bytes()).replace(b"thing 2", b"thing X"))
    broken = run("audit", "verify", str(changed), "--key", str(key))
    assert broken.code == 4
    assert "#3 edited" in broken.err
    unsure = run("audit", "verify", str(whole))
    assert unsure.code == 4
    assert "Without --key" in unsure.err
    cut = tmp_path / "cut.gz"
    cut.write_bytes(whole.read_bytes()[:-40])
    assert run("audit", "verify", str(cut), "--key", str(key)).code == 4

    sheet = tmp_path / "audit.csv"
    asked = ("--as", "csv", "--bom", "--action", "test.")
    assert run(*there, "audit", "export", "-o", str(sheet), *asked).code == 0
    assert len(sheet.read_text(encoding="utf-8-sig").splitlines()) == 6
    assert run(*there, "audit", "export", "-o", str(sheet), "--from", "never").code == 1
