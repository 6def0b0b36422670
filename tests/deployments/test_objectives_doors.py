from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from click.testing import CliRunner, Result
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from console.services.tokens import create_token
from deployments.cli.main import cli
from deployments.models import Endpoint, Exclusion, MaintenanceWindow, MinuteRollup
from deployments.rules.objectives.spans import floor_minute
from tests import factories

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 12, 0, 30, tzinfo=UTC)
ENDPOINT = "/api/v1/endpoints/production/fraud_detector/"


@pytest.fixture
def endpoint() -> Endpoint:
    model = factories.make_model()
    factories.make_contract(model)
    return Endpoint.objects.create(model=model, environment=factories.make_environment())


def api(name: str) -> APIClient:
    client = APIClient()
    client.force_login(getattr(factories.people(), name))
    return client


def test_objectives_say_budgets_and_burns(endpoint: Endpoint) -> None:
    MinuteRollup.objects.create(
        endpoint=endpoint,
        version=1,
        minute=floor_minute(NOW),
        requests=1000,
        provider_faults=20,
        bounds_ms=[80.0],
        buckets=[1000, 0],
    )
    with time_machine.travel(NOW, tick=False):
        body = api("vic").get(f"{ENDPOINT}objectives/").json()
    latency, availability = body
    assert (latency["name"], latency["threshold_ms"], latency["state"]) == ("latency", 80, "kept")
    assert (availability["attained"], availability["budget_left"]) == (98, -19)
    assert availability["minutes"]["bad"] == 1
    assert availability["minutes"]["total"] == pytest.approx(40.32)
    first = availability["burns"][0]
    assert (first["severity"], first["long_s"], first["short_s"]) == ("P1", 3600, 300)
    assert (first["factor"], first["long_rate"], first["firing"]) == (13.44, 20, True)


def test_maintenance_and_exclusions_by_the_api(endpoint: Endpoint) -> None:
    span = {"starts_at": "2026-03-21T02:00:00Z", "ends_at": "2026-03-21T03:00:00Z"}
    with time_machine.travel(NOW, tick=False):
        made = api("sam").post(
            f"{ENDPOINT}maintenance-windows/", {**span, "reason": "Disks"}, format="json"
        )
        assert made.status_code == 201
        path = f"/api/v1/maintenance-windows/{made.json()['id']}/"
        for name in ("dana", "bea"):
            body = api(name).post(f"{path}agree/").json()
        assert body["state"] == "agreed"
        assert [word["seat"] for word in body["agreements"]] == [
            "sre",
            "data_scientist",
            "business_owner",
        ]
        wrong = api("sam").post(
            f"{ENDPOINT}exclusions/",
            {**span, "reason": "Network", "evidence": "Report"},
            format="json",
        )
        assert (wrong.status_code, wrong.json()["code"]) == (422, "exclusion_not_over")
        assert wrong.json()["errors"][0]["pointer"] == "/ends_at"
        past = {"starts_at": "2026-03-19T02:00:00Z", "ends_at": "2026-03-19T03:00:00Z"}
        made = api("sam").post(
            f"{ENDPOINT}exclusions/",
            {**past, "reason": "Network", "evidence": "Report"},
            format="json",
        )
        assert made.status_code == 201
        assert made.json()["evidence"] == "Report"
    listed = api("vic").get("/api/v1/maintenance-windows/?state=agreed&model=fraud_detector")
    assert [one["id"] for one in listed.json()["results"]] == [body["id"]]
    assert api("vic").get("/api/v1/exclusions/?state=agreed").json()["results"] == []
    assert api("vic").get("/api/v1/exclusions/?environment=production").json()["results"]
    assert api("vic").post(f"{path}agree/").status_code == 403


@pytest.mark.django_db(transaction=True)
def test_three_people_agree_on_the_command_line(
    endpoint: Endpoint, live_server: LiveServer
) -> None:
    tokens = {
        name: create_token(name="cli", scopes=["read", "write"], actor=factories.actor(person))[1]
        for name, person in vars_of(factories.people()).items()
    }

    def run(name: str, *words: str) -> Result:
        env = {"COVENANT_BASE_URL": live_server.url, "COVENANT_TOKEN": tokens[name]}
        return CliRunner().invoke(cli, list(words), env=env, catch_exceptions=False)

    start = floor_minute(datetime.now(UTC)) + timedelta(days=1)
    times = [f"{start:%Y-%m-%dT%H:%M}", "--to", f"{start + timedelta(hours=1):%Y-%m-%dT%H:%M}"]
    place = "production/fraud_detector"
    made = run("sam", "maintenance", "propose", place, "--from", *times, "--reason", "Disks")
    assert "is proposed (agreed: sre)" in made.output
    window = str(MaintenanceWindow.objects.get().pk)
    run("dana", "maintenance", "agree", window)
    assert "is agreed" in run("bea", "maintenance", "agree", window).output
    assert "ENDPOINT" in run("vic", "maintenance", "list").output
    assert window in run("vic", "maintenance", "list", "--json").output
    assert "availability: 99.9 %" in run("vic", "objectives", place).output
    taken = run("bea", "maintenance", "withdraw", window, "--reason", "Postponed")
    assert "is withdrawn" in taken.output
    assert run("vic", "exclusions", "list").exit_code == 0
    past = [f"{start - timedelta(days=2):%Y-%m-%dT%H:%M}", "--to"]
    past.append(f"{start - timedelta(days=2) + timedelta(minutes=5):%Y-%m-%dT%H:%M}")
    why = ["--reason", "Network", "--evidence", "Report"]
    said = run("sam", "exclusions", "propose", place, "--from", *past, *why).output
    assert "availability: no requests (no_data) while it counts" in said
    exclusion = str(Exclusion.objects.get().pk)
    assert run("vic", "exclusions", "show", exclusion).output == said
    MinuteRollup.objects.create(
        endpoint=endpoint,
        version=1,
        minute=floor_minute(datetime.now(UTC)) - timedelta(minutes=1),
        requests=5000,
        provider_faults=23,
    )
    budgets = run("vic", "objectives", place).output
    assert "requests: overspent by 18 requests (5 may be bad)" in budgets
    words = " ".join(run("vic", "sla", "show", place).output.split())
    assert "overspent by" in words
    assert "99.54 %" in words
    assert "overspent by 360 %" in " ".join(run("vic", "sla", "list").output.split())


def vars_of(people: factories.People) -> dict[str, Any]:
    return {name: getattr(people, name) for name in ("dana", "sam", "bea", "vic")}
