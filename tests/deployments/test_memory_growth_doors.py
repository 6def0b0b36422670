"""The page of GPUs that lose memory, out of minutes as the machine watch books them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.services.statistics.measurements import record
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

GIB = 1024**3


@pytest.fixture
def leaking(fleet_rows: Fleet) -> Fleet:
    """Four hours in which one GPU loses 1 GiB per hour and another one nothing."""
    fleet_rows.node.gpus = [0, 1]
    fleet_rows.node.save()
    ready_version(fleet_rows, factories.make_version())
    now = timezone.now().replace(second=0, microsecond=0)
    points = []
    for minute in range(240):
        at = now - timedelta(minutes=240 - minute)
        for device, used in (("GPU-0", 4 * GIB + minute * GIB / 60), ("GPU-1", 4 * GIB)):
            subject = Subject(node=fleet_rows.node.pk, device=device)
            points.append(Point(Quantity(subject, "gpu_memory_used_bytes", unit="B"), used, at))
            free = Quantity(subject, "gpu_memory_free_bytes", unit="B")
            points.append(Point(free, 24 * GIB - used, at))
    record(points)
    return fleet_rows


def test_the_page_names_the_gpu_and_when_it_is_full(client: Client, leaking: Fleet) -> None:
    client.force_login(factories.people().vic)
    page = client.get("/memory-growth/").content.decode()
    assert "local · GPU-0" in page
    assert "GPU-1" not in page
    assert "fraud_detector v1" in page
    (one,) = client.get("/api/v1/memory-growth/").json()["results"]
    assert one["bytes_per_hour"] == pytest.approx(GIB, rel=0.01)
    assert one["full_at"] is not None


def test_without_a_leak_it_says_so(client: Client, fleet_rows: Fleet) -> None:
    client.force_login(factories.people().vic)
    assert "No node has a GPU" in client.get("/memory-growth/").content.decode()
    fleet_rows.node.gpus = [0]
    fleet_rows.node.save()
    assert "No GPU loses memory" in client.get("/memory-growth/").content.decode()
