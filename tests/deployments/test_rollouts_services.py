"""Rollouts against the database: started, moved along second by second, and ended each way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.errors import Conflict, Invalid, NotAllowed
from console.models import AuditEntry, Notice
from deployments.adapters import live_store
from deployments.models import (
    AnalysisRun,
    Endpoint,
    Incident,
    Measurement,
    NodeState,
    Rollout,
    SplitCause,
    TrafficSplit,
)
from deployments.rules.rollouts.progress import Cause
from deployments.rules.statistics import histograms
from deployments.rules.statistics.live_window import Second, to_point
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.rollouts.looks import moment
from deployments.services.incidents.rollbacks import roll_back
from deployments.services.rollouts.acts import (
    abort_rollout,
    pause_rollout,
    promote_rollout,
    resume_rollout,
    skip_step,
    start_rollout,
)
from deployments.services.rollouts.engine import Report, reconcile, tick
from deployments.services.traffic.splits import set_split
from models_registry.services.freezes import freeze_environment
from tests import factories
from tests.deployments.conftest import Fleet, applied, ready_version

pytestmark = pytest.mark.django_db

BOUNDS = (10.0, 50.0, 80.0, 200.0)
PLAN: dict[str, Any] = {
    "steps": [{"set_weight": 10}, {"pause": "30s"}, {"set_weight": 50}, {"pause": {}}],
    "analysis": [
        {
            "name": "error_rate",
            "success_condition": "<= 1",
            "interval": "10s",
            "window": "30s",
            "min_requests": 10,
        }
    ],
}


class Story:
    """An endpoint with v1 serving and v2 ready, whose gateways and callers the test plays."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.model = factories.make_model("rollouts_story")
        self.placements = [
            ready_version(fleet, factories.make_version(self.model)) for _ in range(2)
        ]
        self.endpoint = Endpoint.objects.get(model=self.model, environment=fleet.production)
        self.acknowledge(
            set_split(
                environment="production",
                model=self.model.name,
                weights={1: 100},
                expected_revision=None,
                reason="a start",
                actor=fleet.sam,
            )
        )
        live_store.store({}, {}, BOUNDS)
        live_store.live.connection().delete(f"covenant:ring:{self.endpoint}")
        self.now = datetime.now(UTC)

    def start(self, plan: Any = PLAN, **changes: Any) -> Rollout:
        self.rollout = start_rollout(
            environment="production",
            model=self.model.name,
            version=2,
            plan=plan,
            reason="the next model",
            actor=changes.pop("actor", self.fleet.sam),
            **changes,
        )
        self.now = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
        return self.rollout

    @property
    def split(self) -> TrafficSplit:
        self.endpoint.refresh_from_db()
        assert self.endpoint.current is not None
        return self.endpoint.current

    @property
    def weights(self) -> dict[str, int]:
        return {version: points for version, points in self.split.weights.items() if points}

    def acknowledge(self, split: TrafficSplit | None = None) -> None:
        applied(split or self.split)

    def calls(self, *, good: int = 0, bad: int = 0, slow: int = 0) -> None:
        """What the gateways count within a second: of the new version, and 100 of the old."""
        counts = [good + bad, 0, 0, slow, 0]
        new = Traffic(good + bad + slow, 0, bad, {}, histograms.Histogram(BOUNDS, tuple(counts)))
        old = Traffic(100, 0, 0, {}, histograms.Histogram(BOUNDS, (100, 0, 0, 0, 0)))
        point = to_point(Second(self.now.timestamp(), {1: old, 2: new}, {}))
        live_store.store({}, {str(self.endpoint): point}, BOUNDS)

    def run(self, seconds: int, *, ack: bool = True, **calls: int) -> Rollout:
        """So many seconds of life, each with calls and a tick."""
        for _ in range(seconds):
            if calls:
                self.calls(**calls)
            reconcile(self.rollout.pk, self.now)
            if ack and self.split.applied_at is None:
                self.acknowledge()
            self.now += timedelta(seconds=1)
        self.rollout.refresh_from_db()
        return self.rollout


@pytest.fixture
def story(fleet_rows: Fleet) -> Story:
    return Story(fleet_rows)


