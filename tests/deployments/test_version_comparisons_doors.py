"""Two versions side by side: by the page and by the API, with the same figures."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from console.stack.envoy import LATENCY_BOUNDS_MS
from deployments.models import ComparisonMinute, Endpoint, MinuteRollup
from deployments.rules.experiments.comparison_figures import OutputFigures, to_json
from deployments.rules.statistics.histograms import Histogram
from deployments.services.traffic.splits import set_split
from models_registry.models import Visibility
from tests import factories
from tests.deployments.conftest import Fleet, ready_version
from tests.models_registry.browsing import Visitor

pytestmark = pytest.mark.django_db

PAGE = "/endpoints/production/fraud_detector/compare/"
API = "/api/v1/endpoints/production/fraud_detector/compare/"


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    """Two ready versions that share the traffic."""
    for bias in (0.0, 1.0):
        ready_version(fleet_rows, factories.make_version(bias=bias))
    set_split(
        environment="production",
        model="fraud_detector",
        weights={1: 90, 2: 10},
        expected_revision=None,
        reason="a start",
        actor=fleet_rows.sam,
    )
    return Endpoint.objects.get()


@pytest.fixture
def sam(endpoint: Endpoint, fleet_rows: Fleet) -> Visitor:
    return Visitor(fleet_rows.sam.user)


@pytest.fixture
def api(endpoint: Endpoint, fleet_rows: Fleet) -> APIClient:
    client = APIClient()
    client.force_authenticate(fleet_rows.sam.user)
    return client


def minute_of(
    endpoint: Endpoint, version: int, *, ms: float, requests: int = 600, faults: int = 0, ago: int
) -> MinuteRollup:
    """A minute in which every request took about `ms`."""
    counts = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    counts[next(i for i, bound in enumerate(LATENCY_BOUNDS_MS) if bound >= ms)] = requests
    return MinuteRollup.objects.create(
        endpoint=endpoint,
        version=version,
        minute=_minute(ago),
        requests=requests,
        provider_faults=faults,
        statuses={"2xx": requests - faults, **({"5xx": faults} if faults else {})},
        bounds_ms=list(LATENCY_BOUNDS_MS),
        buckets=counts,
        inference_count=requests,
        execution_count=requests,
        queue_ns=requests * 200_000,
        compute_ns=requests * int(ms * 900_000),
    )


def _minute(ago: int) -> datetime:
    return timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=ago)


def seed(endpoint: Endpoint, minutes: range = range(2, 6)) -> None:
    for ago in minutes:
        minute_of(endpoint, 1, ms=10, ago=ago)
        minute_of(endpoint, 2, ms=30, faults=12, ago=ago)


def test_the_page_says_in_words_who_is_slower_and_who_fails_more(
    endpoint: Endpoint, sam: Visitor
) -> None:
    seed(endpoint)
    page = sam.get(PAGE)

    assert page.status == 200
    assert "v2’s P99 is" in page
    assert "slower" in page
    assert "over the same 4" in page
    assert "2,400 and 2,400 requests" in page
    assert "v2 fails 2 % of its requests, v1 0 %" in page.text.replace("\xa0", " ")
    assert "Answers were not compared in this time." in page


def test_the_api_has_the_figures_of_the_page(endpoint: Endpoint, api: APIClient) -> None:
    seed(endpoint)
    found = api.get(API, {"a": "1", "b": "2", "window": "15m"}).json()

    assert (found["first"]["version"], found["second"]["version"]) == (1, 2)
    assert found["second"]["requests"] == 2400
    assert found["second"]["provider_share"] == pytest.approx(0.02)
    assert {one["subject"]: one["verdict"] for one in found["sentences"]} == {
        "latency": "worse",
        "errors": "worse",
        "work": "",
        "outputs": "unknown",
    }
    counted = {one["version"]: sum(one["counts"]) for one in found["latency"]["series"]}
    assert counted == {1: 2400, 2: 2400}
    assert len(found["latency"]["edges"]) + 1 == len(found["latency"]["series"][0]["counts"])


def test_only_minutes_that_both_had_are_compared(endpoint: Endpoint, api: APIClient) -> None:
    seed(endpoint, range(2, 4))
    minute_of(endpoint, 1, ms=500, ago=9)
    found = api.get(API).json()

    assert found["first"]["requests"] == 1200
    assert found["first"]["quantiles"]["p99"]["value"] < 20


def test_without_requests_the_page_says_what_is_missing(endpoint: Endpoint, sam: Visitor) -> None:
    assert "Neither version had a request in this time" in sam.get(PAGE)
    minute_of(endpoint, 1, ms=10, ago=2)
    assert "v2 had no request in this time" in sam.get(PAGE)
    minute_of(endpoint, 2, ms=10, ago=8)
    assert "The two never had requests at the same time" in sam.get(PAGE)


def test_few_requests_give_no_verdict_and_say_how_many_are_needed(
    endpoint: Endpoint, sam: Visitor
) -> None:
    minute_of(endpoint, 1, ms=10, ago=2)
    minute_of(endpoint, 2, ms=10, requests=3, ago=2)
    page = sam.get(PAGE)

    assert "Too few requests to compare latencies: v2 has 3" in page
    assert "P99 needs 382 of each" in page


def test_answers_are_shown_by_output_whoever_was_the_baseline(
    endpoint: Endpoint, sam: Visitor, api: APIClient
) -> None:
    seed(endpoint)
    values = Histogram((0.0, 0.5, 1.0), (0, 30, 70, 0))
    one = OutputFigures(
        rows=100,
        differing_rows=4,
        max_difference=0.25,
        candidate_values=values,
        candidate_faults={"nan": 3},
    )
    ComparisonMinute.objects.create(
        endpoint=endpoint,
        baseline=2,
        candidate=1,
        minute=_minute(2),
        sampled=110,
        compared=100,
        differing=4,
        candidate_faults=3,
        max_difference=0.25,
        outputs=to_json({"probability": one}),
    )
    page, found = sam.get(PAGE), api.get(API).json()["answers"]

    assert "Both answered 100 sampled requests: 4 answers (4 %) differ, by 0.25 at most." in (
        page.text.replace("\xa0", " ")
    )
    # Version 1 was the candidate there, and is the first here.
    assert "3 × not a number" in page
    assert found["first_faults"] == 3
    assert found["outputs"][0]["first_faults"] == {"nan": 3}
    assert found["outputs"][0]["values"]["series"][0]["counts"] == [0, 30, 70, 0]


def test_what_cannot_be_compared_is_refused_at_its_field(
    endpoint: Endpoint, sam: Visitor, api: APIClient
) -> None:
    seed(endpoint)
    for query, pointer in (
        ({"a": "x"}, "/a"),
        ({"a": "1", "b": "1"}, "/b"),
        ({"window": "30d"}, "/window"),
        ({"window": "soon"}, "/window"),
    ):
        answer = api.get(API, query)
        assert answer.status_code == 422, query
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert api.get(API, {"b": "9"}).status_code == 404
    page = sam.get(f"{PAGE}?a=1&b=1")
    assert page.status == 422
    assert "v1 cannot be compared with itself." in page


def test_one_version_alone_is_told_what_the_page_is_for(fleet_rows: Fleet) -> None:
    ready_version(fleet_rows, factories.make_version())
    page = Visitor(fleet_rows.sam.user).get(PAGE)
    assert page.status == 200
    assert "Two versions are needed" in page


def test_the_queries_do_not_grow_with_the_minutes(endpoint: Endpoint, sam: Visitor) -> None:
    seed(endpoint, range(2, 4))
    sam.get(PAGE)
    with CaptureQueriesContext(
        connection,
    ) as few:
        sam.get(PAGE, part=True)
    seed(endpoint, range(4, 12))
    with CaptureQueriesContext(connection) as many:
        sam.get(PAGE, part=True)
    assert len(many) == len(few)
    # The session, the person, and five for the comparison.
    assert len(many) <= 8


def test_the_chart_of_some_versions_and_of_a_time(endpoint: Endpoint, api: APIClient) -> None:
    seed(endpoint)
    base = "/api/v1/endpoints/production/fraud_detector/charts/requests/"
    asked = {
        "from": (timezone.now() - timedelta(hours=1)).isoformat(),
        "to": timezone.now().isoformat(),
        "versions": "2",
    }
    answer = api.get(base, asked).json()
    assert [line["version"] for line in answer["series"]] == [2]
    assert len(answer["series"][0]["x"]) >= 60
    assert api.get(base, {"versions": "2;3"}).status_code == 422


def test_a_hidden_model_is_not_there(endpoint: Endpoint) -> None:
    outsider = Visitor(factories.make_user("outsider"))
    model = endpoint.model
    model.visibility = Visibility.TEAM
    model.save()
    assert outsider.get(PAGE).status == 404
