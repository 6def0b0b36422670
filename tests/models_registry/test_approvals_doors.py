"""Policies, freezes and broken glass by the API, on pages and on the command line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from django.utils import timezone

from console.models import AuditEntry
from deployments.cli.main import cli
from models_registry.models import Environment, FreezeWindow, Release, ReleaseState
from models_registry.selectors.releases import reviews_due
from tests import factories
from tests.factories import PASSWORD, People
from tests.models_registry import signing
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db
REASON = "Fraud attack since 02:10; v1 lets every tenth case through."
REVIEW = "Justified: losses of 12 k an hour. The load test is made up for."
ROWS = {"rule-TOTAL_FORMS": "1", "rule-INITIAL_FORMS": "0"}


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def people(quick_passwords) -> People:
    return factories.people(password=PASSWORD)


@pytest.fixture
def release(people: People) -> Release:
    release = factories.make_release(state=ReleaseState.PROPOSED)
    Environment.objects.update(break_glass_roles=["platform_admin"])
    return release


def test_a_release_says_each_condition_by_the_api(people: People, release: Release) -> None:
    path = f"/models/fraud_detector/releases/{release.pk}/"
    found = Caller(people.vic).get(path).json()
    assert [(one["code"], one["met"]) for one in found["conditions"]] == [
        ("approval_missing", False),
        ("contract_missing", True),
    ]
    assert found["conditions"][0]["sentence"] == (
        "It needs 1 SRE who neither asked for it nor uploaded it."
    )
    assert (found["may_deploy"], found["break_glass"]) == (False, None)
    assert found["required_rules"] == factories.approval_rules("sre")


def test_breaking_the_glass_and_its_review_by_the_api(people: People, release: Release) -> None:
    base = f"/models/fraud_detector/releases/{release.pk}"
    signing.enrol(people.ada)
    ada, sam, dana = (Caller(user) for user in (people.ada, people.sam, people.dana))
    body = {
        "envelope": signing.release_envelope(people.ada, release.payload),
        "reason": REASON,
        "password": PASSWORD,
    }
    for caller, change, status, code in (
        (dana, {}, 403, "not_allowed"),
        (sam, {}, 403, "role_missing"),
        (ada, {"reason": "now!"}, 422, "reason_missing"),
        (ada, {"password": ""}, 422, "confirmation_needed"),
        (ada, {"envelope": {}}, 422, None),
    ):
        answer = caller.post(f"{base}/break-glass/", {**body, **change})
        assert answer.status_code == status, answer.content
        if code:
            assert answer.json()["code"] == code
    made = ada.post(f"{base}/break-glass/", body)
    assert made.status_code == 201, made.content
    glass = made.json()["break_glass"]
    assert (glass["person"], glass["reviewed_by"]) == ("ada", None)
    assert [one["code"] for one in glass["waived"]] == ["approval_missing"]
    assert made.json()["may_deploy"] is True
    assert made.json()["conditions"][0]["waived"] is True
    assert list(reviews_due(people.sam)) != []
    assert [r["id"] for r in sam.get("/releases/?broken_glass=open").json()["results"]] == [
        str(release.pk)
    ]
    assert ada.post(f"{base}/review/", {"review": REVIEW}).json()["code"] == "own_break_glass"
    reviewed = sam.post(f"{base}/review/", {"review": REVIEW})
    assert reviewed.json()["break_glass"]["reviewed_by"] == "sam"
    assert sam.get("/releases/?broken_glass=open").json()["results"] == []
    assert len(sam.get("/releases/?broken_glass=yes").json()["results"]) == 1
    assert sam.get("/releases/?broken_glass=no").json()["results"] == []


def test_a_policy_is_set_previewed_and_described_by_the_api(
    people: People, release: Release
) -> None:
    ada, sam = Caller(people.ada), Caller(people.sam)
    rules = [{"count": 2, "roles": ["sre"], "seats": [], "not": ["uploader"]}]
    preview = ada.post("/environments/production/policy-preview/", {"approval_rules": rules})
    assert preview.status_code == 200, preview.content
    told = preview.json()
    assert told["policy"] == ["2 SREs who did not upload it"]
    assert told["impossible"] == ["It would ask for 2 SREs, and there is only 1 at present."]
    assert told["weaker"] == [
        "It does not ask for 1 SRE who neither asked for it nor uploaded it any more, only 2 SREs "
        "who did not upload it."
    ]
    assert told["releases"][0]["missing"][0] == "It needs 2 SREs who did not upload it."
    assert Environment.objects.get().approval_rules == factories.approval_rules("sre")
    assert sam.post("/environments/production/policy-preview/", {}).status_code == 403
    changed = ada.patch(
        "/environments/production/", {"approval_rules": rules, "approval_valid_days": 7}
    ).json()
    assert (changed["approval_rules"], changed["approver_roles"]) == (rules, ["sre"])
    assert (changed["author_may_approve"], changed["approval_valid_days"]) == (True, 7)
    assert changed["policy"] == ["2 SREs who did not upload it"]
    without_end = ada.patch("/environments/production/", {"approval_valid_days": None}).json()
    assert without_end["approval_valid_days"] is None
    refused = ada.patch("/environments/production/", {"approval_rules": [{"count": 99}]})
    assert refused.status_code == 422
    assert {fault["pointer"] for fault in refused.json()["errors"]} >= {
        "/approval_rules/0/count",
        "/approval_rules/0",
    }
    schema = sam.get("/approval-policy-schema/").json()
    assert schema["properties"]["approval_rules"]["items"]["required"] == ["count"]


def test_freezes_by_the_api(people: People, release: Release) -> None:
    sam, dana = Caller(people.sam), Caller(people.dana)
    now = timezone.now()
    body = {
        "name": "Quarter end",
        "starts_at": (now - timedelta(hours=1)).isoformat(),
        "ends_at": (now + timedelta(hours=1)).isoformat(),
        "reason": "quarter end",
    }
    path = "/environments/production/freezes/"
    assert dana.post(path, body).status_code == 403
    made = sam.post(path, body)
    assert made.status_code == 201, made.content
    assert sam.post(path, body).json()["id"] == made.json()["id"]
    assert sam.post(path, {**body, "ends_at": body["starts_at"]}).json()["code"] == "bad_freeze"
    assert dana.get("/environments/production/").json()["frozen_until"] is not None
    conditions = dana.get(f"/models/fraud_detector/releases/{release.pk}/").json()["conditions"]
    assert conditions[-1]["code"] == "environment_frozen"
    lift = f"{path}{made.json()['id']}/lift/"
    assert dana.post(lift, {"reason": "x"}).status_code == 403
    assert sam.post(lift, {"reason": "books closed"}).json()["lifted_at"] is not None
    assert dana.get("/environments/production/").json()["frozen_until"] is None
    assert len(dana.get(path).json()["results"]) == 1


def test_the_release_page_offers_the_glass_to_whom_it_concerns(
    people: People, release: Release
) -> None:
    url = f"/releases/{release.pk}/"
    ada, sam = Visitor(people.ada), Visitor(people.sam)
    assert "Emergency: release against the policy" not in sam.get(url)
    assert f"{url}break-glass/" in ada.get(url).forms
    signing.enrol(people.ada)
    envelope = json.dumps(signing.release_envelope(people.ada, release.payload))
    refused = ada.post(
        f"{url}break-glass/", {"envelope": envelope, "reason": REASON, "password": "wrong"}
    )
    assert refused.status == 422
    assert "not your password" in refused
    given = {"envelope": envelope, "reason": REASON, "password": PASSWORD}
    assert ada.post(f"{url}break-glass/", given).status == 302
    shown = sam.get(url)
    for words in ("Released against the policy", REASON, "Not reviewed yet", "Waived"):
        assert words in shown, words
    assert f"{url}review/" in shown.forms
    assert f"{url}review/" not in ada.get(url).forms
    assert sam.post(f"{url}review/", {"review": "ok"}).status == 422
    assert sam.post(f"{url}review/", {"review": REVIEW}).status == 302
    assert REVIEW in ada.get(url)
    assert "against the policy" in sam.get("/models/fraud_detector/")
    listed = sam.get("/releases/?broken_glass=yes")
    assert url in listed.links
    assert url not in sam.get("/releases/?broken_glass=no").links
    assert url not in sam.get("/releases/?state=proposed").links


def test_the_policy_form_keeps_rules_as_rows_and_previews_them(
    people: People, release: Release
) -> None:
    ada = Visitor(people.ada)
    url = "/environments/production/"
    page = ada.get(f"{url}change/")
    assert "Who may release against this policy, in an emergency" in page
    sent = {
        **ROWS,
        "rule-0-count": "1",
        "rule-0-roles": ["sre"],
        "requires_contract": "on",
        "break_glass_roles": ["sre"],
        "approval_valid_days": "30",
    }
    preview = ada.post(f"{url}preview/", sent)
    assert "It would be weaker than now" in preview
    assert "fraud_detector v1" in preview
    more = ada.post(f"{url}preview/", {**sent, "add": "1"})
    assert "Rule 2" in more
    assert Environment.objects.get().approval_valid_days is None
    bad = ada.post(
        f"{url}change/", {**sent, "rule-0-roles": [], "rule-0-seats": ["sre"], "rule-0-count": "3"}
    )
    assert bad.status == 422
    assert "is more than the 1 people in these seats" in bad
    assert ada.post(f"{url}change/", sent).address == "/settings/environments/"
    environment = Environment.objects.get()
    assert environment.approval_rules == [{"count": 1, "roles": ["sre"], "seats": [], "not": []}]
    assert (environment.approval_valid_days, environment.break_glass_roles) == (30, ["sre"])
    left_out = {**sent, "rule-0-DELETE": "on"}
    assert ada.post(f"{url}change/", left_out).status == 302
    assert Environment.objects.get().approval_rules == []
    assert AuditEntry.objects.filter(action="environment.change").count() == 2
    assert "In an emergency, may release against it: SRE" in ada.get("/environments/panel/")


def test_freezing_by_the_page(people: People, release: Release) -> None:
    sam = Visitor(people.sam)
    url = "/environments/production/freeze/"
    now = timezone.now()
    sent = {
        "name": "Quarter end",
        "starts_at": f"{now - timedelta(hours=2):%Y-%m-%dT%H:%M}",
        "ends_at": f"{now + timedelta(hours=2):%Y-%m-%dT%H:%M}",
        "reason": "quarter end",
    }
    assert sam.post(url, {**sent, "ends_at": sent["starts_at"]}).status == 422
    assert sam.post(url, sent).status == 302
    assert "Nothing new is deployed until" in sam.get(url)
    assert "production is frozen" in sam.get(f"/releases/{release.pk}/")
    assert "production is frozen until" in sam.get("/")
    window = FreezeWindow.objects.get()
    lift = f"/environments/production/freezes/{window.pk}/lift/"
    assert sam.post(lift, {"reason": "books closed"}).status == 302
    assert "None is running and none is planned." in sam.get(url)
    assert Visitor(people.dana).get(url).status == 403


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["release", "--help"], "break-glass"),
        (["release", "break-glass", "--help"], "--reason"),
        (["release", "review", "--help"], "--text"),
        (["freeze", "set", "--help"], "--weekly"),
    ],
)
def test_the_command_line_says_what_there_is(args: list[str], words: str) -> None:
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0
    assert words in result.output


def test_asking_by_the_command_line_needs_no_word_for_it(tmp_path: Path) -> None:
    options = ["--url", "http://127.0.0.1:9", "--token", "x"]
    for words in (["release"], ["release", "ask"]):
        result = CliRunner().invoke(cli, [*options, *words, "fraud_detector", "1", "production"])
        assert "cannot be reached" in str(result.exception)
