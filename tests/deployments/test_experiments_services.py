"""Experiments are started once, counted once, and end with the traffic where it belongs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.errors import Conflict, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Notice
from deployments.models import (
    Endpoint,
    Experiment,
    ExperimentCount,
    Outcome,
    Placement,
    TrafficSplit,
)
from deployments.selectors.experiments.pages import conversion_difference, view_of
from deployments.services.experiments.acts import start_experiment, stop_experiment, take_off_worse
from deployments.services.experiments.outcomes import (
    AnswerSlot,
    KnownOutcome,
    book_answers,
    record_outcomes,
)
from deployments.services.gateways.desired import gateway_state
from deployments.services.statistics.bookings import Entry
from deployments.services.traffic.splits import set_split
from tests import factories
from tests.deployments.conftest import Fleet, ready_version

HERE: dict[str, Any] = {"environment": "production", "model": "fraud_detector"}


@pytest.fixture
def two(fleet_rows: Fleet) -> Fleet:
    """Versions 1 and 2 ready, 70 to 30, with a header rule for either."""
    model = factories.make_model()
    for _ in range(2):
        ready_version(fleet_rows, factories.make_version(model))
    set_split(
        **HERE,
        weights={1: 70, 2: 30},
        header_rules=[
            {"header": "x-exp-id", "value": "a", "version": 1},
            {"header": "x-exp-id", "value": "b", "version": 2},
        ],
        expected_revision=None,
        reason="try it",
        actor=fleet_rows.sam,
    )
    return fleet_rows


def begin(fleet: Fleet, **changes: Any) -> Experiment:
    wanted: dict[str, Any] = {
        **HERE, "name": "Checkout", "outcome": "purchase", "baseline": 1, "candidate": 2,
        "window": "1m", "actor": fleet.sam,
    }  # fmt: skip
    return start_experiment(**{**wanted, **changes})


def count(experiment: Experiment, since: datetime, *, base: int, new: int) -> None:
    """20 minutes with 1000 answers of each version."""
    ExperimentCount.objects.bulk_create(
        ExperimentCount(
            experiment=experiment,
            version=version,
            minute=since + timedelta(minutes=index),
            answered=1000,
            converted=converted,
        )
        for index in range(20)
        for version, converted in ((1, base), (2, new))
    )


def test_an_endpoint_has_one_experiment_at_a_time_and_its_gateways_are_told(two: Fleet) -> None:
    experiment = begin(two)
    state = gateway_state(two.gateway).endpoints[0]
    assert (state.experiment, state.sampling is not None) == (True, True)
    with pytest.raises(Conflict) as refused:
        begin(two, name="Another")
    assert refused.value.code == "experiment_running"
    stopped = stop_experiment(**HERE, experiment_id=experiment.pk, reason="Enough.", actor=two.sam)
    assert (stopped.state, stopped.message) == ("stopped", "Enough.")
    again = stop_experiment(**HERE, experiment_id=experiment.pk, actor=two.sam)
    assert again.message == "Enough."
    assert not gateway_state(two.gateway).endpoints[0].experiment
    entries = AuditEntry.objects.filter(action__startswith="experiment.").order_by("pk")
    assert [entry.action for entry in entries] == ["experiment.start", "experiment.stop"]
    begin(two, name="Another")


def test_who_may_not_and_what_cannot_be_is_refused(two: Fleet) -> None:
    with pytest.raises(NotAllowed):
        begin(two, actor=factories.actor(factories.people().bea))
    with pytest.raises(NotFound):
        begin(two, model="nobody")
    with pytest.raises(Conflict):
        begin(two, candidate=9)
    for changes in ({"candidate": 1}, {"name": " "}, {"outcome": "No"}):
        with pytest.raises(Invalid):
            begin(two, **changes)
    assert not Experiment.objects.exists()


def test_a_candidate_that_is_shown_to_be_worse_loses_its_traffic(two: Fleet) -> None:
    experiment = begin(two)
    now = timezone.now()
    count(experiment, now - timedelta(hours=1), base=100, new=50)
    (ended,) = take_off_worse(now)
    experiment.refresh_from_db()
    assert (ended.pk, experiment.state) == (experiment.pk, "taken_off")
    split = TrafficSplit.objects.latest("revision")
    assert (split.weights, split.cause) == ({"1": 10000}, "experiment")
    assert [rule["value"] for rule in split.header_rules] == ["a"]
    assert "converts worse than v1 by 5.00 percentage points" in split.reason
    assert Notice.objects.filter(kind="experiment.taken_off", recipient=two.sam.user).exists()
    assert AuditEntry.objects.filter(action="experiment.take_off").count() == 1
    assert take_off_worse(now) == []
    assert TrafficSplit.objects.latest("revision").pk == split.pk


def test_a_level_candidate_and_one_that_may_stay_keep_their_traffic(two: Fleet) -> None:
    level = begin(two)
    now = timezone.now()
    count(level, now - timedelta(hours=1), base=100, new=99)
    assert take_off_worse(now) == []
    stop_experiment(**HERE, experiment_id=level.pk, actor=two.sam)
    watched = begin(two, take_off=False)
    count(watched, now - timedelta(hours=1), base=100, new=50)
    assert take_off_worse(now) == []
    found = conversion_difference("production", "fraud_detector", baseline=1, candidate=2, now=now)
    assert found is not None
    assert found.difference == pytest.approx(-5.0)
    assert found.high is not None
    assert found.high < -1
    assert Endpoint.objects.get().current.weights == {"1": 7000, "2": 3000}  # type: ignore[union-attr]


def test_a_take_off_that_the_baseline_cannot_bear_leaves_the_traffic(two: Fleet) -> None:
    experiment = begin(two)
    now = timezone.now()
    count(experiment, now - timedelta(hours=1), base=100, new=50)
    Placement.objects.filter(deployment__release__version__number=1).update(state="unloaded")
    assert take_off_worse(now) == []
    experiment.refresh_from_db()
    assert experiment.state == "running"


def test_answers_and_outcomes_count_once_however_often_they_come(two: Fleet) -> None:
    experiment = begin(two)
    now = timezone.now().replace(second=0, microsecond=0)
    slot = AnswerSlot(str(experiment.pk), 2, now)
    entry = Entry("edge:test", "answers", "first run", 1, now)
    for _ in range(2):
        book_answers(entry, {slot: 3})
    book_answers(Entry("edge:test", "answers", "second run", 1, now), {slot: 2})

    def outcome(request_id: str, value: float = 1.0) -> KnownOutcome:
        return KnownOutcome(str(experiment.pk), request_id, "purchase", 2, value, now, now)

    assert len(record_outcomes([outcome("a"), outcome("b"), outcome("c", 0.0)])) == 3
    assert record_outcomes([outcome("a"), outcome("d")]) == {(str(experiment.pk), "d")}
    row = ExperimentCount.objects.get()
    assert (row.answered, row.converted) == (5, 3)
    assert Outcome.objects.count() == 4
    stop_experiment(**HERE, experiment_id=experiment.pk, actor=two.sam)
    assert record_outcomes([outcome("e")]) == set()
    assert view_of(experiment, now=now + timedelta(hours=1)).evidence.candidate.answered == 5


def test_where_nobody_could_count_nothing_is_begun(two: Fleet, settings: Any) -> None:
    settings.CONFIG = replace(settings.CONFIG, edge="none")
    with pytest.raises(Conflict) as refused:
        begin(two)
    assert refused.value.code == "no_edge"
    settings.CONFIG = replace(settings.CONFIG, edge="embedded")
    two.gateway.adapter = "kong"
    two.gateway.save()
    with pytest.raises(Conflict) as refused:
        begin(two)
    assert refused.value.code == "not_by_gateway"
