"""Who is on call: worked cases on paper, the days of changing clocks, and what always holds."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.rules.alerts.escalation_steps import due_at
from deployments.rules.alerts.on_call import (
    Layer,
    OnCall,
    Override,
    Schedule,
    gaps,
    on_call_at,
    shifts,
)

BERLIN = ZoneInfo("Europe/Berlin")
ANN, BEN, CHO = 1, 2, 3
WEEKLY = Layer(people=(ANN, BEN, CHO), starts_on=date(2026, 1, 5), handover=time(9))


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


@pytest.mark.parametrize(
    ("moment", "person"),
    [
        ("2026-01-05T08:59:59", None),
        ("2026-01-05T09:00:00", ANN),
        ("2026-01-12T08:59:59", ANN),
        ("2026-01-12T09:00:00", BEN),
        ("2026-01-19T09:00:00", CHO),
        ("2026-01-26T09:00:00", ANN),
        # Twelve weeks on, and an hour less since: the handover is at nine by the clock still.
        ("2026-03-30T08:59:59", CHO),
        ("2026-03-30T09:00:00", ANN),
    ],
)
def test_turns_change_at_the_local_time_of_handover(moment: str, person: int | None) -> None:
    schedule = Schedule("Europe/Berlin", (WEEKLY,))
    assert on_call_at(schedule, at(moment)).person == person


def test_a_turn_over_the_change_of_clocks_is_an_hour_shorter_or_longer() -> None:
    schedule = Schedule("Europe/Berlin", (WEEKLY,))
    for begins, hours in (("2026-03-23T09:00", 167), ("2026-10-19T09:00", 169)):
        start = at(begins)
        [turn, *_] = shifts(schedule, start, start + timedelta(days=10))
        assert (turn.ends_at - start.astimezone(UTC)) == timedelta(hours=hours)


def test_a_handover_that_the_clocks_skip_is_an_hour_later_by_the_clock() -> None:
    daily = Layer((ANN, BEN), date(2026, 3, 27), time(2, 30), days_each=1)
    schedule = Schedule("Europe/Berlin", (daily,))
    # There is no 02:30 on 29 March: the clock goes from 02:00 to 03:00 at 01:00 UTC.
    change = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert on_call_at(schedule, change - timedelta(seconds=1)).person == BEN
    assert on_call_at(schedule, change).person == ANN


def test_a_higher_layer_goes_first_where_it_holds_and_an_override_over_all() -> None:
    nights = Layer((CHO,), date(2026, 1, 5), time(9), hours=(time(22), time(6)))
    schedule = Schedule("Europe/Berlin", (WEEKLY, nights))
    assert on_call_at(schedule, at("2026-01-06T21:59:59")) == OnCall(ANN, "layer")
    assert on_call_at(schedule, at("2026-01-06T22:00:00")).person == CHO
    assert on_call_at(schedule, at("2026-01-07T05:59:59")).person == CHO
    assert on_call_at(schedule, at("2026-01-07T06:00:00")).person == ANN
    swapped = Schedule(
        "Europe/Berlin",
        (WEEKLY, nights),
        (
            Override(BEN, at("2026-01-06T20:00"), at("2026-01-07T00:00")),
            Override(ANN, at("2026-01-06T20:00"), at("2026-01-07T03:00")),
        ),
    )
    assert on_call_at(swapped, at("2026-01-06T23:00")) == OnCall(BEN, "override")
    assert on_call_at(swapped, at("2026-01-07T01:00")) == OnCall(ANN, "override")


def test_hours_over_midnight_belong_to_the_weekday_that_they_begin_on() -> None:
    fridays = Layer((ANN,), date(2026, 1, 1), time(0), hours=(time(20), time(4)),
                    weekdays=frozenset({4}))  # fmt: skip
    schedule = Schedule("UTC", (fridays,))
    found = shifts(schedule, datetime(2026, 1, 8, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC))
    assert [(one.person, one.starts_at.isoformat()[:16]) for one in found] == [
        (None, "2026-01-08T00:00"),
        (ANN, "2026-01-09T20:00"),
        (None, "2026-01-10T04:00"),
    ]
    assert len(gaps(found)) == 2


ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe",
     "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca"]
)  # fmt: skip
LAYERS = st.builds(
    Layer,
    people=st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple),
    starts_on=st.dates(date(2010, 1, 1), date(2026, 12, 31)),
    handover=st.times().map(lambda one: one.replace(second=0, microsecond=0)),
    days_each=st.integers(1, 30),
)
BOUND = st.builds(
    Layer,
    people=st.just((7,)),
    starts_on=st.dates(date(2010, 1, 1), date(2020, 12, 31)),
    handover=st.just(time(0)),
    days_each=st.integers(1, 30),
    hours=st.one_of(
        st.none(),
        st.tuples(st.times(), st.times()).filter(lambda pair: pair[0] != pair[1]),
    ),
    weekdays=st.frozensets(st.integers(0, 6)),
)
MOMENTS = st.integers(0, 20 * 365 * 24 * 60).map(
    lambda minutes: datetime(2010, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)


@settings(max_examples=150, deadline=None)
@given(zone=ZONES, layer=LAYERS, start=MOMENTS)
def test_once_a_rotation_has_begun_somebody_is_on_call_and_turns_are_whole(
    zone: str, layer: Layer, start: datetime
) -> None:
    """Also in Samoa, which left out a whole day in December 2011."""
    found = shifts(Schedule(zone, (layer,)), start, start + timedelta(days=70))
    assert found[0].starts_at == start
    assert all(a.ends_at == b.starts_at for a, b in pairwise(found))
    assert found[-1].ends_at == start + timedelta(days=70)
    begun = [one.person is not None for one in found]
    assert begun == sorted(begun), "nobody after somebody"
    inner = [one for one in found[1:-1] if one.person is not None]
    length = timedelta(days=layer.days_each)
    for one in inner:
        # A turn of the same person twice in a row is one shift.
        turns = round((one.ends_at - one.starts_at) / length)
        off = abs((one.ends_at - one.starts_at) - turns * length)
        assert off <= timedelta(hours=24 if zone == "Pacific/Apia" else 1)


@settings(max_examples=150, deadline=None)
@given(zone=ZONES, low=LAYERS, high=BOUND, start=MOMENTS, offset=st.floats(0, 1))
def test_the_calendar_and_the_moment_say_the_same(
    zone: str, low: Layer, high: Layer, start: datetime, offset: float
) -> None:
    schedule = Schedule(
        zone, (low, high), (Override(9, start + timedelta(hours=5), start + timedelta(hours=11)),)
    )
    end = start + timedelta(days=14)
    moment = start + (end - start) * offset * 0.999
    [shift] = [one for one in shifts(schedule, start, end) if one.starts_at <= moment < one.ends_at]
    now = on_call_at(schedule, moment)
    assert (now.person, now.by) == (shift.person, shift.by)


def test_steps_are_due_one_after_the_other_and_rounds_after_the_last() -> None:
    start = datetime(2026, 1, 5, 3, tzinfo=UTC)
    due = [due_at(start, [30, 10], 1, step) for step in range(5)]
    minutes = [one and int((one - start).total_seconds() // 60) for one in due]
    assert minutes == [10, 30, 50, 70, None]
    assert due_at(start, [], 3, 0) is None


@given(
    after=st.lists(st.integers(1, 600), min_size=1, max_size=6),
    repeats=st.integers(0, 9),
)
def test_no_step_comes_before_the_one_before_it(after: list[int], repeats: int) -> None:
    start = datetime(2026, 1, 5, tzinfo=UTC)
    due = [due_at(start, after, repeats, n) for n in range(len(after) * (repeats + 1))]
    assert None not in due
    assert due == sorted(due)
    assert due_at(start, after, repeats, len(due)) is None
