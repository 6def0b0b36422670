"""`covenant release` and `covenant freeze` against a real web server."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from console.services.tokens import create_token
from models_registry.models import BreakGlass, Environment, FreezeWindow, ReleaseState
from tests import factories
from tests.deployments.test_cli import Run, run  # noqa: F401 - the fixture

pytestmark = pytest.mark.django_db(transaction=True)
SCOPES = ["read", "write", "sign", "operate", "admin"]
REASON = "Fraud attack since 02:10; v1 lets every tenth case through."


def test_from_a_freeze_to_broken_glass_and_its_review(
    run: Run,
    live_server: LiveServer,
    settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    people = factories.people(password=factories.PASSWORD)
    release = factories.make_release(state=ReleaseState.PROPOSED)
    Environment.objects.update(break_glass_roles=["platform_admin"])

    def covenant(user, *arguments: str):
        _, token = create_token(name="cli", scopes=SCOPES, actor=factories.actor(user))
        return run("--url", live_server.url, "--token", token, *arguments)

    now = timezone.now()
    times = ("--from", now.isoformat(), "--until", (now + timedelta(hours=6)).isoformat())
    frozen = covenant(
        people.sam, "freeze", "set", "production", "--name", "Q4", *times, "--reason", "quarter end"
    )
    assert frozen.code == 0, frozen.err
    shown = covenant(people.dana, "release", "show", "fraud_detector", str(release.pk), "--gate")
    assert shown.code == 4
    assert "MISSING  It needs 1 SRE who neither asked for it nor uploaded it." in shown.out
    assert "production is frozen until" in shown.out

    monkeypatch.setattr("click.prompt", lambda *_, **__: "a long passphrase")
    key = tmp_path / "ada.key"
    made = covenant(
        *(people.ada, "keys", "create", str(key), "--enrol", "laptop"),
        *("--password", factories.PASSWORD),
    )
    assert made.code == 0, made.err
    glass = ("release", "break-glass", "fraud_detector", str(release.pk), "--key", str(key))
    refused = covenant(people.ada, *glass, "--reason", "now!", "--password", factories.PASSWORD)
    assert refused.code == 1
    assert "at least 20 characters" in refused.err
    broken = covenant(
        people.ada, *glass, "--reason", REASON, "--password", factories.PASSWORD, "--json"
    )
    assert broken.code == 0, broken.err
    assert json.loads(broken.out)["break_glass"]["person"] == "ada"
    assert "Past: production is frozen until" in broken.err
    listed = covenant(people.sam, "release", "list", "--broken-glass", "open")
    assert "break-glass" in listed.out
    text = "Justified by the losses; the approval is made up for."
    path = ("fraud_detector", str(release.pk), "--text", text)
    assert covenant(people.ada, "release", "review", *path).code == 1
    assert covenant(people.sam, "release", "review", *path).code == 0
    assert BreakGlass.objects.get().review == text
    shown = covenant(people.dana, "release", "show", "fraud_detector", str(release.pk), "--gate")
    assert shown.code == 0
    assert "Reviewed by sam" in shown.out
    window = FreezeWindow.objects.get()
    lifted = covenant(
        people.sam, "freeze", "lift", "production", str(window.pk), "--reason", "books closed"
    )
    assert lifted.code == 0
    assert "quarter end" in covenant(people.dana, "freeze", "list", "production").out
