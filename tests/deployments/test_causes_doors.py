"""The root-cause board by page, API and command line, and what it asks of the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from deployments.models import Endpoint, MinuteRollup, SplitCause, TrafficSplit
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.services.statistics import measurements
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 2, 14, 4, 0, 30, tzinfo=UTC)
FAULT = NOW.replace(second=0) - timedelta(minutes=12)
API = "/api/v1/endpoints/production/fraud_detector/causes/"
PAGE = "/endpoints/production/fraud_detector/causes/"
BOUNDS = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0]


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    """An hour of two versions; v2 gets half of the requests twelve minutes ago, and waits."""
    model = factories.make_model()
    placements = [ready_version(fleet_rows, factories.make_version(model)) for _ in range(2)]
    made = Endpoint.objects.get(model=model, environment=fleet_rows.production)
    TrafficSplit.objects.create(
        endpoint=made,
        revision=20,
        weights={"1": 5000, "2": 5000},
        cause=SplitCause.MANUAL,
        author=factories.people().sam,
        created_at=FAULT - timedelta(seconds=40),
    )
    for minutes in range(60):
        at = NOW.replace(second=0) - timedelta(minutes=60 - minutes)
        _minute(made, at, 1, 600)
        if at >= FAULT:
            _minute(made, at, 2, 600, slow=True)
    node = placements[0].node
    hot = Quantity(Subject(node=node.pk, device="GPU-0"), "gpu_memory_used_bytes", unit="B")
    measurements.record(
        Point(hot, 3.0 * 2**30, NOW - timedelta(minutes=minute)) for minute in range(60)
    )
    return made


def _minute(
    endpoint: Endpoint, at: datetime, version: int, requests: int, *, slow: bool = False
) -> None:
    buckets = [0, 0, 0, 0, 0, requests, 0] if slow else [requests - 10, 10, 0, 0, 0, 0, 0]
    MinuteRollup.objects.create(
        endpoint=endpoint,
        version=version,
        minute=at,
        requests=requests,
        statuses={"2xx": requests},
        bounds_ms=BOUNDS,
        buckets=buckets,
        inference_count=requests,
        execution_count=requests if slow else requests // 6,
        queue_ns=requests * (90_000_000 if slow else 1_000_000),
        compute_ns=requests * 3_000_000,
    )


@pytest.fixture
def vic(endpoint: Endpoint) -> APIClient:
    client = APIClient()
    client.force_login(factories.people().vic)
    return client


def test_the_api_says_what_moved_first_and_what_came_before(vic: APIClient) -> None:
    with time_machine.travel(NOW, tick=False):
        found: dict[str, Any] = vic.get(f"{API}?window=1h").json()
    assert found["before"]["kind"] == "split.manual"
    first = found["movers"][0]
    assert (first["signal"], first["layer"], first["bad"]) == ("queue", "triton", True)
    assert datetime.fromisoformat(first["at"]) == FAULT
    assert found["findings"][0]["code"] == "batching_ineffective"
    steady = {(one["signal"], one["place"]): one["level"] for one in found["steady"]}
    assert steady["gpu_memory", "local GPU-0"] == pytest.approx(3072)
    assert "40 s after: Traffic moved by hand: v1 50 %, v2 50 %" in found["summary"][0].replace(
        "\u00a0", " "
    )


def test_around_a_moment_the_stretch_is_the_one_that_was_asked_for(vic: APIClient) -> None:
    with time_machine.travel(NOW, tick=False):
        at = FAULT - timedelta(minutes=30)
        found = vic.get(API, {"at": at.isoformat()}).json()
        refused = vic.get(API, {"at": (NOW + timedelta(hours=1)).isoformat()})
    assert found["movers"] == []
    assert found["summary"] == ["Nothing moved for the worse in this stretch of time."]
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_span")


def test_a_chart_spans_what_the_board_spans_with_a_line_of_each_version(vic: APIClient) -> None:
    with time_machine.travel(NOW, tick=False):
        start = (NOW - timedelta(hours=1)).isoformat()
        found = vic.get(f"{API}queue/", {"from": start, "to": NOW.isoformat()}).json()
        unknown = vic.get(f"{API}moon/", {"from": start, "to": NOW.isoformat()})
    assert [one["name"] for one in found["series"]] == ["all", "v1", "v2"]
    assert len(found["span"]) == 2
    assert len(found["markers"]) == 1
    assert unknown.status_code == 404


def test_the_page_tells_the_story_in_both_languages(vic: APIClient, client: Client) -> None:
    client.force_login(factories.people().sam)
    with time_machine.travel(NOW, tick=False):
        page = client.get(f"{PAGE}?window=1h").content.decode()
        client.cookies["django_language"] = "zh-hans"
        chinese = client.get(f"{PAGE}?window=1h").content.decode()
        bad = client.get(f"{PAGE}?window=1h&at=yesterday")
    assert "Dynamic batching is not effective" in page
    assert "GPU memory flat at" in page
    assert "Dynamic batching is not effective" not in chinese
    assert bad.status_code == 200


def test_an_endpoint_that_nothing_was_measured_of_says_what_the_page_is_for(
    fleet_rows: Fleet, client: Client
) -> None:
    Endpoint.objects.create(model=factories.make_model(), environment=fleet_rows.production)
    client.force_login(factories.people().sam)
    assert "Nothing was measured" in client.get(PAGE).content.decode()


def test_the_board_asks_as_much_of_the_database_for_a_day_as_for_an_hour(vic: APIClient) -> None:
    def asked(window: str) -> int:
        with CaptureQueriesContext(connection) as queries, time_machine.travel(NOW, tick=False):
            assert vic.get(f"{API}?window={window}").status_code == 200
        return len(queries)

    assert asked("1h") == asked("24h") <= 20
