"""Channels, routes, escalations and on-call schedules by pages, by the API and by the CLI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import AuditEntry, User
from console.services.tokens import create_token
from deployments.cli.main import cli
from deployments.models import (
    AlertChannel,
    AlertDelivery,
    AlertRoute,
    EscalationPolicy,
    OnCallOverride,
    OnCallSchedule,
)
from deployments.selectors.alerts.calendar import calendar, on_call_now
from deployments.services.alerts.schedules import facts
from tests import factories
from tests.deployments import vendors

pytestmark = pytest.mark.django_db
PAGES = (
    "/settings/alert-channels/",
    "/settings/alert-channels/?kind=sms",
    "/settings/alert-routes/",
    "/settings/alert-routes/urgent/",
    "/settings/escalations/",
    "/settings/escalations/default/",
    "/settings/alert-deliveries/",
    "/settings/new-on-call/",
)
SCHEDULE = {
    "title": "First line",
    "time_zone": "Europe/Berlin",
    "covers": "everything",
    "layers": [{"people": ["sam", "ann"], "starts_on": "2026-01-05", "handover": "09:00"}],
}


@pytest.fixture(autouse=True)
def persons(settings: Any) -> factories.People:
    cache.clear()
    settings.PRIVATE_ADDRESSES = (ip_network("127.0.0.0/8"),)
    factories.make_user("ann", "sre")
    return factories.people()


@pytest.fixture
def room() -> Iterator[vendors.Vendor]:
    with vendors.serving(vendors.slack()) as running:
        yield running


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def program(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def test_every_page_opens_for_who_operates_and_for_nobody_else(persons: factories.People) -> None:
    sam, vic = browser(persons.sam), browser(persons.vic)
    for page in PAGES:
        assert sam.get(page).status_code == 200, page
        assert vic.get(page).status_code == 403, page
    assert vic.get("/settings/on-call/").status_code == 200, "who is on call is for everybody"


def test_a_channel_is_made_tried_changed_and_removed_by_pages(
    persons: factories.People, room: vendors.Vendor
) -> None:
    sam = browser(persons.sam)
    wrong = sam.post("/settings/alert-channels/", {"kind": "slack", "name": "ops", "address": "x"})
    assert wrong.status_code == 422
    assert "Use https://host:port" in wrong.content.decode()
    made = sam.post(
        "/settings/alert-channels/",
        {"kind": "slack", "name": "ops", "address": f"{room.address}/services/T/geheim"},
    )
    assert made.status_code == 302
    tried = sam.post("/settings/alert-channels/ops/test/").content.decode()
    assert "200 ok" in tried
    assert "geheim" not in tried
    assert room.got[0]["text"] == "Covenant: a test"
    changed = sam.post("/settings/alert-channels/ops/", {"language": "zh-hans"})
    assert changed.status_code == 302
    sam.post("/settings/alert-channels/ops/test/")
    assert len(room.got) == 2, "its address is still the one that was given"
    sam.post("/settings/alert-channels/ops/switch/", {"enabled": "0"})
    assert AlertChannel.objects.get().enabled is False
    sam.post("/settings/alert-channels/ops/remove/", {"reason": "moved"})
    assert not AlertChannel.objects.exists()
    log = sam.get("/settings/alert-deliveries/").content.decode()
    assert "200 ok" in log, "the log outlives the channel"
    actions = AuditEntry.objects.filter(action__startswith="alert_channel")
    assert {one.action.partition(".")[2] for one in actions} == {
        "create", "test", "change", "remove",
    }  # fmt: skip


def test_a_webhooks_secret_stands_on_the_page_once(persons: factories.People) -> None:
    sam = browser(persons.sam)
    made = sam.post(
        "/settings/alert-channels/",
        {"kind": "webhook", "name": "hook", "address": "https://hooks.example.com/in"},
    )
    assert (made.status_code, "no-cache" in made["Cache-Control"]) == (201, True)
    assert "whsec_" in made.content.decode()
    assert "whsec_" not in sam.get("/settings/alert-channels/hook/").content.decode()
    again = sam.post("/settings/alert-channels/hook/secret/")
    assert "whsec_" in again.content.decode()


def test_a_text_channel_says_at_the_field_what_is_wrong(persons: factories.People) -> None:
    form = {
        "kind": "sms", "name": "texts", "address": "https://sms.example.com/send", "to": "hello",
        "form": '{"to": "{to}", "message": "{text}"}', "content_type": "application/json",
        "header": "Authorization",
    }  # fmt: skip
    answer = browser(persons.sam).post("/settings/alert-channels/", form)
    assert answer.status_code == 422
    assert "is no telephone number" in answer.content.decode()


def test_a_route_and_an_escalation_are_set_by_pages(persons: factories.People) -> None:
    sam = browser(persons.sam)
    steps = {
        "step0-after_minutes": "5", "step0-target": "on_call", "step0-name": "",
        "step1-after_minutes": "15", "step1-target": "person", "step1-name": "ada",
    }  # fmt: skip
    sam.post("/settings/escalations/", {"name": "night", "repeats": "1", **steps})
    policy = EscalationPolicy.objects.get(name="night")
    assert [step.target for step in policy.steps.all()] == ["on_call", "person"]
    route = {"name": "risk", "position": "10", "severities": ["P1"], "people": "call",
             "policy": "night", "enabled": "on", "rule_name": "gpu-*"}  # fmt: skip
    assert sam.post("/settings/alert-routes/", route).status_code == 302
    made = AlertRoute.objects.get(name="risk")
    assert (made.policy, made.severities, made.rule_name) == (policy, ["P1"], "gpu-*")
    stale = {**route, "revision": "7"}
    assert sam.post("/settings/alert-routes/risk/", stale).status_code == 422
    removed = sam.post("/settings/escalations/night/remove/", {"reason": "x"}, follow=True)
    assert "A route escalates by night." in removed.content.decode()
    sam.post("/settings/alert-routes/risk/remove/", {"reason": "x"})
    sam.post("/settings/escalations/night/remove/", {"reason": "x"})
    assert not EscalationPolicy.objects.filter(name="night").exists()


def test_a_schedule_is_set_shown_and_taken_over_by_pages(persons: factories.People) -> None:
    sam = browser(persons.sam)
    form = {
        "name": "first-line", "time_zone": "Europe/Berlin", "covers": "everything",
        "layer0-people": "sam, nobody-here", "layer0-starts_on": "2026-01-05",
        "layer0-handover": "09:00", "layer0-days_each": "7",
    }  # fmt: skip
    wrong = sam.post("/settings/new-on-call/", form)
    assert wrong.status_code == 422
    assert "There is no “nobody-here”." in wrong.content.decode()
    made = sam.post("/settings/new-on-call/", {**form, "layer0-people": "sam ann"})
    assert made.status_code == 302
    page = sam.get("/settings/on-call/first-line/").content.decode()
    assert page.count("on-call-day") == 28
    assert sam.get("/settings/on-call/first-line/?from=2026-10-20").status_code == 200
    assert sam.get("/settings/on-call/first-line/?from=yesterday").status_code == 200
    ends = (timezone.now() + timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M")
    sam.post("/settings/on-call/first-line/take-over/", {"ends_at": ends})
    override = OnCallOverride.objects.get()
    [now] = on_call_now(timezone.now())
    assert (now.now.person, now.now.by) == (persons.sam, "override")
    sam.post(f"/settings/on-call/first-line/overrides/{override.pk}/end/")
    [now] = on_call_now(timezone.now())
    assert now.now.by == "layer"
    same = {**facts(OnCallSchedule.objects.get()), "title": ""}
    sam.post(
        "/settings/on-call/first-line/change/",
        {**form, "layer0-people": "sam, ann", "revision": "1"},
    )
    assert facts(OnCallSchedule.objects.get()) == same
    vic = browser(persons.vic)
    assert vic.post("/settings/on-call/first-line/take-over/", {"ends_at": ends}).status_code == 403
    assert "Take over" not in vic.get("/settings/on-call/first-line/").content.decode()


def test_the_calendar_takes_a_bounded_number_of_queries(persons: factories.People) -> None:
    sam = program(persons.sam)
    for number in range(3):
        sam.put(f"/api/v1/on-call/schedules/s{number}/", {**SCHEDULE, "covers": "named"},
                format="json")  # fmt: skip
    now = timezone.now()
    with CaptureQueriesContext(connection) as queries:
        assert len(on_call_now(now)) == 3
    assert len(queries) <= 7
    with CaptureQueriesContext(connection) as queries:
        calendar(OnCallSchedule.objects.get(name="s1"), start=now.date(), days=28, now=now)
    assert len(queries) <= 6


def test_programs_do_all_of_it(persons: factories.People, room: vendors.Vendor) -> None:
    sam = program(persons.sam)
    made = sam.post(
        "/api/v1/alert-channels/",
        {"name": "ops", "kind": "slack", "address": f"{room.address}/services/geheim"},
        format="json",
    )
    assert made.status_code == 201
    assert "geheim" not in made.content.decode()
    [tried] = sam.post("/api/v1/alert-channels/ops/test/").json()
    assert (tried["state"], tried["answer"]) == ("sent", "200 ok")
    route = sam.put(
        "/api/v1/alert-routes/risk/",
        {"channels": ["ops"], "severities": ["P1"], "people": "call", "policy": "default"},
        format="json",
    )
    assert route.json()["channels"] == ["ops"]
    unknown = sam.put("/api/v1/alert-routes/x/", {"channels": ["nowhere"]}, format="json")
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (422, "/channels")
    stale = {**SCHEDULE, "revision": 4}
    assert sam.put("/api/v1/on-call/schedules/ops/", stale, format="json").status_code == 412
    shown = sam.put("/api/v1/on-call/schedules/ops/", SCHEDULE, format="json").json()
    assert shown["layers"][0]["people"] == ["sam", "ann"]
    second = sam.put("/api/v1/on-call/schedules/other/", SCHEDULE, format="json")
    assert (second.status_code, second.json()["code"]) == (409, "covered_already")
    shifts = sam.get("/api/v1/on-call/schedules/ops/shifts/").json()
    assert {one["person"] for one in shifts} == {"sam", "ann"}
    ends = (timezone.now() + timedelta(hours=2)).isoformat()
    taken = sam.post(
        "/api/v1/on-call/schedules/ops/overrides/",
        {"ends_at": ends, "person": "ada"},
        format="json",
    ).json()
    [now] = program(persons.vic).get("/api/v1/on-call/").json()
    assert (now["now"]["person"], now["now"]["by"]) == ("ada", "override")
    assert sam.delete(f"/api/v1/on-call/overrides/{taken['id']}/").status_code == 204
    assert sam.delete(f"/api/v1/on-call/overrides/{taken['id']}/").status_code == 404
    policy = sam.put(
        "/api/v1/escalations/night/",
        {"steps": [{"after_minutes": 5, "target": "schedule", "name": "ops"}]},
        format="json",
    )
    assert policy.json()["steps"] == [{"after_minutes": 5, "target": "schedule", "name": "ops"}]
    assert sam.delete("/api/v1/on-call/schedules/ops/").json()["code"] == "schedule_in_use"
    assert sam.delete("/api/v1/escalations/night/").status_code == 204
    assert sam.delete("/api/v1/on-call/schedules/ops/").status_code == 204
    page = sam.get("/api/v1/alert-deliveries/?why=test").json()
    assert [one["receiver"] for one in page["results"]] == ["ops"]
    delivery = AlertDelivery.objects.get()
    refused = sam.post(f"/api/v1/alert-deliveries/{delivery.pk}/retry/")
    assert refused.json()["code"] == "delivery_not_retryable"
    for path in ("alert-channels", "alert-routes", "alert-deliveries"):
        assert program(persons.vic).get(f"/api/v1/{path}/").status_code == 403


def test_the_command_line_does_all_of_it(
    live_server: Any, tmp_path: Path, room: vendors.Vendor
) -> None:
    """One way through each command, against the real API."""
    persons = factories.people()
    factories.make_user("ann", "sre")
    token = create_token(
        name="cli", scopes=["read", "operate"], actor=factories.actor(persons.sam)
    )[1]

    def run(*arguments: str, fails: bool = False) -> str:
        result = CliRunner().invoke(
            cli, ["--url", live_server.url, "--token", token, *arguments], catch_exceptions=True
        )
        assert (result.exit_code != 0) is fails, f"{arguments}: {result.output} {result.exception}"
        return result.output

    run("channels", "add", "ops", "--kind", "slack", "--address", f"{room.address}/x")
    assert "whsec_" in run(
        "channels", "add", "hook", "--kind", "webhook", "--address", "https://a.example.com/x"
    )
    assert "ops: sent – 200 ok" in run("channels", "test", "ops")
    assert "whsec_" in run("channels", "rotate", "hook")
    assert "off" in run("channels", "change", "hook", "--off")
    assert "ops" in run("channels", "list")
    route = tmp_path / "route.json"
    route.write_text(json.dumps({"severities": ["P1"], "channels": ["ops"], "people": "nobody"}))
    assert "takes P1" in run("channels", "set-route", "risk", "--file", str(route))
    assert "risk" in run("channels", "routes")
    run("channels", "remove-route", "risk")
    assert "200 ok" in run("channels", "messages", "--why", "test", "--json")
    schedule = tmp_path / "schedule.json"
    schedule.write_text(json.dumps(SCHEDULE))
    run("on-call", "set", "first", "--file", str(schedule))
    until = (timezone.now() + timedelta(hours=3)).isoformat()
    taken = json.loads(run("on-call", "take-over", "first", "--until", until, "--json"))
    assert "sam (takes over)" in run("on-call", "now")
    run("on-call", "give-back", str(taken["id"]))
    assert "ann" in run("on-call", "shifts", "first")
    assert "first" in run("on-call", "schedules")
    steps = tmp_path / "steps.json"
    steps.write_text(json.dumps({"steps": [{"after_minutes": 5, "target": "operators"}]}))
    run("on-call", "set-escalation", "night", "--file", str(steps))
    assert "after 5 min operators" in run("on-call", "escalations")
    run("on-call", "remove-escalation", "night")
    run("on-call", "remove", "first")
    run("channels", "remove", "hook")
    run("channels", "test", "hook", fails=True)
