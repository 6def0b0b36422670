"""What a mirror's version answers is counted, and never mixed into what callers got."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from deployments.models import Endpoint, MinuteRollup, MirrorMinute
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.live_window import LiveWindow, Second, from_point, to_point
from deployments.rules.statistics.readings import Reader
from deployments.rules.statistics.rollups import Traffic
from deployments.rules.statistics.traffic_windows import window_numbers
from deployments.selectors.statistics.series import statistics
from deployments.services.statistics.rollups import Booking, book
from tests import factories
from tests.deployments.conftest import Fleet

MINUTE = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
KEY = ("production", "fraud_detector")
BOUNDS = (1.0, 80.0)


def traffic(requests: int, faults: int = 0) -> Traffic:
    return Traffic(requests, 0, faults, {}, Histogram(BOUNDS, (0, requests, 0)))


def test_live_numbers_hold_mirrors_apart() -> None:
    window = LiveWindow()
    second = Second(100.0, {0: Traffic(), 1: traffic(8)}, {}, {2: traffic(4, faults=1)})
    window.add(second)
    numbers = window.numbers()
    assert numbers["requests_per_second"] == 8
    assert numbers["provider_share"] == 0
    assert numbers["versions"].keys() == {"0", "1"}
    assert numbers["shadow"]["2"]["requests_per_second"] == 4
    assert numbers["shadow"]["2"]["provider_share"] == 0.25
    point = to_point(second)
    assert from_point(point, BOUNDS).mirrored == second.mirrored
    assert window_numbers([point], BOUNDS, since=0, now=100).keys() == {0, 1}


def test_a_point_from_before_there_were_mirrors_is_read() -> None:
    assert from_point({"t": 1.0, "v": {}, "w": {}}, BOUNDS).mirrored == {}


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    return Endpoint.objects.create(model=factories.make_model(), environment=fleet_rows.production)


def test_mirrored_minutes_add_up_in_rows_and_a_series_of_their_own(endpoint: Endpoint) -> None:
    before = None
    for _ in range(2):
        booking = Booking()
        booking.add_traffic(KEY, 1, MINUTE, traffic(10))
        booking.add_mirrored(KEY, 2, MINUTE, traffic(3, faults=1))
        at = timezone.now()
        book("gateway:one", booking, reader=Reader(), changed=(), before=before, at=at)
        before = at
    row = MirrorMinute.objects.get()
    assert (row.version, row.requests, row.provider_faults, row.buckets) == (2, 6, 2, [0, 6, 0])
    assert list(MinuteRollup.objects.values_list("version", "requests")) == [(1, 20)]
    found = statistics(endpoint, start=MINUTE, end=MINUTE + timedelta(minutes=3), step=60)
    assert [one["version"] for one in found["series"]] == [1]
    (mirrored,) = found["mirrored"]
    assert (mirrored["version"], mirrored["requests"]) == (2, [6.0, None, None])
