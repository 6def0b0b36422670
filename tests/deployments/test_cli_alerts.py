"""`covenant alerts`, `silences` and `alert-rules`, against a real web server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from console.services.tokens import create_token
from deployments.models import Alert, AlertRule, Silence
from tests.deployments.conftest import Fleet
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)
LATENCY = {"conditions": [{"signal": "latency_p99_ms", "op": ">", "threshold": 80}]}


def test_the_command_line_sees_to_alerts_silences_them_and_decides_rules(
    fleet_rows: Fleet,
    run: Run,
    live_server: LiveServer,
    tmp_path: Path,
) -> None:
    _, token = create_token(name="test", scopes=["read", "write", "operate"], actor=fleet_rows.sam)
    assert run("--url", live_server.url, "--token", token, "login").code == 0
    now = timezone.now()
    alert = Alert.objects.create(
        rule_name="node-lost",
        severity="P2",
        state="firing",
        node=fleet_rows.node,
        signal="node_lost",
        title="The node does not answer",
        value=1,
        threshold=0,
        started_at=now,
        fired_at=now,
        seen_at=now,
        fingerprint="one",
        group_key="node local",
    )
    assert "firing" in run("alerts", "list").out
    listed = run("alerts", "list", "--json").body["results"]
    assert [one["title"] for one in listed] == ["The node does not answer"]
    assert run("alerts", "ack", str(alert.pk), "--note", "On my way.").code == 0
    assert "On my way." in run("alerts", "show", str(alert.pk)).out
    assert run("alerts", "ack", "no-id").code != 0
    made = run(
        "silences", "create", "--rule", "node-lost", "--for", "2h", "--reason", "Moved.", "--json"
    )
    assert made.code == 0, made.err
    assert run("silences", "create", "--for", "2 years", "--rule", "x", "--reason", "x").code == 2
    assert "Moved." in run("silences", "list").out
    assert run("silences", "end", made.body["id"]).code == 0
    assert Silence.objects.get().ended_at is not None
    path = tmp_path / "rule.json"
    path.write_text(json.dumps(LATENCY), encoding="utf-8")
    new = ("alert-rules", "set", "slow", "--title", "Slow", "--severity", "P2", "--new")
    assert run(*new).code == 2
    assert run(*new, "--file", str(path)).code == 0
    assert run(*new, "--file", str(path)).code == 1
    assert run("alert-rules", "set", "slow", "--off", "--reason", "Noisy.").code == 0
    assert AlertRule.objects.get(name="slow").enabled is False
    assert "latency_p99_ms > 80" in run("alert-rules", "show", "slow").out
    assert "slow" in run("alert-rules", "list").out
    assert "would have fired 0 times" in run("alert-rules", "preview", "--file", str(path)).out
    assert "fast_burn" in run("alert-rules", "signals").out
    assert run("alert-rules", "restore", "queue-p95").code == 0
    assert run("alert-rules", "remove", "slow").code == 0
    assert not AlertRule.objects.filter(name="slow").exists()
