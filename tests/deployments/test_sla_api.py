from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone, translation
from rest_framework.test import APIClient

from deployments.adapters import live_store
from deployments.documents.sla_words import promise_context
from deployments.models import (
    AgreementState,
    Endpoint,
    Exclusion,
    MaintenanceAgreement,
    MaintenanceWindow,
    MinuteRollup,
)
from deployments.rules.objectives.slo import Promise
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.live_window import LiveWindow, Second, to_point
from deployments.rules.statistics.rollups import Traffic, Work
from deployments.selectors.objectives.burns import burns
from deployments.selectors.objectives.exclusion_effects import exclusion_effects
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import (
    PortfolioFilter,
    month_portfolio,
    sla_list,
)
from deployments.selectors.objectives.sla_types import MonthReport, attained_text
from deployments.selectors.statistics.rollups import traffic_between
from deployments.selectors.traffic.endpoints import endpoint_list
from models_registry.models import ServiceContract
from tests import factories
from tests.deployments.conftest import Fleet

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 14, 12, 0, 30, tzinfo=UTC)
ENDPOINT = "/api/v1/endpoints/production/fraud_detector/"


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    model = factories.make_model()
    factories.make_contract(model)
    return Endpoint.objects.create(model=model, environment=fleet_rows.production)


@pytest.fixture
def vic(fleet_rows: Fleet) -> APIClient:
    client = APIClient()
    client.force_login(factories.people().vic)
    return client