def test_a_good_version_goes_all_the_way(story: Story) -> None:
    rollout = story.start()
    assert story.weights == {"1": 9000, "2": 1000}, "the first step is taken at once"
    assert (story.split.cause, story.split.author.username) == (SplitCause.ROLLOUT, "system")
    story.run(40, good=20)
    assert story.weights == {"1": 5000, "2": 5000}
    story.run(5, good=20)
    assert (story.rollout.state, story.rollout.cause) == ("paused", Cause.APPROVAL)
    resume_rollout(rollout_id=rollout.pk, reason="looks good", actor=story.fleet.sam)
    story.run(5, good=20)
    assert story.rollout.state == "promoted"
    assert story.weights == {"2": 10_000}
    assert story.rollout.ended_at is not None
    kinds = list(rollout.events.order_by("pk").values_list("kind", flat=True))
    assert kinds == [
        "started", "weight", "weight", "paused", "resumed", "weight", "promoted",
    ]  # fmt: skip
    run = AnalysisRun.objects.get(rollout=rollout)
    assert (run.step, run.phase) == (None, "successful")
    taken = list(Measurement.objects.filter(analysis=run).values_list("phase", flat=True))
    assert set(taken) == {"successful"}
    assert 3 <= len(taken) <= 6
    actions = set(
        AuditEntry.objects.filter(action__startswith="rollout.").values_list("action", flat=True)
    )
    assert {"rollout.start", "rollout.set_weight", "rollout.pause", "rollout.resume"} <= actions


def test_a_failing_version_is_off_within_the_second_it_is_seen(story: Story) -> None:
    rollout = story.start()
    story.run(5, good=20)
    story.run(1, bad=10)
    assert (story.rollout.state, story.rollout.cause) == ("rolled_back", "error_rate")
    assert story.weights == {"1": 10_000}
    incident = Incident.objects.get(rollout=rollout)
    assert (incident.cause, incident.version, incident.level) == ("error_rate", 2, 1)
    told = Notice.objects.filter(kind="rollout.failed")
    assert {one.recipient.username for one in told} == {"sam"}
    assert "10 of" in told[0].data["why"]


def test_slow_is_as_bad_as_failing(story: Story) -> None:
    plan = {**PLAN, "fast_check": {"max_p99_ms": 80}}
    story.start(plan)
    story.run(3, good=20)
    story.run(2, slow=10)
    assert (story.rollout.state, story.rollout.cause) == ("rolled_back", "latency")


def test_an_analysis_fails_what_the_fast_check_lets_pass(story: Story) -> None:
    """Two in a hundred where one may: nobody would swear to it within seconds."""
    story.start({**PLAN, "steps": [{"set_weight": 10}, {"pause": "10m"}]})
    story.run(20, good=49, bad=1)
    assert (story.rollout.state, story.rollout.cause) == ("rolled_back", Cause.ANALYSIS_FAILED)
    failed = Measurement.objects.get(phase="failed")
    assert failed.value == pytest.approx(2.0)
    assert failed.limit == "success <= 1"
    assert story.weights == {"1": 10_000}


def test_nobody_calls_at_night(story: Story) -> None:
    rollout = story.start()
    story.run(45, good=0, bad=0)
    assert (story.rollout.state, story.rollout.cause) == ("paused", Cause.INCONCLUSIVE)
    assert "10 are needed" in story.rollout.message
    assert story.weights == {"1": 9000, "2": 1000}
    assert Notice.objects.filter(kind="rollout.paused").count() == 1
    assert AnalysisRun.objects.get(rollout=rollout).phase == "inconclusive"
    resume_rollout(rollout_id=rollout.pk, actor=story.fleet.sam)
    assert not Notice.objects.filter(kind="rollout.paused", ended_at__isnull=True).exists()
    story.run(45, good=20)
    assert story.weights == {"1": 5000, "2": 5000}
    assert AnalysisRun.objects.filter(rollout=rollout).count() == 2


def test_without_live_numbers_it_is_an_error_and_no_failure(story: Story) -> None:
    story.start({**PLAN, "steps": [{"set_weight": 10}, {"pause": "10m"}]})
    story.run(70)
    assert (story.rollout.state, story.rollout.cause) == ("aborted", Cause.ANALYSIS_ERROR)
    assert not Incident.objects.exists()
    assert story.weights == {"1": 10_000}


