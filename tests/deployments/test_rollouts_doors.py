"""Rollouts by the API and the command line, over HTTP as a client sends it."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from django.db import connections
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from console.services.tokens import create_token
from deployments.cli.client import CliError
from deployments.cli.main import cli
from deployments.models import Endpoint, Node, NodeState
from deployments.services.rollouts.engine import tick
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

PLAN = "steps:\n  - set_weight: 10\n  - pause: {}\nanalysis: false\n"


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    model = factories.make_model("doors_of_rollouts")
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    applied(
        set_split(
            environment="production",
            model=model.name,
            weights={1: 100},
            expected_revision=None,
            reason="a start",
            actor=fleet_rows.sam,
        )
    )
    return Endpoint.objects.get(model=model)


def client(username: str = "sam") -> APIClient:
    found = APIClient()
    found.force_login(getattr(factories.people(), username))
    return found


def path(endpoint: Endpoint, *parts: object) -> str:
    return "/".join(["/api/v1/endpoints", str(endpoint), "rollouts", *map(str, parts), ""])


@pytest.mark.django_db
def test_a_rollout_over_the_api(endpoint: Endpoint) -> None:
    sam = client()
    body = {"version": 2, "plan": PLAN, "reason": "the next model"}
    made = sam.post(path(endpoint), body, format="json", HTTP_IDEMPOTENCY_KEY="once")
    assert made.status_code == 201
    rollout = made.json()
    assert (rollout["state"], rollout["step"], rollout["steps"], rollout["weight"]) == (
        "running",
        1,
        3,
        10.0,
    )
    assert [one["kind"] for one in rollout["plan_steps"]] == ["set_weight", "pause", "set_weight"]
    assert rollout["plan_steps"][0]["began_at"]
    again = sam.post(path(endpoint), body, format="json", HTTP_IDEMPOTENCY_KEY="once")
    assert again.json()["id"] == rollout["id"]
    for act, state in (("pause", "paused"), ("resume", "running"), ("skip", "running")):
        answer = sam.post(path(endpoint, rollout["id"], act), {}, format="json")
        assert (answer.status_code, answer.json()["state"]) == (200, state)
    assert sam.post(path(endpoint, rollout["id"], "abort"), {}, format="json").status_code == 422
    ended = sam.post(path(endpoint, rollout["id"], "abort"), {"reason": "no"}, format="json").json()
    assert ended["state"] == "aborted"
    assert [one["kind"] for one in ended["events"]] == [
        "started", "weight", "paused", "resumed", "skipped", "aborted",
    ]  # fmt: skip
    assert ended["events"][-1]["actor"] == "sam"
    late = sam.post(path(endpoint, rollout["id"], "promote"), {"reason": "x"}, format="json")
    assert (late.status_code, late.json()["code"]) == (409, "rollout_ended")


@pytest.mark.django_db
def test_lists_and_what_is_refused(endpoint: Endpoint) -> None:
    sam = client()
    bad = sam.post(
        path(endpoint), {"version": 2, "reason": "x", "plan": {"steps": [{}]}}, format="json"
    )
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid_rollout_plan")
    assert "/steps/0" in {one["pointer"] for one in bad.json()["errors"]}
    assert (
        client("dana")
        .post(path(endpoint), {"version": 2, "reason": "x"}, format="json")
        .status_code
        == 403
    )
    assert sam.get(path(endpoint, uuid.uuid4())).status_code == 404
    made = sam.post(path(endpoint), {"version": 2, "reason": "x"}, format="json").json()
    assert [one["id"] for one in sam.get("/api/v1/rollouts/?state=active").json()["results"]] == [
        made["id"]
    ]
    assert sam.get("/api/v1/rollouts/?state=ended").json()["results"] == []
    assert len(sam.get(path(endpoint)).json()["results"]) == 1
    other = sam.get(f"/api/v1/endpoints/staging/doors_of_rollouts/rollouts/{made['id']}/")
    assert other.status_code == 404


@pytest.mark.django_db(transaction=True)
def test_the_command_line_waits_and_fails_as_a_gate(
    endpoint: Endpoint, live_server: LiveServer, tmp_path: Path
) -> None:
    sam = factories.actor(factories.people().sam)
    _, token = create_token(name="cli", scopes=["read", "operate"], actor=sam)

    def run(*arguments: str) -> Any:
        options = ["--url", live_server.url, "--token", token, "--json"]
        done = CliRunner().invoke(cli, [*options, "rollout", *arguments], standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return json.loads(done.stdout)

    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    where = str(endpoint)
    made = run("start", where, "2", "--plan", str(plan), "--reason", "the next model")
    assert made["state"] == "running"
    assert run("pause", where)["state"] == "paused"
    assert run("resume", where)["state"] == "running"
    assert run("show", where)["id"] == made["id"]
    assert [one["id"] for one in run("list")["results"]] == [made["id"]]
    assert run("abort", where, "--reason", "no")["state"] == "aborted"
    with pytest.raises(CliError) as nothing:
        run("pause", where)
    assert nothing.value.exit_code == 2
    # The version's node is lost while the command waits: the gate fails.
    lost = threading.Timer(1.0, _lose_the_node)
    lost.start()
    with pytest.raises(CliError) as gate:
        run("start", where, "2", "--plan", str(plan), "--reason", "again", "--wait")
    lost.join()
    assert gate.value.exit_code == 4
    assert "No node has the new version ready" in gate.value.message


def _lose_the_node() -> None:
    try:
        Node.objects.update(state=NodeState.LOST)
        tick(timezone.now() + timedelta(seconds=5))
    finally:
        connections.close_all()
