"""The pages of error codes, and how errors lead to them."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import Client

from console.rules.error_help import areas, entries, matching
from console.views.error_help import ENDPOINT_ALERTS
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_problem_document_names_the_page_of_its_code(client: Client) -> None:
    client.force_login(factories.people().vic)
    body = client.get("/api/v1/models/nothing/").json()
    assert body["code"] == "not_found"
    assert body["type"] == f"{settings.CONFIG.base_url}/help/errors/not_found/"
    page = client.get("/help/errors/not_found/")
    assert page.status_code == 200
    assert "What it means" in page.content.decode()


def test_an_alert_is_not_said_to_be_an_answer_of_the_api(client: Client) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/help/errors/alert_success_rate/").content.decode()
    assert "By an alert of that name" in page
    assert "As code of an answer of the API" not in page
    assert 'href="/endpoints/">endpoint</a>' in page
    own = "/help/errors/alert_success_rate/?endpoint=production/fraud_detector"
    page = client.get(own).content.decode()
    assert 'href="/endpoints/production/fraud_detector/causes/"' in page
    assert 'href="/endpoints/production/fraud_detector/slow/"' in page
    for odd in ("?endpoint=a/../b", "?endpoint=/", "?endpoint=a/b/c", "?endpoint=é/b"):
        assert client.get(f"/help/errors/alert_success_rate/{odd}").status_code == 200
    node = client.get("/help/errors/alert_node_lost/").content.decode()
    assert "Where its cause is found" not in node
    other = client.get("/help/errors/not_found/").content.decode()
    assert "As code of an answer of the API" in other


def test_where_the_codes_of_an_area_stop_is_said(client: Client) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/help/errors/alert_success_rate/").content.decode()
    total = len(matching("", "alerts")) - 1
    assert f"12 of {total} are shown." in page
    assert 'href="/help/errors/?area=alerts">All of this area' in page
    small = min(areas(), key=lambda name: len(matching("", name)))
    few = matching("", small)
    if len(few) <= 13:
        assert "are shown." not in client.get(f"/help/errors/{few[0].code}/").content.decode()


def test_alerts_about_endpoints_have_entries() -> None:
    assert set(entries()) >= ENDPOINT_ALERTS


def test_the_list_is_searched(client: Client) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/help/errors/?q=disk+full").content.decode()
    assert "disk_full" in page
    assert "bad_token" not in page
    area = client.get("/help/errors/?area=audit").content.decode()
    assert "audit_chain_broken" in area
    assert "disk_full" not in area
    assert "No code matches" in client.get("/help/errors/?q=zzzz").content.decode()


def test_what_no_entry_explains_is_not_there(client: Client) -> None:
    client.force_login(factories.people().vic)
    assert client.get("/help/errors/nothing_of_the_kind/").status_code == 404


def test_who_reads_another_language_is_told(client: Client) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/help/errors/disk_full/", headers={"Accept-Language": "zh-hans"})
    assert "The disk has too little room for it." in page.content.decode()


def test_an_error_card_leads_there() -> None:
    error = {"message": "Full.", "hint": "", "code": "disk_full"}
    assert "/help/errors/disk_full/" in render_to_string(
        "components/problem.html", {"error": error}
    )
    other = render_to_string("components/problem.html", {"error": {**error, "code": "Not a code"}})
    assert "/help/errors/" not in other