def test_twice_at_one_moment_and_by_two_processes_is_once(story: Story) -> None:
    story.start()
    story.run(3, good=20)
    story.calls(good=20)
    read = moment(Rollout.objects.filter(pk=story.rollout.pk), story.now)
    before = (story.split.revision, Measurement.objects.count())
    for _ in range(3):
        reconcile(story.rollout.pk, story.now)
    assert (story.split.revision, Measurement.objects.count()) == before
    # Another process acts on what it read before a person was quicker.
    abort_rollout(rollout_id=story.rollout.pk, reason="no", actor=story.fleet.sam)
    from deployments.services.rollouts import engine as rollout_engine

    late = rollout_engine._work(read, rollout_engine.queries)
    assert late == Report(looked=1)
    story.rollout.refresh_from_db()
    assert story.rollout.state == "aborted"


def test_a_person_who_moves_the_traffic_pauses_it(story: Story) -> None:
    rollout = story.start()
    story.run(3, good=20)
    set_split(
        environment="production",
        model=story.model.name,
        weights={1: 70, 2: 30},
        expected_revision=None,
        reason="I want to see more",
        actor=story.fleet.sam,
    )
    story.run(3, good=20)
    assert (story.rollout.state, story.rollout.cause) == ("paused", Cause.TRAFFIC_MOVED)
    assert "sam moved the traffic" in story.rollout.message
    assert story.weights == {"1": 7000, "2": 3000}
    resume_rollout(rollout_id=rollout.pk, actor=story.fleet.sam)
    story.run(2, good=20)
    assert story.weights == {"1": 9000, "2": 1000}


def test_a_change_of_rules_alone_does_not_pause_it(story: Story) -> None:
    story.start()
    story.run(3, good=20)
    set_split(
        environment="production",
        model=story.model.name,
        weights={1: 90, 2: 10},
        expected_revision=None,
        reason="testers",
        header_rules=[{"header": "x-tester", "value": "1", "version": 2}],
        actor=story.fleet.sam,
    )
    story.run(40, good=20)
    assert story.weights == {"1": 5000, "2": 5000}
    story.run(2, bad=20)
    assert story.rollout.state == "rolled_back"
    assert story.split.header_rules == []


def test_a_rollback_ends_it(story: Story) -> None:
    story.start()
    story.run(3, good=20)
    roll_back(
        environment="production",
        model=story.model.name,
        reason="it looks odd",
        actor=story.fleet.sam,
    )
    story.run(2, good=20)
    assert (story.rollout.state, story.rollout.cause) == ("aborted", Cause.ROLLED_BACK_BY_HAND)
    assert story.weights == {"1": 10_000}


def test_a_lost_node_takes_it_off(story: Story) -> None:
    story.start()
    story.run(3, good=20)
    story.fleet.node.__class__.objects.update(state=NodeState.LOST)
    story.run(1)
    assert (story.rollout.state, story.rollout.cause) == ("rolled_back", Cause.NO_NODE)


def test_a_refused_split_pauses_it(story: Story) -> None:
    story.start()
    refused = story.split
    story.endpoint.current = TrafficSplit.objects.get(endpoint=story.endpoint, revision=1)
    story.endpoint.save()
    TrafficSplit.objects.filter(pk=refused.pk).update(state="refused")
    story.run(1, ack=False)
    assert (story.rollout.state, story.rollout.cause) == ("paused", Cause.REFUSED_BY_GATEWAY)


def test_people_steer_it(story: Story) -> None:
    rollout = story.start()
    story.run(3, good=20)
    act = {"rollout_id": rollout.pk, "actor": story.fleet.sam}
    assert pause_rollout(reason="lunch", **act).state == "paused"
    assert pause_rollout(**act).events.filter(kind="paused").count() == 1
    story.run(60, good=20)
    assert story.weights == {"1": 9000, "2": 1000}
    assert resume_rollout(**act).state == "running"
    skip_step(**act)
    story.run(3, good=20)
    assert story.weights == {"1": 5000, "2": 5000}
    promoted = promote_rollout(reason="enough seen", **act)
    assert (promoted.state, story.weights) == ("promoted", {"2": 10_000})
    with pytest.raises(Conflict) as ended:
        abort_rollout(reason="too late", **act)
    assert ended.value.code == "rollout_ended"


