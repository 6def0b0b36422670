from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.models import Endpoint, MinuteRollup
from deployments.rules.objectives.slo import Objective, attain
from deployments.rules.objectives.spans import Span
from deployments.rules.objectives.time_budgets import MinuteCounts, TimeBudget, count_minutes
from deployments.selectors.objectives.minutes import minute_counts, time_budget
from deployments.selectors.statistics.rollups import traffic_of_row
from tests import factories

START = datetime(2026, 2, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
AVAILABILITY = Objective("availability", 99.9, None)
LATENCY = Objective("latency", 95.0, 30, threshold_ms=80.0)


@pytest.mark.parametrize(
    ("target", "days", "minutes"),
    # The table of allowed unavailability in the SRE Book, appendix A: per 30 days.
    [(90.0, 30, 4320), (99.0, 30, 432), (99.9, 30, 43.2), (99.95, 30, 21.6), (99.99, 30, 4.32)],
)
def test_the_budget_is_the_allowed_unavailability(target: float, days: int, minutes: float) -> None:
    budget = TimeBudget(target, days * 1440, 0, days * 1440, MinuteCounts(days * 1440, 0))
    assert budget.total == pytest.approx(minutes)
    assert (budget.left_share, budget.unknown) == (1, 0)


def test_what_was_left_out_neither_allows_nor_spends() -> None:
    budget = TimeBudget(99.0, 1000, 100, 1000, MinuteCounts(800, 9))
    assert (budget.total, budget.left, budget.unknown) == (9, 0, 100)
    assert TimeBudget(99.0, 1000, 0, 500, MinuteCounts()).left_share is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_minutes_are_valid_or_not_and_bad_only_if_valid(pairs: list[tuple[int, int]]) -> None:
    minutes = [(float(good), good + bad) for good, bad in pairs]
    found = count_minutes(minutes, 99.0)
    assert 0 <= found.bad <= found.valid <= len(minutes)
    assert found.valid == sum(1 for _, valid in minutes if valid)
    # With at most 50 + 50 requests one bad one misses 99 % unless there are a hundred of them.
    assert found.bad == sum(1 for good, bad in pairs if bad and 100 * good < 99 * (good + bad))


@pytest.mark.django_db
def test_the_database_counts_minutes_as_the_rule_does() -> None:
    model = factories.make_model()
    endpoint = Endpoint.objects.create(model=model, environment=factories.make_environment())
    for index in range(60):
        for version in (1, 2):
            MinuteRollup.objects.create(
                endpoint=endpoint,
                version=version,
                minute=START + index * MINUTE,
                requests=index % 7 * 100,
                caller_faults=index % 7 * (index % 3) * 10,
                provider_faults=1 if index % 5 == 0 and index % 7 else 0,
                bounds_ms=[40.0, 80.0, 160.0] if version == 1 else [80.0],
                buckets=[90, 2, index, 1] if version == 1 else [index, index % 4],
            )
    excluded = [Span(START + 10 * MINUTE, START + 20 * MINUTE)]
    for objective in (AVAILABILITY, LATENCY):
        rows = MinuteRollup.objects.filter(endpoint=endpoint)
        by_minute: dict[datetime, list[MinuteRollup]] = {}
        for row in rows:
            if not excluded[0].start <= row.minute < excluded[0].end:
                by_minute.setdefault(row.minute, []).append(row)
        wanted = []
        for here in by_minute.values():
            parts = [attain(objective, traffic_of_row(row)) for row in here]
            wanted.append((sum(one.good for one in parts), sum(one.valid for one in parts)))
        within = Span(START, START + 60 * MINUTE)
        found = minute_counts(endpoint, objective, within, excluded)
        assert found == count_minutes(wanted, objective.target)
        assert found.bad
    budget = time_budget(endpoint, AVAILABILITY, START + timedelta(minutes=59, seconds=9), excluded)
    assert (budget.window, budget.passed, budget.excluded) == (28 * 1440, 60, 10)
    assert budget.total == pytest.approx((28 * 1440 - 10) / 1000)
