"""`covenant gateways`, against a real web server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from console.services.tokens import create_token
from deployments.models import Gateway
from tests.deployments.conftest import Fleet
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_command_line_lists_adds_exports_and_removes(
    fleet_rows: Fleet,
    run: Run,
    live_server: LiveServer,
    tmp_path: Path,
) -> None:
    _, token = create_token(name="test", scopes=["read", "write", "operate"], actor=fleet_rows.sam)
    assert run("--url", live_server.url, "--token", token, "login").code == 0
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"parent": {"name": "public"}, "namespace": "models"}))
    added = run(
        "gateways", "add", "cluster-a", "https://10.0.0.1:6443", "--product", "kubernetes",
        "--listen", "staging=10.0.0.2:80,https://staging.example.com", "--options", str(options),
    )  # fmt: skip
    assert added.code == 0, added.err
    listed = run("gateways", "list", "--json").body["results"]
    assert [one["adapter"] for one in listed] == ["kubernetes", "envoy"]
    assert "HTTPRoute has no rate limits." in run("gateways", "show", "cluster-a").out
    assert run("gateways", "export", "cluster-a").code == 0
    assert run("gateways", "export", "embedded").code == 1
    assert run("gateways", "add", "x", "http://x", "--listen", "staging").code == 2
    assert run("gateways", "remove", "cluster-a", "--reason", "gone").code == 0
    assert not Gateway.objects.filter(name="cluster-a").exists()
