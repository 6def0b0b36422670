"""Hours and days of what was counted, what stays of it, and what was never observed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import DjangoAssertNumQueries

from deployments.models import (
    CountGap,
    DayRollup,
    Endpoint,
    GapReason,
    HourRollup,
    MinuteRollup,
    RolledKind,
    RolledSpan,
    SeriesHour,
)
from deployments.rules.objectives.spans import Span, minutes_of
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.rules.statistics.parts import DAY, HOUR, split
from deployments.rules.statistics.readings import Reader
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.statistics.coverage import coverage, gaps_of
from deployments.selectors.statistics.rollups import traffic_between
from deployments.selectors.statistics.series import statistics
from deployments.services.statistics.gaps import Gap, note
from deployments.services.statistics.hours import rebuild, roll_day, roll_due, roll_hour
from deployments.services.statistics.measurements import record
from deployments.services.statistics.rollups import Booking, book
from tests import factories
from tests.deployments.conftest import Fleet

DAY_START = datetime(2026, 1, 31, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BOUNDS = (40.0, 80.0)
KEY = ("production", "fraud_detector")


@pytest.fixture
def endpoint(fleet_rows: Fleet) -> Endpoint:
    return Endpoint.objects.create(model=factories.make_model(), environment=fleet_rows.production)


def fill(endpoint: Endpoint, minutes: Iterable[datetime], seed: int = 1) -> None:
    """A minute of version 0 (silent) and one of version 1 with some requests."""
    chance = random.Random(seed)
    rows = []
    for minute in minutes:
        rows.append(MinuteRollup(endpoint=endpoint, version=0, minute=minute))
        counts = [chance.randrange(50), chance.randrange(5), chance.randrange(3)]
        bad = chance.randrange(3)
        rows.append(
            MinuteRollup(
                endpoint=endpoint,
                version=1,
                minute=minute,
                requests=sum(counts) + bad,
                provider_faults=bad,
                statuses={"200": sum(counts), "500": bad},
                bounds_ms=list(BOUNDS),
                buckets=counts,
                inference_count=sum(counts),
                execution_count=sum(counts) // 2,
            )
        )
    MinuteRollup.objects.bulk_create(rows, batch_size=2000)


def minutes_from(start: datetime, count: int) -> list[datetime]:
    return [start + MINUTE * n for n in range(count)]


@pytest.mark.django_db
def test_a_stretch_comes_to_the_same_sum_wherever_it_is_read(
    endpoint: Endpoint, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    fill(endpoint, minutes_from(DAY_START - 3 * HOUR, 30 * 60))
    start, end = DAY_START - 2 * HOUR - 17 * MINUTE, DAY_START + 26 * HOUR + 3 * MINUTE
    before = traffic_between([endpoint.pk], start, end)[endpoint.pk]
    left_out = {endpoint.pk: [(DAY_START + 90 * MINUTE, DAY_START + 200 * MINUTE)]}
    without = traffic_between([endpoint.pk], start, end, excluded=left_out)[endpoint.pk]

    made = roll_due(DAY_START + 27 * HOUR + 5 * MINUTE)
    assert (made["hours"], made["days"]) == (30, 1)
    with django_assert_num_queries(3):
        after = traffic_between([endpoint.pk], start, end)[endpoint.pk]
    assert after == before
    assert traffic_between([endpoint.pk], start, end, excluded=left_out)[endpoint.pk] == without
    assert without.requests < before.requests

    # Whole hours and days are read as such: their minutes may go.
    MinuteRollup.objects.filter(minute__gte=DAY_START, minute__lt=DAY_START + DAY).delete()
    assert traffic_between([endpoint.pk], start, end)[endpoint.pk] == before
    row = HourRollup.objects.get(hour=DAY_START, version=1)
    assert row.statuses.keys() == {"200", "500"}
    assert row.inference_count == sum(row.buckets)
    assert (row.minutes, DayRollup.objects.get(version=0).minutes) == (60, 1440)


@pytest.mark.django_db
def test_what_is_booked_late_makes_its_hour_and_day_anew(endpoint: Endpoint) -> None:
    fill(endpoint, minutes_from(DAY_START, 24 * 60))
    roll_due(DAY_START + 25 * HOUR)
    whole = traffic_between([endpoint.pk], DAY_START, DAY_START + DAY)[endpoint.pk]
    late = Booking()
    late.add_traffic(
        (endpoint.environment.name, endpoint.model.name),
        1,
        DAY_START + 30 * MINUTE,
        Traffic(3, 0, 1, {"200": 2, "500": 1}, Histogram(BOUNDS, (2, 0, 1))),
    )
    at = DAY_START + 25 * HOUR
    book("gateway:late", late, reader=Reader(), changed=(), before=None, at=at)
    assert not RolledSpan.objects.filter(kind=RolledKind.HOUR, start=DAY_START).exists()
    assert not RolledSpan.objects.filter(kind=RolledKind.DAY).exists()
    for _ in range(2):
        found = traffic_between([endpoint.pk], DAY_START, DAY_START + DAY)[endpoint.pk]
        assert found.requests == whole.requests + 3
        assert found.latency is not None
        assert whole.latency is not None
        assert found.latency.total == whole.latency.total + 3
        assert roll_due(at)["days"] in (0, 1)
    assert RolledSpan.objects.filter(kind=RolledKind.DAY).exists()


@pytest.mark.django_db
def test_hours_are_made_anew_and_differences_said(endpoint: Endpoint) -> None:
    fill(endpoint, minutes_from(DAY_START, 120))
    assert rebuild(DAY_START, DAY_START + 2 * HOUR) == []
    row = HourRollup.objects.get(hour=DAY_START, version=1)
    HourRollup.objects.filter(pk=row.pk).update(requests=row.requests + 7)
    (difference,) = rebuild(DAY_START, DAY_START + 2 * HOUR)
    assert (difference.start, difference.version) == (DAY_START, 1)
    assert difference.had - difference.has == 7
    assert rebuild(DAY_START, DAY_START + 2 * HOUR) == []


@pytest.mark.django_db
def test_an_hour_outlives_its_minutes(endpoint: Endpoint) -> None:
    fill(endpoint, minutes_from(DAY_START, 60))
    roll_hour(DAY_START)
    before = list(HourRollup.objects.values_list("version", "requests"))
    MinuteRollup.objects.filter(minute__gte=DAY_START + 10 * MINUTE).delete()
    assert roll_hour(DAY_START) == []
    assert list(HourRollup.objects.values_list("version", "requests")) == before
    assert not roll_day(DAY_START)


@pytest.mark.django_db
def test_series_have_hours_too(endpoint: Endpoint) -> None:
    quantity = Quantity(Subject(endpoint=endpoint.pk, version=1), "queue_p95_ms", unit="ms")
    points = [Point(quantity, float(n), DAY_START + n * MINUTE) for n in range(90)]
    record(points)
    assert roll_due(DAY_START + 3 * HOUR)["series_hours"] == 2
    first = SeriesHour.objects.get(hour=DAY_START)
    assert (first.count, first.minimum, first.maximum, first.newest) == (60, 0.0, 59.0, 59.0)
    record([Point(quantity, 100.0, DAY_START)])
    assert roll_due(DAY_START + 3 * HOUR)["series_hours"] == 1
    assert SeriesHour.objects.get(hour=DAY_START).maximum == 100.0


@pytest.mark.django_db
def test_rows_of_a_month_without_a_table_are_kept_all_the_same(endpoint: Endpoint) -> None:
    for year in (1999, 2026, 2150):
        fill(endpoint, [datetime(year, 3, 1, tzinfo=UTC)])
    assert MinuteRollup.objects.count() == 6
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from deployments_minuterollup_rest")
        assert cursor.fetchone()[0] >= 4


@pytest.mark.django_db
def test_what_was_not_observed_is_missing_and_no_zero(
    endpoint: Endpoint, fleet_rows: Fleet
) -> None:
    now = DAY_START + 5 * HOUR
    unread = range(70, 75)
    fill(endpoint, [DAY_START + n * MINUTE for n in range(300) if n not in unread])
    roll_due(now)
    at = DAY_START + 70 * MINUTE
    source = f"gateway:{fleet_rows.gateway.name}"
    note([Gap(source, at, None, GapReason.UNREACHABLE, detail="refused")])
    assert gaps_of(endpoint, DAY_START, now)[0].end is None
    note([Gap(source, at, at + 5 * MINUTE, GapReason.RESTARTED, lost=True)])
    found = coverage(endpoint, DAY_START - 5 * HOUR, now, now=now)
    assert found.start == DAY_START
    assert (found.expected_minutes, found.observed_minutes, found.missing_minutes) == (298, 293, 5)
    assert list(found.missing) == [Span(at, at + 5 * MINUTE)]
    (gap,) = found.gaps
    assert (gap.why, gap.lost, gap.end) == (GapReason.RESTARTED, True, at + 5 * MINUTE)
    assert not found.is_whole
    quiet = coverage(endpoint, DAY_START + 2 * HOUR, DAY_START + 3 * HOUR, now=now)
    assert (quiet.is_whole, quiet.share) == (True, 1.0)


@pytest.mark.django_db
def test_short_looks_that_came_late_are_no_gap_but_lost_counts_are() -> None:
    def gap(seconds: int, *, lost: bool = False) -> Gap:
        end = DAY_START + timedelta(seconds=seconds)
        return Gap("gateway:g", DAY_START, end, GapReason.UNREACHABLE, lost=lost)

    note([gap(2), gap(3, lost=True), gap(3, lost=True), gap(9)])
    rows = CountGap.objects.order_by("ended_at")
    assert [(row.lost, row.ended_at) for row in rows] == [
        (True, DAY_START + timedelta(seconds=3)),
        (False, DAY_START + timedelta(seconds=9)),
    ]


@given(
    st.integers(0, 4000),
    st.integers(1, 4000),
    st.lists(st.booleans(), min_size=140, max_size=140),
)
def test_parts_cover_each_minute_once(first: int, length: int, whole: list[bool]) -> None:
    span = Span(DAY_START + first * MINUTE, DAY_START + (first + length) * MINUTE)
    hours = {DAY_START + n * HOUR for n, there in enumerate(whole) if there}
    days = {
        DAY_START + n * DAY
        for n in range(5)
        if all(DAY_START + n * DAY + h * HOUR in hours for h in range(24))
    }
    parts = split([span], days=days, hours=hours)
    everything = [*parts.days, *parts.hours, *parts.minutes]
    assert sum(one.minutes for one in everything) == length == minutes_of(everything)
    for part in parts.hours:
        for n in range(part.minutes // 60):
            assert part.start + n * HOUR in hours


@pytest.mark.django_db
def test_a_chart_of_weeks_is_drawn_from_hours(endpoint: Endpoint) -> None:
    fill(endpoint, minutes_from(DAY_START, 26 * 60))
    start, end = DAY_START, DAY_START + 26 * HOUR
    before = statistics(endpoint, start=start, end=end, step=3600)
    roll_due(end)
    MinuteRollup.objects.filter(minute__lt=DAY_START + 20 * HOUR).delete()
    assert statistics(endpoint, start=start, end=end, step=3600) == before
    assert sum(before["series"][1]["requests"]) > 0


@pytest.mark.django_db
@pytest.mark.parametrize("kept", ["minutes", "hours", "days"])
def test_before_it_was_made_nothing_of_an_endpoint_was_to_be_observed(
    endpoint: Endpoint, kept: str
) -> None:
    """Born at 13:43, read from the next minute on; whatever of it retention has left."""
    made = DAY_START + 13 * HOUR + 43 * MINUTE
    Endpoint.objects.filter(pk=endpoint.pk).update(created_at=made + timedelta(seconds=20))
    endpoint.refresh_from_db()
    first = made if kept != "minutes" else made + 4 * MINUTE
    end = DAY_START + DAY + 2 * HOUR
    minutes = [first + n * MINUTE for n in range(int((end - first) / MINUTE))]
    gone = DAY_START + 20 * HOUR
    fill(endpoint, [at for at in minutes if at != gone])
    # A day is made of 24 whole hours: another endpoint was there before.
    older = Endpoint.objects.create(
        model=factories.make_model("older_model"), environment=endpoint.environment
    )
    fill(older, [DAY_START + n * HOUR for n in range(24)])
    roll_due(end + 5 * MINUTE)
    if kept != "minutes":
        MinuteRollup.objects.filter(minute__lt=DAY_START + DAY).delete()
    if kept == "days":
        HourRollup.objects.filter(hour__lt=DAY_START + DAY).delete()
        RolledSpan.objects.filter(kind=RolledKind.HOUR, start__lt=DAY_START + DAY).delete()
    found = coverage(endpoint, DAY_START - 10 * DAY, end, now=end + 5 * MINUTE)
    assert found.start == first
    assert found.missing_minutes == 1
    wanted = {
        "minutes": Span(gone, gone + MINUTE),
        "hours": Span(gone, gone + HOUR),
        "days": Span(made, DAY_START + DAY),
    }
    assert list(found.missing) == [wanted[kept]]


@pytest.mark.django_db
def test_an_endpoint_that_was_read_from_its_birth_on_lacks_nothing(endpoint: Endpoint) -> None:
    made = DAY_START + 13 * HOUR + 43 * MINUTE
    Endpoint.objects.filter(pk=endpoint.pk).update(created_at=made)
    endpoint.refresh_from_db()
    end = DAY_START + DAY
    fill(endpoint, [made + n * MINUTE for n in range(int((end - made) / MINUTE))])
    roll_due(end + 5 * MINUTE)
    MinuteRollup.objects.all().delete()
    found = coverage(endpoint, DAY_START, end, now=end + 5 * MINUTE)
    assert (found.share, list(found.missing), found.is_whole) == (1.0, [], True)
