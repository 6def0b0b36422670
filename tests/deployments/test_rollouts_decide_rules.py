"""The decision of a rollout: every law that it keeps, whatever the plan and whatever comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.rules.rollouts import steering
from deployments.rules.rollouts.analysis import Found, Phase
from deployments.rules.rollouts.conditions import Condition
from deployments.rules.rollouts.decide import decide
from deployments.rules.rollouts.fast import Alarm, Answers, alarm, is_beyond
from deployments.rules.rollouts.looks import BACKGROUND, INLINE, Act, Ask, Decision, Look, Traffic
from deployments.rules.rollouts.measuring import asks
from deployments.rules.rollouts.plan import default_plan, parse_plan
from deployments.rules.rollouts.progress import Cause, progress_json, read_progress
from deployments.rules.rollouts.types import (
    Analyse,
    FastCheck,
    Metric,
    MetricKind,
    Pause,
    Plan,
    SetWeight,
)
from deployments.rules.states import RolloutState
from deployments.rules.statistics.traffic_windows import WindowNumbers

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
GOOD = Found(value=0.1, baseline=0.1, requests=5000, baseline_requests=5000)
BAD = Found(value=9.0, baseline=0.1, requests=5000, baseline_requests=5000)
FEW = Found(value=0.0, requests=3)
BROKEN = Found(error="time-out")


def metric(name: str = "error_rate", **changes: Any) -> Metric:
    usual: dict[str, Any] = {
        "kind": MetricKind.ERROR_RATE,
        "success": Condition("<=", 1.0),
        "interval_s": 60.0,
        "min_requests": 100,
    }
    return Metric(name, **{**usual, **changes})


class Driver:
    """Runs a plan as the service does, with time and findings that the test makes up."""

    def __init__(self, plan: Plan, finds: Callable[[Ask, datetime], Found] | Found = GOOD) -> None:
        self.plan, self.finds = plan, finds
        self.now = START
        self.progress = steering.begin(START)
        self.acknowledged: int | None = 0
        self.look = Look()
        self.weights: list[int] = []
        self.steps: list[int] = [0]
        self.acts: list[Act] = []

    def find(self, ask: Ask) -> Found:
        return self.finds if isinstance(self.finds, Found) else self.finds(ask, self.now)

    def turn(self) -> Decision:
        due = asks(self.plan, self.progress, self.now, frozen=bool(self.look.frozen))
        look = replace(
            self.look,
            found={(one.scope, one.metric.name): self.find(one) for one in due},
            acknowledged=self.acknowledged,
        )
        decision = decide(self.plan, self.progress, look, self.now)
        again = decide(self.plan, decision.progress, look, self.now)
        assert again.progress == decision.progress, "twice at one instant moves once"
        assert again.action.act in {Act.WAIT}
        assert again.judged == ()
        stored = read_progress(
            progress_json(decision.progress),
            state=decision.progress.state,
            cause=decision.progress.cause,
            message=decision.progress.message,
        )
        assert stored == decision.progress, "a restart goes on from there"
        self.progress = stored
        self.acts.append(decision.action.act)
        if decision.action.points is not None:
            self.weights.append(decision.action.points)
            self.acknowledged = decision.action.points
        self.steps.append(self.progress.step)
        return decision

    def run(self, turns: int = 4000) -> Driver:
        """Until it has ended, or stands still for a person."""
        for _ in range(turns):
            decision = self.turn()
            if self.progress.state is not RolloutState.RUNNING:
                return self
            assert decision.next_look > self.now
            self.now = decision.next_look
        raise AssertionError(f"it did not come to an end: {self.progress}")

    def wait(self, seconds: float) -> Driver:
        """Turn each second for so long."""
        for _ in range(int(seconds)):
            self.turn()
            self.now += timedelta(seconds=1)
        return self


QUICK = Plan(
    (SetWeight(1000), Pause(60.0), SetWeight(5000), Pause(60.0), SetWeight(10_000)),
    background=(metric(interval_s=10.0, window_s=60.0),),
)

steps = st.lists(
    st.one_of(
        st.integers(1, 10_000).map(SetWeight),
        st.floats(0, 300).map(Pause),
        st.builds(
            lambda count, limit: Analyse(
                (metric(interval_s=5.0, count=count, failure_limit=limit),)
            ),
            st.integers(1, 4),
            st.integers(0, 2),
        ),
    ),
    max_size=8,
)
plans = st.builds(
    lambda first, rest, background, fast: Plan(
        (SetWeight(first), *rest, SetWeight(10_000)),
        background=(metric(interval_s=20.0),) if background else (),
        fast=FastCheck() if fast else None,
    ),
    st.integers(1, 10_000),
    steps,
    st.booleans(),
    st.booleans(),
)


@given(plans)
@settings(max_examples=150, deadline=None)
def test_a_good_version_gets_all_traffic_step_by_step(plan: Plan) -> None:
    driver = Driver(plan).run()
    assert driver.progress.state is RolloutState.PROMOTED
    assert all(b - a in (0, 1) for a, b in zip(driver.steps, driver.steps[1:], strict=False)), (
        "no step is left out"
    )
    wanted, weight = [], 0
    for step in plan.steps:
        if isinstance(step, SetWeight) and step.points != weight:
            weight = step.points
            wanted.append(weight)
    assert driver.weights == wanted
    assert max(driver.weights) <= plan.highest
    least = sum(one.seconds or 0 for one in plan.steps if isinstance(one, Pause))
    assert (driver.now - START).total_seconds() >= least


@given(plans, st.integers(0, 400), st.sampled_from([BAD, BROKEN]))
@settings(max_examples=150, deadline=None)
def test_a_failing_measurement_always_ends_at_nothing(plan: Plan, after: int, bad: Found) -> None:
    """From some second on every measurement is bad: either all was over, or it ends at 0."""
    turned = START + timedelta(seconds=after)
    driver = Driver(plan, lambda ask, now: bad if now >= turned else GOOD).run()
    measured_bad = Act.ROLL_BACK in driver.acts or Act.ABORT in driver.acts
    if driver.progress.state is RolloutState.PROMOTED:
        assert not measured_bad
        return
    assert driver.weights[-1] == 0
    assert driver.acknowledged == 0
    expected = RolloutState.ROLLED_BACK if bad is BAD else RolloutState.ABORTED
    assert driver.progress.state is expected


@given(plans, st.lists(st.sampled_from([GOOD, BAD, FEW, BROKEN]), min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_whatever_is_found_it_comes_to_an_end_or_waits_for_a_person(
    plan: Plan, findings: list[Found]
) -> None:
    left = iter(findings)
    driver = Driver(plan, lambda ask, now: next(left, GOOD)).run()
    assert driver.progress.state is not RolloutState.RUNNING
    if driver.progress.state is RolloutState.PAUSED:
        assert driver.progress.cause == Cause.INCONCLUSIVE
    assert all(0 <= one <= plan.highest for one in driver.weights)


@given(plans, st.integers(0, 10**9))
@settings(max_examples=50, deadline=None)
def test_no_clock_but_the_argument(plan: Plan, shift: int) -> None:
    """The same story, years earlier or later, is the same story."""
    here = Driver(plan).run()
    there = Driver(plan)
    there.now = START + timedelta(seconds=shift)
    there.progress = steering.begin(there.now)
    there.run()
    assert (there.acts, there.weights) == (here.acts, here.weights)
    assert there.now - (START + timedelta(seconds=shift)) == here.now - START


def test_the_usual_plan_takes_what_the_contract_says() -> None:
    driver = Driver(default_plan()).run(40_000)
    assert driver.weights == list(range(500, 10_001, 500))
    assert timedelta(minutes=285) <= driver.now - START < timedelta(minutes=287)


def test_a_weight_counts_from_when_every_gateway_has_it() -> None:
    driver = Driver(QUICK)
    driver.turn()
    assert driver.weights == [1000]
    driver.acknowledged = None
    driver.now += timedelta(seconds=30)
    driver.turn()
    assert (driver.progress.step, driver.progress.cause) == (0, Cause.NOT_ACKNOWLEDGED)
    driver.acknowledged = 1000
    driver.now += timedelta(seconds=1)
    driver.turn()
    assert (driver.progress.step, driver.progress.cause) == (1, "")
    driver.wait(59)
    assert driver.progress.step == 1


def test_few_requests_in_the_middle_of_a_pause_are_no_news() -> None:
    """A quiet service at night: nothing is judged until the step would go on because of it."""
    driver = Driver(QUICK, FEW)
    driver.wait(50)
    assert driver.progress.state is RolloutState.RUNNING
    assert driver.progress.background is not None
    assert driver.progress.background.metrics["error_rate"].inconclusive == 0
    driver.run()
    assert (driver.progress.state, driver.progress.cause) == (
        RolloutState.PAUSED,
        Cause.INCONCLUSIVE,
    )
    assert "3 requests" in driver.progress.message
    assert "100 are needed" in driver.progress.message
    assert driver.acknowledged == 1000, "what it has it keeps"
    # The morning comes, and somebody lets it try once more.
    driver.finds = GOOD
    driver.progress = steering.resumed(QUICK, driver.progress, driver.now, weight=1000)
    assert driver.run().progress.state is RolloutState.PROMOTED


def test_an_inconclusive_limit_allows_for_some_at_the_gate_one_interval_apart() -> None:
    plan = replace(QUICK, background=(metric(interval_s=10.0, inconclusive_limit=2),))
    driver = Driver(plan, FEW).run()
    assert driver.progress.cause == Cause.INCONCLUSIVE
    assert driver.now - START >= timedelta(seconds=80)
    assert Act.HOLD in driver.acts


def test_errors_have_a_limit_of_their_own_and_one_success_forgives() -> None:
    findings = iter([*[BROKEN] * 4, GOOD, *[BROKEN] * 5])
    plan = Plan(
        (SetWeight(1000), Pause(3600.0), SetWeight(10_000)), background=(metric(interval_s=10.0),)
    )
    driver = Driver(plan, lambda ask, now: next(findings))
    driver.run()
    assert (driver.progress.state, driver.progress.cause) == (
        RolloutState.ABORTED,
        Cause.ANALYSIS_ERROR,
    )
    assert list(findings) == []
    run = driver.progress.background
    assert run is not None
    assert (run.phase, run.metrics["error_rate"].failed) == (Phase.ERROR, 0)


def test_a_dry_run_never_decides() -> None:
    plan = replace(QUICK, background=(metric(), metric("tried", dry_run=True)))
    driver = Driver(plan, lambda ask, now: BAD if ask.metric.dry_run else GOOD).run()
    assert driver.progress.state is RolloutState.PROMOTED
    run = driver.progress.background
    assert run is not None
    assert run.metrics["tried"].phase is Phase.FAILED


def test_between_success_and_failure_is_inconclusive() -> None:
    between = metric(count=1, interval_s=None, failure=Condition(">", 5.0))
    plan = Plan((SetWeight(1000), Analyse((between,)), SetWeight(10_000)))
    found = replace(GOOD, value=3.0)
    driver = Driver(plan, found).run()
    assert driver.progress.cause == Cause.INCONCLUSIVE
    assert "neither success nor failure" in driver.progress.message


def test_relative_to_a_baseline_that_nobody_called_is_inconclusive() -> None:
    relative = metric(count=1, interval_s=None, success=Condition("<=", 1.2, "*"))
    plan = Plan((SetWeight(1000), Analyse((relative,)), SetWeight(10_000)))
    driver = Driver(plan, replace(GOOD, baseline=None, baseline_requests=2)).run()
    assert driver.progress.cause == Cause.INCONCLUSIVE
    assert "old version got 2 requests" in driver.progress.message


def test_an_initial_delay_is_waited_for() -> None:
    slow = metric(count=1, interval_s=None, initial_delay_s=120.0)
    plan = Plan((SetWeight(1000), Analyse((slow,)), SetWeight(10_000)))
    driver = Driver(plan).run()
    assert timedelta(seconds=120) <= driver.now - START < timedelta(seconds=140)


def test_rollouts_that_were_all_overdue_keep_their_own_beats() -> None:
    times = set()
    for spread in (0.0, 0.25, 0.5, 0.75):
        driver = Driver(Plan((SetWeight(1000), Pause(9000.0)), background=(metric(),)))
        driver.progress = steering.begin(START, spread=spread)
        driver.wait(3)
        driver.now += timedelta(seconds=600)
        driver.turn()
        run = driver.progress.background
        assert run is not None
        next_at = run.metrics["error_rate"].next_at
        assert next_at is not None
        assert driver.now < next_at <= driver.now + timedelta(seconds=60)
        times.add(next_at)
    assert len(times) == 4


def test_an_alarm_ends_it_at_once_also_while_it_is_paused_or_frozen() -> None:
    for prepare in (
        lambda progress: progress,
        lambda progress: steering.paused(progress, "lunch"),
    ):
        driver = Driver(QUICK)
        driver.wait(10)
        driver.progress = prepare(driver.progress)
        driver.look = Look(alarm=Alarm("latency", "too slow"), frozen="Holidays")
        driver.turn()
        assert driver.weights[-1] == 0
        assert (driver.progress.state, driver.progress.cause) == (
            RolloutState.ROLLED_BACK,
            "latency",
        )


def test_a_version_that_no_node_has_is_taken_off_and_never_put_on() -> None:
    driver = Driver(QUICK)
    driver.look = Look(ready=False)
    driver.turn()
    assert (driver.progress.state, driver.weights) == (RolloutState.PAUSED, [])
    driver = Driver(QUICK)
    driver.wait(10)
    driver.look = Look(ready=False)
    driver.turn()
    assert (driver.progress.cause, driver.weights[-1]) == (Cause.NO_NODE, 0)


def test_a_freeze_holds_steps_and_lets_go_by_itself() -> None:
    driver = Driver(QUICK)
    driver.look = Look(frozen="Holidays, until Monday")
    driver.wait(300)
    assert driver.weights == []
    assert driver.progress.state is RolloutState.RUNNING
    assert (driver.progress.cause, driver.acts.count(Act.HOLD)) == (Cause.FROZEN, 1)
    driver.look = Look()
    assert driver.run().progress.state is RolloutState.PROMOTED


def test_outside_of_its_times_no_step_begins() -> None:
    document = {
        "steps": [{"set_weight": 10}, {"pause": "60s"}],
        "analysis": False,
        "windows": [{"from": "13:00", "to": "17:00"}],
    }
    driver = Driver(parse_plan(document)).run()
    assert driver.progress.state is RolloutState.PROMOTED
    assert driver.now >= START + timedelta(hours=1)
    assert driver.acts[0] is Act.HOLD


def test_people_and_rollbacks_take_precedence() -> None:
    driver = Driver(QUICK)
    driver.wait(10)
    driver.look = Look(traffic=Traffic.MOVED, traffic_message="sam moved it", alarm=Alarm("x", "y"))
    driver.turn()
    assert (driver.progress.state, driver.progress.cause) == (
        RolloutState.PAUSED,
        Cause.TRAFFIC_MOVED,
    )
    driver.wait(100)
    assert driver.weights == [1000], "whoever moved it is not overruled"
    driver.progress = steering.resumed(QUICK, driver.progress, driver.now, weight=3300)
    driver.look, driver.acknowledged = Look(), 3300
    driver.run()
    assert driver.weights == [1000, 1000, 5000, 10_000], "the step's own weight is set again"
    driver = Driver(QUICK)
    driver.wait(10)
    driver.look = Look(traffic=Traffic.ROLLED_BACK, traffic_message="sam rolled back")
    driver.turn()
    assert driver.progress.state is RolloutState.ABORTED
    assert driver.weights == [1000], "the split is the rollback's already"


def test_pause_until_approved_and_skip() -> None:
    plan = Plan((SetWeight(1000), Pause(None), SetWeight(5000), Pause(9e5), SetWeight(10_000)))
    driver = Driver(plan).run()
    assert driver.progress.cause == Cause.APPROVAL
    driver.progress = steering.resumed(plan, driver.progress, driver.now, weight=1000)
    driver.wait(5)
    assert driver.weights == [1000, 5000]
    driver.progress = steering.skipped(plan, driver.progress, driver.now)
    assert driver.run().progress.state is RolloutState.PROMOTED


def test_skipping_again_and_again_never_passes_over_a_weight() -> None:
    driver = Driver(QUICK).wait(2)
    for _ in range(10):
        driver.progress = steering.skipped(QUICK, driver.progress, driver.now)
    assert driver.progress.is_active
    assert driver.progress.weight == 1000
    driver.wait(5)
    assert driver.weights[:2] == [1000, 5000]
    for _ in range(10):
        driver.progress = steering.skipped(QUICK, driver.progress, driver.now)
    assert driver.run().progress.state is RolloutState.PROMOTED
    assert driver.weights == [1000, 5000, 10_000]


def test_nothing_is_asked_before_there_is_traffic_or_after_the_end() -> None:
    progress = steering.begin(START)
    assert asks(QUICK, progress, START) == []
    driver = Driver(QUICK).wait(5)
    assert [one.scope for one in asks(QUICK, driver.progress, driver.now + timedelta(60))] == [
        BACKGROUND
    ]
    ended = replace(driver.progress, state=RolloutState.PROMOTED)
    assert asks(QUICK, ended, driver.now) == []
    assert decide(QUICK, ended, Look(), driver.now).action.act is Act.WAIT


def test_a_window_never_reaches_back_before_the_present_weight() -> None:
    plan = Plan(
        (SetWeight(1000), Analyse((metric(count=1, interval_s=None, window_s=600.0),))),
    )
    driver = Driver(plan).wait(4)
    seen: list[float] = []

    def find(ask: Ask, now: datetime) -> Found:
        seen.append(ask.seconds)
        assert ask.scope == INLINE
        return GOOD

    fresh = Driver(plan, find).wait(10)
    assert seen == [pytest.approx(2.0, abs=2.0)]
    assert fresh.progress.step >= driver.progress.step


# The fast check.


@given(st.integers(0, 10_000), st.floats(0.0001, 0.5))
def test_a_version_within_its_limit_never_raises_the_alarm(total: int, limit: float) -> None:
    assert not is_beyond(int(total * limit), total, limit)


@given(st.integers(1, 500), st.integers(1, 500), st.floats(0.0001, 0.5))
def test_more_faults_never_look_better(bad: int, good: int, limit: float) -> None:
    if is_beyond(bad, bad + good, limit):
        assert is_beyond(bad + 1, bad + good, limit)


def test_few_requests_are_enough_where_all_fail_and_one_failure_is_not() -> None:
    check = FastCheck(1.0, 80.0)
    assert alarm(check, {3.0: WindowNumbers(requests=3, provider_faults=3)}) is None
    found = alarm(check, {3.0: WindowNumbers(requests=4, provider_faults=4)})
    assert found is not None
    assert found.cause == "error_rate"
    assert alarm(check, {30.0: WindowNumbers(requests=5, provider_faults=1)}) is None


def test_slow_answers_and_bad_outputs_raise_it_too() -> None:
    check = FastCheck(1.0, 80.0, 1.0)
    slow = WindowNumbers(requests=10, bounds=(10.0, 80.0, 200.0), buckets={2: 10})
    found = alarm(check, {3.0: slow})
    assert found is not None
    assert found.cause == "latency"
    fine = WindowNumbers(requests=10, bounds=(10.0, 80.0, 200.0), buckets={1: 10})
    assert alarm(check, {3.0: fine}) is None
    outputs = alarm(check, {3.0: fine}, Answers(sampled=8, faults=8))
    assert outputs is not None
    assert outputs.cause == "outputs"
    assert alarm(FastCheck(None, None, None), {3.0: slow}, Answers(8, 8)) is None


def test_a_limit_of_nothing_is_broken_by_one() -> None:
    found = alarm(FastCheck(0.0), {3.0: WindowNumbers(requests=1000, provider_faults=1)})
    assert found is not None
