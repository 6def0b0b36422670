"""Memory that only grows: what is a leak, what is none, and where they are found."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.rules.fleet.memory_growth import growth
from deployments.rules.statistics.measurements import Point, Quantity, Subject
from deployments.selectors.fleet.memory_growth import leaks
from deployments.services.statistics.measurements import record
from models_registry.models import RegisteredModel, Visibility
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

START = datetime(2026, 3, 1, tzinfo=UTC)
GIB = 1024.0**3
Points = list[tuple[datetime, float]]


def every(minutes: int, values: list[float]) -> Points:
    return [(START + timedelta(minutes=minutes * at), one) for at, one in enumerate(values)]


def test_an_even_leak_is_found_with_its_slope() -> None:
    found = growth(every(3, [10 * GIB + at * 0.05 * GIB for at in range(60)]))
    assert found.leaking
    assert found.bytes_per_hour == pytest.approx(GIB, rel=1e-6)
    assert found.since == START
    assert found.r_squared == pytest.approx(1)
    assert found.full_in(2 * GIB) == timedelta(hours=2)


def test_a_noisy_leak_with_peaks_is_found() -> None:
    chance = random.Random(7)
    values = [
        10 * GIB + at * 0.05 * GIB + chance.gauss(0, 0.1 * GIB) + (3 * GIB if at % 17 == 0 else 0)
        for at in range(120)
    ]
    # A peak is given back: that is no reset, which takes a fifth and stays.
    found = growth(
        every(3, [min(one, 10 * GIB + at * 0.05 * GIB + GIB) for at, one in enumerate(values)])
    )
    assert found.leaking
    assert found.bytes_per_hour == pytest.approx(GIB, rel=0.1)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([10 * GIB] * 60, id="level"),
        pytest.param([10 * GIB] * 30 + [16 * GIB] * 30, id="one step: a model was loaded"),
        pytest.param([4 * GIB] * 5 + [16 * GIB] * 55, id="a step at the beginning"),
        pytest.param(
            [10 * GIB] * 20 + [12 * GIB] * 20 + [14 * GIB] * 20, id="two models were loaded"
        ),
        pytest.param([16 * GIB - at * 0.05 * GIB for at in range(60)], id="falls"),
        pytest.param([10 * GIB + at % 10 * GIB for at in range(60)], id="goes up and down"),
        pytest.param([10 * GIB + at * 1024 for at in range(60)], id="too little"),
        pytest.param([10 * GIB + at * GIB for at in range(5)], id="too few points"),
        pytest.param([], id="nothing"),
        pytest.param([1.0], id="one point"),
    ],
)
def test_what_is_no_leak(values: list[float]) -> None:
    assert not growth(every(3, values)).leaking


def test_a_restart_begins_anew() -> None:
    grown = [10 * GIB + at * 0.1 * GIB for at in range(40)]
    fresh = growth(every(3, grown + [10 * GIB] * 20))
    assert not fresh.leaking
    assert fresh.since == START + timedelta(minutes=120)
    again = growth(every(3, grown + grown))
    assert again.leaking
    assert again.bytes_per_hour == pytest.approx(2 * GIB)


@settings(max_examples=40, deadline=None)
@given(
    slope=st.floats(min_value=0.3, max_value=20),
    base=st.floats(min_value=1, max_value=70),
    count=st.integers(min_value=21, max_value=120),
    shuffle=st.randoms(),
)
def test_any_clear_leak_is_found_whatever_the_order(
    slope: float, base: float, count: int, shuffle: random.Random
) -> None:
    points = every(3, [(base + slope * at / 20) * GIB for at in range(count)])
    shuffle.shuffle(points)
    grown = slope * (count - 1) / 20
    found = growth(points)
    assert found.bytes_per_hour == pytest.approx(slope * GIB, rel=1e-4)
    assert found.leaking == (grown * GIB >= 0.02 * (base + grown / 2) * GIB)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(min_value=0, max_value=80), min_size=0, max_size=60),
    factor=st.floats(min_value=1, max_value=4),
)
def test_what_falls_in_the_end_is_no_leak(values: list[float], factor: float) -> None:
    """Whatever was used: where the newest third is the lowest, nothing only grows."""
    rising = sorted(values)
    points = every(3, [one * GIB for one in (*rising, *reversed(rising), *reversed(rising))])
    assert not growth(points).leaking
    assert growth(points).bytes_per_hour <= 0 or not rising


@pytest.mark.django_db
def test_leaks_are_listed_with_what_is_loaded_and_when_memory_ends(fleet_rows: Fleet) -> None:
    version = factories.make_version(factories.make_model())
    ready_version(fleet_rows, version)
    now = START + timedelta(hours=3)
    points = []
    for at in range(180):
        moment = START + timedelta(minutes=at)
        for device, used in (("GPU-0", 10 + at / 60), ("GPU-1", 10.0)):
            of = Subject(node=fleet_rows.node.pk, device=device)
            points += [
                Point(Quantity(of, "gpu_memory_used_bytes"), used * GIB, moment),
                Point(Quantity(of, "gpu_memory_free_bytes"), (20 - used) * GIB, moment),
            ]
    record(points)
    with CaptureQueriesContext(connection) as queries:
        (leak,) = leaks(now)
    assert len(queries) <= 5
    assert (leak.node, leak.device, leak.versions) == ("local", "GPU-0", ("fraud_detector v1",))
    assert leak.growth.bytes_per_hour == pytest.approx(GIB)
    assert leak.full_at is not None
    assert leak.full_at - now == pytest.approx(timedelta(hours=7), abs=timedelta(minutes=5))
    # What is not measured any more leaks no more.
    assert leaks(now + timedelta(minutes=20)) == []
    # Who may not see the model is told of the GPU, which is everybody's, and not of the model.
    RegisteredModel.objects.update(visibility=Visibility.TEAM)
    stranger = factories.make_user("stranger")
    assert [one.versions for one in leaks(now, user=stranger)] == [()]