def minute(
    endpoint: Endpoint,
    at: datetime,
    requests: int,
    *,
    faults: int = 0,
    slow: int = 0,
    version: int = 1,
    bounds: tuple[float, ...] = (40.0, 80.0, 160.0),
) -> MinuteRollup:
    buckets = [requests - slow, *(0,) * (len(bounds) - 1), slow]
    return MinuteRollup.objects.create(
        endpoint=endpoint,
        version=version,
        minute=at.replace(second=0),
        requests=requests,
        provider_faults=faults,
        statuses={"2xx": requests - faults, "5xx": faults},
        bounds_ms=list(bounds),
        buckets=buckets,
        inference_count=requests,
        execution_count=max(requests // 2, 1),
        queue_ns=requests * 1_000_000,
        compute_ns=requests * 3_000_000,
    )


def test_a_month_says_what_was_attained_and_what_is_left(
    endpoint: Endpoint, vic: APIClient
) -> None:
    minute(endpoint, NOW - timedelta(days=2), 1000)
    minute(endpoint, NOW - timedelta(days=1), 1000, faults=1, slow=15)
    minute(endpoint, NOW - timedelta(days=40), 1000, faults=900)
    with time_machine.travel(NOW, tick=False):
        body = vic.get(f"{ENDPOINT}sla/?month=2026-02").json()
    objectives = {one["name"]: one for one in body["objectives"]}
    assert body["requests"] == 2000
    assert objectives["availability"]["attained"] == pytest.approx(99.95)
    assert objectives["availability"]["budget_left"] == 1
    assert objectives["latency"]["attained"] == pytest.approx(99.25)
    assert (objectives["latency"]["state"], objectives["latency"]["exact"]) == ("kept", True)
    days = {day["date"]: day["state"] for day in body["days"]}
    assert len(days) == 28
    assert (days["2026-02-12"], days["2026-02-13"]) == ("kept", "broken")
    assert days["2026-02-01"] == "no_data"
    assert body["statuses"] == {"2xx": 1999, "5xx": 1}
    assert body["contract"] == 1


def test_a_month_without_calls_is_no_kept_promise(endpoint: Endpoint, vic: APIClient) -> None:
    body = vic.get(f"{ENDPOINT}sla/").json()
    assert body["state"] == "no_data"
    assert all(one["attained"] is None for one in body["objectives"])
    (row,) = sla_list(NOW, user=factories.people().vic)
    assert (row.state, row.budget_left_share) == ("no_data", None)


def test_the_month_as_csv(endpoint: Endpoint, vic: APIClient) -> None:
    minute(endpoint, NOW - timedelta(days=1), 1000, faults=1)
    with time_machine.travel(NOW, tick=False):
        answer = vic.get(f"{ENDPOINT}sla.csv?month=2026-02")
    assert answer["Content-Type"].startswith("text/csv")
    assert "sla-production-fraud_detector-2026-02.csv" in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(rows) == 28 * 2 + 2
    assert rows[-1]["period"] == "2026-02"
    assert rows[-1]["attained_percent"] == "99.9000"
    assert rows[0]["attained_percent"] == ""
    assert vic.get(f"{ENDPOINT}sla.csv?month=soon").status_code == 422


def test_each_line_of_the_csv_is_of_its_own_objective_and_makes_nothing_good(
    endpoint: Endpoint, vic: APIClient
) -> None:
    """A day of fast failures is no broken promise of latency."""
    minute(endpoint, NOW - timedelta(days=1), 1000, faults=500)
    minute(endpoint, NOW - timedelta(days=2), 1_000_000, faults=1_001, version=2)
    with time_machine.travel(NOW, tick=False):
        answer = vic.get(f"{ENDPOINT}sla.csv?month=2026-02")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    states = {(one["period"], one["objective"]): one["state"] for one in rows}
    assert states["2026-02-13", "availability"] == "broken"
    assert states["2026-02-13", "latency"] == "kept"
    assert states["2026-02-03", "latency"] == "no_data"
    (missed,) = [r for r in rows if (r["period"], r["objective"]) == ("2026-02-12", "availability")]
    assert (missed["attained_percent"], missed["state"]) == ("99.8999", "broken")
    assert attained_text(99.89999, 99.9) == "99.899990"


def test_the_burn_of_the_last_hour_leaves_out_what_the_seats_left_out(endpoint: Endpoint) -> None:
    """As the page of objectives and the alerts do."""
    minute(endpoint, NOW - timedelta(minutes=30), 1000, faults=500)
    minute(endpoint, NOW - timedelta(minutes=10), 1000, faults=1)
    at = (NOW - timedelta(minutes=30)).replace(second=0)
    vic = factories.people().vic
    Exclusion.objects.create(
        endpoint=endpoint,
        starts_at=at,
        ends_at=at + timedelta(minutes=1),
        reason="the network was down",
        state=AgreementState.AGREED,
        proposed_by=vic,
        proposed_at=NOW,
    )
    (row,) = sla_list(NOW, user=vic)
    page = sla(endpoint, "", NOW)
    alert = next(b for b in burns(NOW) if (b.objective, b.severity) == ("availability", "P1"))
    assert alert.long_rate == pytest.approx(1)
    found = [row.objectives[1], page.objectives[1], page.now[1]]
    assert [one.burn_rate for one in found] == [alert.long_rate] * 3


def test_a_past_month_is_judged_by_the_contract_that_held_then_wherever_it_is_read(
    endpoint: Endpoint,
) -> None:
    ServiceContract.objects.update(in_force_at=datetime(2026, 1, 5, tzinfo=UTC))
    minute(endpoint, datetime(2026, 1, 20, tzinfo=UTC), 1000, faults=5)
    stricter = factories.make_contract(
        endpoint.model, objectives=[{"name": "availability", "target": 99.0, "window": "28d"}]
    )
    ServiceContract.objects.filter(pk=stricter.pk).update(
        in_force_at=datetime(2026, 2, 10, tzinfo=UTC)
    )
    for month, target, state in (("2026-01", 99.9, "broken"), ("2026-02", 99.0, "no_data")):
        page = sla(endpoint, month, NOW)
        user = factories.people().vic
        (row,) = month_portfolio(month, NOW, PortfolioFilter(), user=user).rows
        assert row.objectives[-1].target == page.objectives[-1].target == target
        assert (row.state, page.state) == (state, state)
        assert [o.valid for o in row.objectives] == [o.valid for o in page.objectives]


def test_the_list_judges_each_objective_over_its_own_window(endpoint: Endpoint) -> None:
    minute(endpoint, NOW - timedelta(days=27), 1000, faults=2)
    minute(endpoint, NOW - timedelta(days=29), 1_000_000)
    minute(endpoint, NOW - timedelta(minutes=10), 1000, faults=1)
    (row,) = sla_list(NOW, user=factories.people().vic)
    assert row.state == "broken"
    availability = next(one for one in row.objectives if one.name == "availability")
    assert (availability.valid, availability.budget_left) == (2000, -1)
    assert availability.burn_rate == pytest.approx(1)
    assert sla(endpoint, "", NOW).now[1].valid == 2000


def test_buckets_are_summed_in_the_database_across_different_bounds(endpoint: Endpoint) -> None:
    minute(endpoint, NOW, 10, slow=1)
    minute(endpoint, NOW, 5, version=2)
    minute(endpoint, NOW - timedelta(minutes=1), 7, slow=2, bounds=(80.0, 160.0))
    found = traffic_between([endpoint.pk], NOW - timedelta(hours=1), NOW)[endpoint.pk]
    assert found.requests == 22
    assert found.latency == Histogram((80.0, 160.0), (19, 0, 3))


def test_statistics_per_version_with_gaps_where_nothing_was_observed(
    endpoint: Endpoint, vic: APIClient
) -> None:
    minute(endpoint, NOW - timedelta(minutes=3), 60, faults=6, slow=3)
    minute(endpoint, NOW - timedelta(minutes=3), 0, version=0)
    minute(endpoint, NOW - timedelta(minutes=2), 0, version=0)
    with time_machine.travel(NOW, tick=False):
        body = vic.get(
            f"{ENDPOINT}stats/",
            {"from": "2026-02-14T11:56:00Z", "to": "2026-02-14T12:00:00Z", "step": 60},
        ).json()
        assert body["step"] == 60
        (gateway, first) = body["series"]
        assert (gateway["version"], first["version"]) == (0, 1)
        assert first["requests"] == [None, 60, 0, None]
        assert first["statuses"]["5xx"] == [None, 6, 0, None]
        assert first["p50_ms"][1] == pytest.approx(21.05, abs=0.01)
        assert first["queue_ms"][1:3] == [1.0, None]
        chart = vic.get(f"{ENDPOINT}charts/errors/?window=1h").json()
        assert chart["limit"] == {"value": pytest.approx(0.1), "label": "contract"}
        assert [line["name"] for line in chart["series"]] == ["v1"]
        assert 10.0 in chart["series"][0]["y"]
        assert vic.get(f"{ENDPOINT}charts/latency_p99/?window=1h").json()["limit"]["value"] == 80
        lines = vic.get(f"{ENDPOINT}charts/queue_compute/?window=1h").json()["series"]
        assert [line["name"] for line in lines] == ["v1 compute", "v1 queue"]


@pytest.mark.parametrize(
    "query",
    [
        "from=yesterday",
        "to=0001-01-01T00:00:00Z",
        "to=9999-12-31T23:59:59-14:00",
        "step=0",
        "step=x",
        pytest.param("step=" + "9" * 5000, id="step=9…"),
        "from=2026-02-15T00:00:00Z&to=2026-02-14T00:00:00Z",
    ],
)
def test_spans_that_make_no_sense_are_refused(
    endpoint: Endpoint, vic: APIClient, query: str
) -> None:
    assert vic.get(f"{ENDPOINT}stats/?{query}").status_code == 422
    assert vic.get(f"{ENDPOINT}charts/nothing/").status_code == 404
    assert vic.get(f"{ENDPOINT}charts/errors/?window=soon").status_code == 422


def test_the_last_minutes_come_from_the_ring_second_by_second(
    endpoint: Endpoint, vic: APIClient
) -> None:
    now = timezone.now().timestamp()
    key, window, bounds = "production/fraud_detector", LiveWindow(), (40.0, 80.0)
    for back in range(20, 0, -1):
        traffic = Traffic(4, 0, 1, {}, Histogram(bounds, (3, 1, 0)))
        second = Second(now - back, {1: traffic, 0: Traffic()}, {1: Work(4, 2, 400, 800)})
        window.add(second)
        live_store.store({key: window.numbers()}, {key: to_point(second)}, bounds)
    chart = vic.get(f"{ENDPOINT}charts/requests/").json()
    (line,) = chart["series"]
    assert (line["version"], line["unit"]) == (1, "1/s")
    values = [value for value in line["y"] if value is not None]
    assert 3 <= len(values) <= 6
    assert sum(values) * 5 == pytest.approx(80)
    (row,) = endpoint_list(user=factories.people().vic)
    assert (row.error_share, row.requests_per_second) == (0.25, 4.0)
    assert row.p99_ms == pytest.approx(78.4)
    body = vic.get(ENDPOINT).json()
    assert body["live"]["errors_per_second"] == 1.0
    assert body["live"]["versions"]["1"]["batch_size"] == 2.0


def test_lists_take_the_same_number_of_queries_for_more_endpoints(
    endpoint: Endpoint, django_assert_num_queries: Any
) -> None:
    minute(endpoint, NOW, 10)
    user = factories.people().vic
    with django_assert_num_queries(7):
        endpoint_list(user=user)
    for name in ("one", "two_more", "three"):
        model = factories.make_model(name)
        factories.make_contract(model)
        minute(Endpoint.objects.create(model=model, environment=endpoint.environment), NOW, 5)
    with django_assert_num_queries(7):
        assert len(endpoint_list(user=user)) == 4


def test_what_lies_ahead_is_planned_and_only_what_has_passed_is_left_out(
    endpoint: Endpoint,
) -> None:
    minute(endpoint, NOW - timedelta(days=1), 1000)
    begins = NOW.replace(second=0) + timedelta(hours=1)
    window = MaintenanceWindow.objects.create(
        endpoint=endpoint,
        starts_at=begins,
        ends_at=begins + timedelta(minutes=10),
        reason="new disks",
        state=AgreementState.AGREED,
        proposed_by=factories.people().sam,
        proposed_at=NOW,
    )
    MaintenanceAgreement.objects.create(
        window=window, seat="business_owner", person=factories.people().bea, at=NOW
    )
    page = sla(endpoint, "", NOW)
    (planned,) = page.left_out
    assert (planned.state, planned.counted, page.with_everything) == ("planned", None, [])
    context = promise_context(page, NOW)
    assert context["left_out_minutes"] == 0
    assert not any("left out" in line for line in context["told"])
    with translation.override("zh-hans"):
        assert "业务负责人" in planned.seats[0]
    during = begins + timedelta(minutes=3)
    running = sla(endpoint, "", during)
    assert (running.left_out[0].state, running.left_out[0].is_partly) == ("agreed", True)
    assert promise_context(running, during)["left_out_minutes"] == 3
    assert running.with_everything
    after = sla(endpoint, "", begins + timedelta(hours=1))
    assert promise_context(after, during)["left_out_minutes"] == 10
    with time_machine.travel(NOW, tick=False):
        client = Client()
        client.force_login(factories.people().vic)
        body = client.get("/sla/production/fraud_detector/?month=2026-02").content.decode()
    assert "Planned: nothing is left out before it begins" in body
    assert "Had nothing been left out" not in body


def test_the_list_says_not_yet_while_there_is_no_month_to_draw(endpoint: Endpoint) -> None:
    client = Client()
    client.force_login(factories.people().vic)
    assert '<span class="muted">not yet</span>' in client.get("/sla/").content.decode()
    reports = [MonthReport(NOW.date(), Promise.KEPT, 10, 0.5, {})] * 2
    row = sla_list(NOW, user=factories.people().vic)[0]
    assert not replace(row, months=reports[:1]).has_trend
    assert replace(row, months=reports).has_trend


def test_an_exclusion_says_what_it_would_do_before_people_agree(
    endpoint: Endpoint, vic: APIClient, django_assert_max_num_queries: Any
) -> None:
    minute(endpoint, NOW - timedelta(days=1), 1000, faults=1)
    minute(endpoint, NOW - timedelta(days=2), 1000, faults=20)
    at = (NOW - timedelta(days=2)).replace(second=0)
    row = Exclusion.objects.create(
        endpoint=endpoint,
        starts_at=at,
        ends_at=at + timedelta(minutes=1),
        reason="the network was down",
        evidence="a report",
        proposed_by=factories.people().sam,
        proposed_at=NOW,
    )
    with django_assert_max_num_queries(9):
        _, availability = exclusion_effects(row)
    assert (availability.counted, availability.counted_state) == (pytest.approx(98.95), "broken")
    assert (availability.left_out, availability.left_out_state) == (99.9, "at_risk")
    body = vic.get(f"/api/v1/exclusions/{row.pk}/").json()
    assert body["effects"][1]["month"] == "2026-02-01"
    assert body["effects"][1]["left_out"] == 99.9
    client = Client()
    client.force_login(factories.people().bea)
    page = client.get("/endpoints/production/fraud_detector/objectives/").content.decode()
    assert "98.95" in page
    assert "once it is left out" in page
    Exclusion.objects.update(state=AgreementState.AGREED)
    # Agreed, it says the same of itself.
    assert exclusion_effects(row)[1] == availability
    page = client.get("/endpoints/production/fraud_detector/objectives/").content.decode()
    assert "once it is left out" not in page
