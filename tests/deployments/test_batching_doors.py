"""The batching advisor at its doors, out of rows as the collector books them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from deployments.models import Endpoint, MinuteRollup
from tests import factories
from tests.deployments.conftest import Fleet, ready_version


@pytest.fixture
def busy(fleet_rows: Fleet) -> Endpoint:
    """Ten minutes of 300 requests/s that come at once and are executed one by one."""
    placement = ready_version(fleet_rows, factories.make_version(queue_delay_us=100))
    endpoint = Endpoint.objects.get(model=placement.deployment.release.version.model)
    now = timezone.now().replace(second=0, microsecond=0)
    for number in range(10):
        MinuteRollup.objects.create(
            endpoint=endpoint,
            version=1,
            minute=now - timedelta(minutes=number + 2),
            requests=18_000,
            inference_count=18_000,
            execution_count=17_000,
            queue_ns=18_000 * 8_000_000,
            compute_ns=18_000 * 2_000_000,
            bounds_ms=[5, 20, 50],
            buckets=[0, 18_000, 0, 0],
        )
    return endpoint


def test_the_page_says_what_to_change_and_why(client: Client, busy: Endpoint) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/endpoints/production/fraud_detector/batching/").content.decode()
    assert "dynamic batching is not effective" in page
    assert "<code>100</code> → <code>1200</code>" in page
    assert "3.0" in page, "requests at the node at once: 300/s × 10 ms"


def test_the_api_says_the_same(client: Client, busy: Endpoint) -> None:
    client.force_login(factories.people().vic)
    path = "/api/v1/endpoints/production/fraud_detector/batching/"
    (one,) = client.get(path).json()["versions"]
    assert one["load"] == pytest.approx(3.0)
    assert one["batch_efficiency"] == pytest.approx(18 / 17)
    assert one["advice"][0]["code"] == "batching_ineffective"
    assert (one["advice"][0]["setting"], one["advice"][0]["wanted"]) == ("queue_delay_us", "1200")
    assert client.get(f"{path}?from=2026-01-01T00:00:00Z").json()["code"] == "invalid_span"


def test_without_traffic_the_page_says_what_it_is_for(client: Client, fleet_rows: Fleet) -> None:
    ready_version(fleet_rows, factories.make_version())
    client.force_login(factories.people().vic)
    page = client.get("/endpoints/production/fraud_detector/batching/").content.decode()
    assert "No version was asked in this span" in page
