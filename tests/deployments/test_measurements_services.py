"""Measured series: minutes add up, whoever writes, and unknown values say nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deployments.models import MeasuredSeries, Node, SeriesMinute
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.selectors.statistics import measurements as read
from deployments.services.statistics import measurements

pytestmark = pytest.mark.django_db
AT = datetime(2026, 3, 1, 12, 0, 10, tzinfo=UTC)


@pytest.fixture
def node() -> Node:
    return Node.objects.create(
        name="gpu-1", http_address="127.0.0.1:1", grpc_address="127.0.0.1:2", repository="/r"
    )


def temperature(node: Node, device: str = "GPU-0") -> Quantity:
    return Quantity(Subject(node=node.pk, device=device), "gpu_temperature_celsius", unit="°C")


def test_values_of_a_minute_add_up_over_several_writes(node: Node) -> None:
    one = temperature(node)
    measurements.record([Point(one, 60.0, AT), Point(one, 70.0, AT + timedelta(seconds=5))])
    measurements.record([Point(one, 50.0, AT + timedelta(seconds=2))])
    row = SeriesMinute.objects.get()
    assert (row.count, row.total, row.minimum, row.maximum) == (3, 180.0, 50.0, 70.0)
    # The newest is the newest measured, not the one that came in last.
    assert (row.newest, row.newest_at) == (70.0, AT + timedelta(seconds=5))


def test_a_late_value_goes_to_its_own_minute(node: Node) -> None:
    one = temperature(node)
    measurements.record([Point(one, 60.0, AT)])
    measurements.record([Point(one, 40.0, AT - timedelta(minutes=3))])
    found = read.minutes(
        [MeasuredSeries.objects.get().pk],
        start=AT - timedelta(hours=1),
        end=AT + timedelta(hours=1),
    )
    values = [summary.mean for minutes in found.values() for summary in minutes.values()]
    assert values == [40.0, 60.0]


def test_what_is_no_number_is_not_kept(node: Node) -> None:
    assert measurements.record([Point(temperature(node), float("nan"), AT)]) == 0
    assert not SeriesMinute.objects.exists()


def test_series_are_made_once_whatever_they_lack(node: Node) -> None:
    for _ in range(2):
        measurements.record([Point(temperature(node, f"GPU-{i}"), 1.0, AT) for i in range(50)])
    assert MeasuredSeries.objects.count() == 50


def test_writing_known_series_takes_as_many_queries_for_many_as_for_one(node: Node) -> None:
    def written(devices: int) -> int:
        points = [Point(temperature(node, f"GPU-{i}"), 1.0, AT) for i in range(devices)]
        measurements.record(points)
        with CaptureQueriesContext(connection) as queries:
            measurements.record(points)
        return len([one for one in queries if "SAVEPOINT" not in one["sql"]])

    assert written(1) == written(60) <= 4


def test_the_newest_minute_of_each_series_is_found(node: Node) -> None:
    one, other = temperature(node), temperature(node, "GPU-1")
    measurements.record([Point(one, 60.0, AT), Point(one, 61.0, AT + timedelta(minutes=1))])
    measurements.record([Point(other, 1.0, AT - timedelta(hours=2))])
    keys = {row.device: row.pk for row in read.series_of(node=node.pk)}
    found = read.newest(keys.values(), since=AT - timedelta(minutes=5))
    assert {key: summary.newest for key, summary in found.items()} == {keys["GPU-0"]: 61.0}
