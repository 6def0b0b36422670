"""Pages, API and command line of incidents and of rollback policies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from deployments.models import Endpoint, Incident, RollbackPolicy
from deployments.rules.incidents.escalation_state import Phase, Progress, progress_json
from deployments.selectors.incidents.pages import (
    IncidentFilter,
    find_incident,
    incident_list,
    incident_page,
)
from deployments.services.incidents import records as incidents
from deployments.services.incidents import rollback_policies
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.traffic.splits import offer_first_traffic, set_mode, set_split
from models_registry.models import Visibility
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

HERE: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version())
    with transaction.atomic():
        first = offer_first_traffic(Endpoint.objects.get(), 1, fleet_rows.sam)
    assert first is not None
    applied(first)
    applied(
        set_split(
            **HERE, weights={2: 100}, expected_revision=1, reason="New.", actor=fleet_rows.sam
        )
    )
    return fleet_rows


@pytest.fixture
def incident(two: Fleet) -> Incident:
    roll_back(**HERE, reason="It refuses everybody.", actor=two.sam)
    return Incident.objects.get()


def signed_in(username: str) -> Client:
    client = Client()
    client.force_login(getattr(factories.people(), username))
    return client


def test_the_timeline_tells_of_moves_calls_and_people_in_order(
    two: Fleet, incident: Incident
) -> None:
    applied(set_mode(**HERE, mode="fallback", reason="v1 fails too.", actor=two.sam))
    set_mode(**HERE, mode="normal", reason="Well again.", actor=two.sam)
    found = find_incident(incident.pk, user=two.sam.user)
    page = incident_page(found, now=timezone.now())
    kinds = [line.kind for line in page.lines if line.kind != "split"]
    assert kinds == ["opened", "called", "moved", "joined", "moved", "moved", "ended"]
    assert [line.at for line in page.lines] == sorted(line.at for line in page.lines)
    # What led here stands before it, and no split stands twice.
    splits = [line.split.revision for line in page.lines if line.split is not None]
    assert splits == [1, 2, 3, 4, 5]
    effect = next(line for line in page.lines if line.split and line.split.revision == 4)
    assert effect.took_ms == 0.0


def test_the_number_of_queries_of_a_page_does_not_grow(
    two: Fleet, incident: Incident, django_assert_num_queries: Any
) -> None:
    found = find_incident(incident.pk, user=two.sam.user)
    with django_assert_num_queries(4):
        incident_page(found, now=timezone.now())
    for index in range(3):
        incidents.add_event(
            incident=incident, kind="comment", at=timezone.now(), actor=two.sam, message=str(index)
        )
    with django_assert_num_queries(4):
        incident_page(found, now=timezone.now())


def test_a_long_timeline_comes_in_parts_that_miss_nothing(two: Fleet, incident: Incident) -> None:
    began = incident.started_at + timedelta(seconds=1)
    for index in range(130):
        # Three of one moment each, so that a part's edge falls among them.
        incidents.add_event(
            incident=incident,
            kind="comment",
            at=began + timedelta(seconds=index // 3),
            actor=two.sam,
            message=f"line {index}",
        )
    now = began + timedelta(seconds=60)
    every = incident_page(incident, now=now, most=500)
    assert every.earlier is None
    parts, page = [], incident_page(incident, now=now)
    assert len(page.lines) in range(50, 53)
    assert page.lines[-1].message == "line 129"
    while True:
        parts = [*page.lines, *parts]
        if page.earlier is None:
            break
        page = incident_page(incident, now=now, before=page.earlier)
    assert parts == every.lines

    sam = signed_in("sam")
    address = f"/incidents/{incident.pk}/"
    newest = sam.get(address)
    content = newest.content.decode()
    assert content.count("timeline-item") == len(newest.context["lines"]) < 60
    assert "line 129" in content
    assert "line 20<" not in content
    before = sam.get(address + newest.context["earlier_query"]).content.decode()
    assert "line 129" not in before
    assert "The newest lines" in before
    assert sam.get(f"{address}?before=yesterday").status_code == 200
    told = sam.get(f"/api/v1{address}").json()
    assert (len(told["timeline"]), told["earlier"]) == (len(every.lines), None)
    assert sam.get(f"/api/v1{address}?before=yesterday").json()["code"] == "invalid_time"


def test_the_list_filters_and_hides_what_one_may_not_see(two: Fleet, incident: Incident) -> None:
    sam = two.sam.user
    assert list(incident_list(IncidentFilter(state="unresolved"), user=sam)) == [incident]
    assert not incident_list(IncidentFilter(severity="P1"), user=sam)
    assert not incident_list(IncidentFilter(environment="staging"), user=sam)
    incident.endpoint.model.visibility = Visibility.TEAM
    incident.endpoint.model.save()
    stranger = factories.make_user("stranger", "data_scientist")
    assert not incident_list(IncidentFilter(), user=stranger)


def test_an_empty_list_says_what_incidents_are(two: Fleet) -> None:
    page = signed_in("vic").get("/incidents/").content.decode()
    assert "No incident yet" in page


def test_pages_show_an_incident_and_lead_through_its_acts(two: Fleet, incident: Incident) -> None:
    sam = signed_in("sam")
    assert "Rolled back to v1" in sam.get("/incidents/").content.decode()
    page = sam.get(f"/incidents/{incident.pk}/").content.decode()
    assert "It refuses everybody." in page
    assert "from=" in page
    assert "Resolve" in page
    fragment = sam.get(f"/incidents/{incident.pk}/", headers={"HX-Request": "true"})
    assert "<html" not in fragment.content.decode()
    assert "Rolled back to v1" in sam.get("/").content.decode()
    promise = sam.get("/sla/production/fraud_detector/").content.decode()
    assert f"/incidents/{incident.pk}/" in promise
    endpoint = sam.get("/endpoints/production/fraud_detector/").content.decode()
    assert f"/incidents/{incident.pk}/" in endpoint

    sam.post(f"/incidents/{incident.pk}/comments/", {"text": "The node was full."})
    sam.post(f"/incidents/{incident.pk}/resolve/", {"summary": "A bad build."})
    incident.refresh_from_db()
    assert incident.summary == "A bad build."
    closed = sam.get(f"/incidents/{incident.pk}/").content.decode()
    assert "The node was full." in closed
    assert 'data-confirm="resolve"' not in closed


def test_who_may_not_act_sees_no_buttons(two: Fleet, incident: Incident) -> None:
    page = signed_in("vic").get(f"/incidents/{incident.pk}/").content.decode()
    assert 'data-confirm="resolve"' not in page
    assert "data-rollback-key" not in page


def test_the_api_tells_the_timeline_and_takes_acts(two: Fleet, incident: Incident) -> None:
    sam = signed_in("sam")
    listed = sam.get("/api/v1/incidents/?state=unresolved").json()["results"]
    assert [one["title"] for one in listed] == ["Rolled back to v1"]
    shown = sam.get(f"/api/v1/incidents/{incident.pk}/").json()
    assert "moved" in [line["kind"] for line in shown["timeline"]]
    done = sam.post(
        f"/api/v1/incidents/{incident.pk}/resolve/",
        {"summary": "A bad build."},
        content_type="application/json",
    )
    assert done.json()["state"] == "resolved"
    again = sam.post(f"/api/v1/incidents/{incident.pk}/acknowledge/")
    assert (again.status_code, again.json()["code"]) == (409, "incident_resolved")


def test_a_rollback_on_the_page_leads_back_to_where_it_was_asked(two: Fleet) -> None:
    sam = signed_in("sam")
    there = sam.post(
        "/endpoints/production/fraud_detector/rollback/",
        {"reason": "Errors.", "to": "1", "next": "/incidents/"},
    )
    assert there.headers["Location"] == "/incidents/"
    for outside in ("https://example.com/", "//example.com/", ""):
        back = sam.post(
            "/endpoints/production/fraud_detector/rollback/",
            {"reason": "Errors.", "next": outside},
        )
        assert back.headers["Location"] == "/endpoints/production/fraud_detector/"


def test_the_policy_page_says_the_default_and_takes_another(two: Fleet) -> None:
    sam, address = signed_in("sam"), "/endpoints/production/fraud_detector/rollback-policy/"
    page = sam.get(address)
    assert "by hand alone" in page.content.decode()
    form = {name: value for name, value in page.context["form"].initial.items() if value}
    form |= {"automatic": "on", "hold_s": "45", "revision": "0"}
    assert sam.post(address, form).status_code == 302
    row = RollbackPolicy.objects.get()
    assert (row.automatic, row.document["hold_s"], row.revision) == (True, 45, 1)
    refused = sam.post(address, {**form, "probes_percent": "50, 10"})
    assert refused.status_code == 422
    assert "Rising shares" in refused.content.decode()
    stale = sam.post(address, {**form, "hold_s": "46", "revision": "0"}, follow=True)
    assert "is revision 1 by now" in stale.content.decode()
    assert signed_in("vic").post(address, form).status_code == 403


def test_the_policy_is_read_and_written_by_the_api(two: Fleet) -> None:
    sam, address = signed_in("sam"), "/api/v1/endpoints/production/fraud_detector/rollback-policy/"
    found = sam.get(address)
    assert (found.json()["automatic"], found.headers["ETag"]) == (False, '"0"')
    body = {"automatic": True, "document": {"hold_s": 60}}
    assert sam.put(address, body, content_type="application/json").status_code == 428
    put = sam.put(
        address, body, content_type="application/json", headers={"If-Match": '"0"'}
    ).json()
    assert (put["document"]["hold_s"], put["revision"], put["phase"]) == (60, 1, "watching")
    wrong = sam.put(
        address,
        {"automatic": True, "document": {"hold": 60}},
        content_type="application/json",
        headers={"If-Match": "*"},
    )
    assert wrong.json()["errors"][0]["pointer"] == "/hold"


def test_the_endpoint_says_where_it_stands(two: Fleet, incident: Incident) -> None:
    rollback_policies.set_policy(
        **HERE, automatic=True, document={}, expected_revision=None, actor=two.sam
    )
    now = timezone.now()
    sam = signed_in("sam")
    for phase, words in (
        (Phase.HELD, "the return is tried from"),
        (Phase.SETTLING, "Versions answer again"),
        (Phase.HANDED_OVER, "A person has moved the traffic"),
        (Phase.STOPPED, "a person has to decide"),
    ):
        progress = Progress(phase=phase, level=2, since=now - timedelta(seconds=3))
        RollbackPolicy.objects.update(progress={"rule": progress_json(progress)})
        page = sam.get("/endpoints/production/fraud_detector/standing/").content.decode()
        assert words in page
