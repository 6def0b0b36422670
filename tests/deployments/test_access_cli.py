"""`covenant access` and `covenant callers` against a real web server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from console.services.tokens import create_token
from deployments.models import AccessPolicy, CallerKey
from deployments.rules.access.caller_keys import digest_of
from tests import factories
from tests.deployments.conftest import Fleet, ready_version
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "production/fraud_detector"


def test_a_policy_and_a_key_from_the_command_line(
    fleet_rows: Fleet,
    run: Run,
    live_server: LiveServer,
    tmp_path: Path,
) -> None:
    ready_version(fleet_rows, factories.make_version())
    scopes = ["read", "write", "operate"]
    _, token = create_token(name="test", scopes=scopes, actor=fleet_rows.sam)
    assert run("--url", live_server.url, "--token", token, "login").code == 0
    assert "no access policy" in run("access", "show", HERE).out

    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"authentication": {"required": True}}))
    refused = run("access", "set", HERE, str(file), "--reason", "Names.")
    assert refused.code == 1
    assert "/authentication/required" in refused.err
    file.write_text(json.dumps({"authentication": {"required": True, "api_key": True}}))
    made = run("access", "set", HERE, str(file), "--reason", "Names.", "--json")
    assert made.code == 0, made.err
    assert made.body["revision"] == 1
    stale = run("access", "set", HERE, str(file), "--reason", "x", "--revision", "7")
    assert stale.code == 0, "the same again is there already"
    assert AccessPolicy.objects.get().revision == 1

    assert run("callers", "create", "production", "billing").code == 0
    key = run("callers", "key", "production", "billing", "--days", "30")
    assert key.code == 0, key.err
    stored = CallerKey.objects.get()
    assert digest_of(key.out.strip()) == stored.digest
    assert stored.prefix in run("callers", "list", "production").out
    assert run("callers", "block", "production", "billing", "--reason", "x").code == 0
    assert "blocked" in run("callers", "list", "production").out
    assert run("callers", "unblock", "production", "billing").code == 0
    gone = run("callers", "revoke", "production", "billing", stored.prefix)
    assert gone.code == 0, gone.err
    stored.refresh_from_db()
    assert stored.revoked_at is not None
    assert run("callers", "key", "production", "nobody").code == 1
