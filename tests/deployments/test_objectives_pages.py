from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from deployments.models import AgreementState, Endpoint, Exclusion, MaintenanceWindow, MinuteRollup
from deployments.selectors.objectives.pages import set_aside, standings
from tests import factories

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 12, 0, 30, tzinfo=UTC)
PAGE = "/endpoints/production/fraud_detector/objectives/"
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def clock() -> Any:
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def endpoint() -> Endpoint:
    model = factories.make_model()
    factories.make_contract(model)
    return Endpoint.objects.create(model=model, environment=factories.make_environment())


def client(name: str) -> Client:
    found = Client()
    found.force_login(getattr(factories.people(), name))
    return found


def count(endpoint: Endpoint, faults: int) -> None:
    MinuteRollup.objects.bulk_create(
        MinuteRollup(
            endpoint=endpoint,
            version=1,
            minute=NOW.replace(second=0) - index * MINUTE,
            requests=1000,
            provider_faults=faults,
            bounds_ms=[80.0],
            buckets=[1000, 0],
        )
        for index in range(60)
    )


def test_the_page_shows_budgets_in_requests_and_minutes_and_what_burns(endpoint: Endpoint) -> None:
    count(endpoint, 20)
    body = client("vic").get(PAGE).content.decode()
    assert "Burns too fast" in body
    assert "13.44×" in body
    assert "60 minutes below the target of 40.3 that may be" in body
    assert "Propose maintenance" not in body
    latency, availability = standings(endpoint, NOW)
    assert [burn.state for burn in availability.burns] == ["firing", "firing", "firing"]
    assert {burn.state for burn in latency.burns} == {"quiet"}
    fragment = client("vic").get(PAGE, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment
    assert "Burns too fast" in fragment


def test_without_a_contract_it_says_what_to_do() -> None:
    model = factories.make_model()
    Endpoint.objects.create(model=model, environment=factories.make_environment())
    assert "Nothing is promised yet" in client("vic").get(PAGE).content.decode()


def test_three_people_agree_to_maintenance_by_the_page(endpoint: Endpoint) -> None:
    form = {
        "maintenance-starts_at": "2026-03-21T02:00",
        "maintenance-ends_at": "2026-03-21T03:30",
        "maintenance-reason": "New disks.",
    }
    sam = client("sam")
    assert sam.post(f"{PAGE}maintenance/", form).status_code == 302
    window = MaintenanceWindow.objects.get()
    for name in ("dana", "bea"):
        body = client(name).get(PAGE).content.decode()
        assert f"/maintenance-windows/{window.pk}/agree/" in body
        assert client(name).post(f"/maintenance-windows/{window.pk}/agree/").status_code == 302
    window.refresh_from_db()
    assert window.state == AgreementState.AGREED
    body = sam.get(PAGE).content.decode()
    assert f"/maintenance-windows/{window.pk}/agree/" not in body
    withdraw = f"/maintenance-windows/{window.pk}/withdraw/"
    assert withdraw in body
    answer = sam.post(withdraw, {"reason": " "}, follow=True)
    assert "Some words are needed." in answer.content.decode()
    sam.post(withdraw, {"reason": "Postponed."})
    window.refresh_from_db()
    assert window.state == AgreementState.WITHDRAWN


def test_what_is_refused_stands_at_its_field_and_nothing_is_lost(endpoint: Endpoint) -> None:
    form = {
        "maintenance-starts_at": "2026-03-20T02:00",
        "maintenance-ends_at": "2026-03-20T03:30",
        "maintenance-reason": "New disks.",
    }
    answer = client("sam").post(f"{PAGE}maintenance/", form)
    body = answer.content.decode()
    assert answer.status_code == 422
    assert "Maintenance is announced before it begins." in body
    assert "New disks." in body
    answer = client("sam").post(f"{PAGE}exclusions/", {"exclusion-reason": "Network"})
    assert answer.status_code == 422
    assert "Network" in answer.content.decode()
    assert client("vic").post(f"{PAGE}maintenance/", form).status_code == 403


def test_time_that_is_over_is_excluded_by_the_page(endpoint: Endpoint) -> None:
    form = {
        "exclusion-starts_at": "2026-03-20T02:00",
        "exclusion-ends_at": "2026-03-20T03:30",
        "exclusion-reason": "The provider's network was down.",
        "exclusion-evidence": "https://status.example.com/4711",
    }
    assert client("bea").post(f"{PAGE}exclusions/", form).status_code == 302
    exclusion = Exclusion.objects.get()
    for name in ("dana", "sam"):
        client(name).post(f"/exclusions/{exclusion.pk}/agree/")
    _, (shown,) = set_aside(endpoint, NOW, user=factories.people().sam)
    assert (shown.state, shown.minutes, shown.waits_for_me) == ("agreed", 90, False)
    assert [word.person for word in shown.seats] == list(factories.people().seats.values())
    client("sam").post(f"/exclusions/{exclusion.pk}/withdraw/", {"reason": "It was us."})
    exclusion.refresh_from_db()
    assert exclusion.state == AgreementState.WITHDRAWN
    assert "It was us." in client("vic").get(PAGE).content.decode()


def test_the_page_takes_as_many_queries_for_more_rows(
    endpoint: Endpoint, django_assert_num_queries: Any
) -> None:
    user = factories.people().sam

    def add(days: int) -> None:
        for kind, more in ((MaintenanceWindow, {}), (Exclusion, {"evidence": "Ticket"})):
            kind.objects.create(
                endpoint=endpoint,
                starts_at=NOW - timedelta(days=days),
                ends_at=NOW - timedelta(days=days) + MINUTE,
                reason="Disks",
                proposed_by=user,
                proposed_at=NOW,
                **more,
            )

    add(1)
    with django_assert_num_queries(5):
        set_aside(endpoint, NOW, user=user)
    for days in (2, 3, 4):
        add(days)
    with django_assert_num_queries(5):
        set_aside(endpoint, NOW, user=user)
