from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deployments.models import (
    AgreementState,
    Endpoint,
    Exclusion,
    MaintenanceWindow,
    MinuteRollup,
)
from deployments.rules.objectives.spans import Span
from deployments.selectors.objectives.burns import EndpointBurn, burns
from deployments.selectors.objectives.exclusions import excluded_spans, under_maintenance
from deployments.selectors.objectives.promises import attainments, counted_between
from deployments.selectors.traffic.routing import contracts_that_hold
from models_registry.models import Environment, RegisteredModel
from tests import factories

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WINDOW = [
    {"name": "latency", "threshold_ms": 80, "target": 99.0, "window": "30d"},
    {"name": "availability", "target": 99.9, "window": "30d"},
]


@pytest.fixture
def endpoint() -> Endpoint:
    return make_endpoint("fraud_detector")


def make_endpoint(name: str) -> Endpoint:
    model = factories.make_model(name)
    factories.make_contract(model, objectives=WINDOW)
    return Endpoint.objects.create(model=model, environment=factories.make_environment())


def minutes(
    endpoint: Endpoint, count: int, requests: int, *, faults: int = 0, ago: int = 0, slow: int = 0
) -> None:
    """So many minutes that end `ago` minutes before now, each with these requests."""
    first = NOW.replace(second=0) - (ago + count) * MINUTE
    MinuteRollup.objects.bulk_create(
        MinuteRollup(
            endpoint=endpoint,
            version=1,
            minute=first + index * MINUTE,
            requests=requests,
            provider_faults=faults,
            bounds_ms=[40.0, 80.0],
            buckets=[requests - slow, 0, slow],
        )
        for index in range(count)
    )


def set_aside(kind: Any, endpoint: Endpoint, start: datetime, end: datetime, **more: Any) -> Any:
    return kind.objects.create(
        endpoint=endpoint,
        starts_at=start,
        ends_at=end,
        reason="Disks are changed.",
        proposed_by=factories.people().sam,
        proposed_at=start - timedelta(days=1),
        **{"state": AgreementState.AGREED, "agreed_at": start, **more},
    )


def by_severity(endpoint: Endpoint, name: str = "availability") -> dict[str, EndpointBurn]:
    return {one.severity: one for one in burns(NOW, endpoints=[endpoint]) if one.objective == name}


def test_two_percent_of_a_months_budget_in_an_hour_pages(endpoint: Endpoint) -> None:
    minutes(endpoint, 60, 1000, faults=15)
    found = by_severity(endpoint)
    assert found["P1"].firing
    assert found["P1"].long_rate == pytest.approx(15)
    assert (found["P1"].factor, found["P1"].valid, found["P1"].bad) == (14.4, 60_000, 900)
    assert (found["P1"].long_s, found["P1"].short_s) == (3600, 300)


def test_what_is_over_pages_no_more_and_the_slow_pair_still_knows(endpoint: Endpoint) -> None:
    minutes(endpoint, 120, 1000, faults=25, ago=10)
    minutes(endpoint, 10, 1000)
    found = by_severity(endpoint)
    assert not found["P1"].firing
    assert found["P1"].short_rate == 0
    assert found["P2"].firing
    assert found["P3"].firing


def test_latency_burns_by_the_answers_that_came_too_late(endpoint: Endpoint) -> None:
    minutes(endpoint, 60, 1000, slow=200)
    assert by_severity(endpoint, "latency")["P1"].long_rate == pytest.approx(20)
    assert by_severity(endpoint, "latency")["P1"].firing
    assert not by_severity(endpoint)["P1"].firing


def test_no_requests_are_no_rate_and_no_alert(endpoint: Endpoint) -> None:
    found = by_severity(endpoint)
    assert [(one.long_rate, one.valid, one.firing) for one in found.values()] == [
        (None, 0, False)
    ] * 3


def test_time_left_out_burns_nothing(endpoint: Endpoint) -> None:
    minutes(endpoint, 55, 1000, ago=5)
    minutes(endpoint, 5, 1000, faults=1000)
    assert by_severity(endpoint)["P1"].firing
    start = NOW.replace(second=0) - 5 * MINUTE
    set_aside(MaintenanceWindow, endpoint, start, start + 30 * MINUTE)
    found = by_severity(endpoint)["P1"]
    assert (found.firing, found.long_rate, found.short_rate) == (False, 0, None)
    assert found.valid == 55_000


def test_only_what_all_three_agreed_to_is_left_out(endpoint: Endpoint) -> None:
    start = NOW.replace(second=0) - timedelta(hours=2)
    hour = timedelta(hours=1)
    set_aside(Exclusion, endpoint, start, start + hour, evidence="Ticket 7")
    set_aside(MaintenanceWindow, endpoint, start + hour / 2, start + 2 * hour)
    other = make_endpoint("other_model")
    set_aside(Exclusion, other, start, start + hour, state=AgreementState.PROPOSED, evidence="x")
    withdrawn = AgreementState.WITHDRAWN
    set_aside(MaintenanceWindow, other, start, NOW + hour, state=withdrawn)
    ids = [endpoint.pk, other.pk]
    assert excluded_spans(ids, start, NOW) == {endpoint.pk: [Span(start, start + 2 * hour)]}
    assert excluded_spans(ids, start + hour, start + hour + MINUTE) == {
        endpoint.pk: [Span(start + hour, start + hour + MINUTE)]
    }
    assert excluded_spans(ids, start - hour, start) == {}
    assert under_maintenance(ids, start + hour) == {endpoint.pk}
    assert under_maintenance(ids, start + 2 * hour) == set()


def test_a_promise_counts_without_what_was_left_out(endpoint: Endpoint) -> None:
    minutes(endpoint, 60, 1000)
    minutes(endpoint, 60, 1000, faults=1000, ago=60)
    start = NOW.replace(second=0) - 120 * MINUTE
    assert counted_between([endpoint.pk], start, NOW)[endpoint.pk].provider_faults == 60_000
    set_aside(Exclusion, endpoint, start, start + 60 * MINUTE, evidence="Ticket 7")
    counted = counted_between([endpoint.pk], start, NOW)[endpoint.pk]
    assert (counted.requests, counted.provider_faults) == (60_000, 0)
    contracts = contracts_that_hold([endpoint.model_id])
    standing = {
        objective.name: attained.attained
        for objective, attained in attainments(contracts, [endpoint], NOW)[endpoint.pk]
    }
    assert standing == {"latency": 100, "availability": 100}


def test_the_queries_do_not_grow_with_the_endpoints(
    endpoint: Endpoint, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(19):
        assert len(burns(NOW)) == 6
    contract = factories.make_contract(endpoint.model, objectives=WINDOW)
    environment = Environment.objects.create(name="load")
    for index in range(20):
        model = RegisteredModel.objects.create(name=f"model_{index}", owner=factories.people().dana)
        contract.pk, contract.model = None, model
        contract.save(force_insert=True)
        Endpoint.objects.create(model=model, environment=environment)
    with django_assert_num_queries(19):
        assert len(burns(NOW)) == 21 * 6