def test_abort_twice_is_once_and_keeps_what_others_decided(story: Story) -> None:
    rollout = story.start()
    story.run(3, good=20)
    for _ in range(2):
        aborted = abort_rollout(rollout_id=rollout.pk, reason="no", actor=story.fleet.sam)
    assert (aborted.state, story.weights) == ("aborted", {"1": 10_000})
    assert rollout.events.filter(kind="aborted").count() == 1
    story.start()
    with pytest.raises(Invalid):
        abort_rollout(rollout_id=rollout.pk, reason=" ", actor=story.fleet.sam)


def test_starting_is_checked_and_idempotent(story: Story) -> None:
    first = story.start()
    assert story.start().pk == first.pk
    with pytest.raises(Conflict) as active:
        story.start({"steps": [{"set_weight": 20}]})
    assert active.value.code == "rollout_active"
    abort_rollout(rollout_id=first.pk, reason="no", actor=story.fleet.sam)
    for changes, code in (({"baseline": 2}, "no_baseline"), ({"baseline": 9}, "no_baseline")):
        with pytest.raises(Conflict) as refused:
            story.start(**changes)
        assert refused.value.code == code
    with pytest.raises(NotAllowed):
        story.start(actor=factories.actor(factories.people().dana))
    story.placements[1].state = "draining"
    story.placements[1].save()
    with pytest.raises(Conflict) as not_ready:
        story.start()
    assert not_ready.value.code == "not_ready"


def test_a_freeze_refuses_a_start_and_holds_what_is_under_way(story: Story) -> None:
    rollout = story.start()
    story.run(3, good=20)
    freeze_environment(
        environment=story.fleet.production,
        name="Holidays",
        starts_at=datetime.now(UTC) - timedelta(hours=1),
        ends_at=datetime.now(UTC) + timedelta(days=1),
        reason="nobody is on call",
        actor=story.fleet.sam,
    )
    story.run(60, good=20)
    assert (story.rollout.state, story.rollout.cause) == ("running", Cause.FROZEN)
    assert "nobody is on call" in story.rollout.message
    assert story.weights == {"1": 9000, "2": 1000}
    story.run(2, bad=20)
    assert story.rollout.state == "rolled_back", "away from it is always allowed"
    with pytest.raises(Conflict) as frozen:
        story.start()
    assert frozen.value.code == "frozen"
    assert rollout.events.filter(kind="held").count() == 1


def test_the_contract_says_the_plan_where_none_is_given(story: Story) -> None:
    rollout_clause = {"start": 20, "step": 40, "every": "1m", "analysis": {"min_requests": 7}}
    factories.make_contract(story.model, rollout=rollout_clause)
    rollout = story.start(None)
    weights = [one["set_weight"] for one in rollout.plan["steps"] if "set_weight" in one]
    assert weights == [20.0, 60.0, 100.0]
    assert {one["min_requests"] for one in rollout.plan["analysis"]["metrics"]} == {7}
    assert rollout.plan["fast_check"]["max_p99_ms"] == 80.0


def test_three_versions_keep_their_proportions(story: Story) -> None:
    ready_version(story.fleet, factories.make_version(story.model))
    story.acknowledge(
        set_split(
            environment="production",
            model=story.model.name,
            weights={1: 60, 3: 40},
            expected_revision=None,
            reason="two serve",
            actor=story.fleet.sam,
        )
    )
    rollout = story.start()
    assert rollout.baseline == 1
    assert story.weights == {"1": 5400, "2": 1000, "3": 3600}


def test_a_tick_asks_the_database_as_often_for_many_as_for_one(story: Story) -> None:
    story.start()
    story.run(3, good=20)
    story.calls(good=20)
    with CaptureQueriesContext(connection) as one:
        assert tick(story.now).looked == 1
    others = []
    for number in range(4):
        model = factories.make_model(f"rollouts_other_{number}")
        for _ in range(2):
            ready_version(story.fleet, factories.make_version(model))
        applied(
            set_split(
                environment="production",
                model=model.name,
                weights={1: 100},
                expected_revision=None,
                reason="a start",
                actor=story.fleet.sam,
            )
        )
        others.append(
            start_rollout(
                environment="production",
                model=model.name,
                version=2,
                plan=PLAN,
                reason="x",
                actor=story.fleet.sam,
            )
        )
    now = datetime.now(UTC) + timedelta(seconds=2)
    Rollout.objects.update(next_look_at=now)
    with CaptureQueriesContext(connection) as many:
        assert tick(now).looked == 5
    assert len(many) <= len(one) + 8, [query["sql"][:100] for query in many.captured_queries]
