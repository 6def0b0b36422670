"""A rollout's stages: their weights, their times, and how each stands."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.rollouts.plan import default_plan, parse_plan
from deployments.rules.rollouts.progress import Progress
from deployments.rules.rollouts.stages import (
    StageState,
    followed_stages,
    planned_stages,
    step_ends_at,
    whole_s,
)
from deployments.rules.rollouts.types import Plan
from deployments.rules.states import RolloutState
from models_registry.rules.contract_types import Rollout as Clause

# A Monday.
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@given(st.floats(1, 100), st.floats(1, 100), st.integers(1, 86400))
def test_stages_cover_every_step_once_and_end_at_everything(
    start: float, step: float, every: int
) -> None:
    plan = default_plan(Clause(start=start, step=step, every_seconds=every))
    stages = planned_stages(plan, NOON)
    covered = [index for one in stages for index in range(one.first, one.last + 1)]
    assert covered == list(range(len(plan.steps)))
    assert stages[-1].points == 10_000
    times = [one.planned_at for one in stages if one.planned_at]
    assert times == sorted(times)
    assert whole_s(plan, NOON) == (len(stages) - 1) * every


def test_the_usual_plan_moves_by_five_percent_each_quarter_of_an_hour() -> None:
    stages = planned_stages(default_plan(), NOON)
    assert [one.percent for one in stages[:3]] == [5, 10, 15]
    assert stages[2].planned_at == NOON + minutes(30)
    assert len(stages) == 20


def with_approval() -> Plan:
    return parse_plan(
        {
            "steps": [
                {"set_weight": 5},
                {"pause": {"duration": "10m"}},
                {"set_weight": 20},
                {"pause": {}},
                {"set_weight": 50},
                {
                    "analyse": {
                        "metrics": [
                            {
                                "metric": "error_rate",
                                "success_condition": "<= 1",
                                "interval": "1m",
                                "count": 6,
                            }
                        ]
                    }
                },
                {"set_weight": 100},
            ]
        }
    )


def test_no_time_is_said_behind_a_pause_that_a_person_ends() -> None:
    stages = planned_stages(with_approval(), NOON)
    assert [one.planned_at for one in stages] == [NOON, NOON + minutes(10), None, None]
    assert [one.needs_approval for one in stages] == [False, True, False, False]
    assert [metric.name for metric in stages[2].metrics] == ["error_rate"]


def test_a_step_waits_for_the_plans_times_of_the_week() -> None:
    plan = parse_plan(
        {
            "steps": [{"set_weight": 5}, {"pause": {"duration": "6h"}}, {"set_weight": 100}],
            "windows": [{"from": "09:00", "to": "17:00"}],
        }
    )
    # Six hours later it is past five: Tuesday at nine.
    assert planned_stages(plan, NOON)[1].planned_at == datetime(2026, 6, 2, 9, tzinfo=UTC)


def test_what_is_still_to_come_is_expected_later_when_it_goes_slower() -> None:
    plan = default_plan()
    progress = replace(Progress(0, NOON), step=1, moved_at=NOON + minutes(7))
    stages = followed_stages(
        plan,
        progress,
        started_at=NOON,
        ended_at=None,
        began={0: NOON + minutes(7)},
        now=NOON + minutes(8),
    )
    assert [one.state for one in stages[:2]] == [StageState.CURRENT, StageState.TODO]
    assert stages[0].began_at == NOON + minutes(7)
    assert stages[1].planned_at == NOON + minutes(15)
    assert stages[1].expected_at == NOON + minutes(22)
    assert stages[2].expected_at == NOON + minutes(37)
    assert step_ends_at(plan, progress) == NOON + minutes(22)


def test_while_paused_nobody_knows_when_the_next_stage_begins() -> None:
    plan = default_plan()
    progress = replace(Progress(0, NOON), step=3, state=RolloutState.PAUSED)
    stages = followed_stages(
        plan, progress, started_at=NOON, ended_at=None, began={}, now=NOON + minutes(20)
    )
    assert [one.state for one in stages[:3]] == [
        StageState.DONE,
        StageState.CURRENT,
        StageState.TODO,
    ]
    assert all(one.expected_at is None for one in stages)


def test_a_rollback_stops_at_its_stage_and_what_came_after_was_never_reached() -> None:
    plan = default_plan()
    progress = replace(Progress(0, NOON), step=3, state=RolloutState.ROLLED_BACK)
    end = NOON + minutes(21)
    stages = followed_stages(
        plan,
        progress,
        started_at=NOON,
        ended_at=end,
        began={0: NOON, 2: NOON + minutes(15)},
        now=NOON + minutes(60),
    )
    assert [one.state for one in stages[:3]] == [
        StageState.DONE,
        StageState.STOPPED,
        StageState.SKIPPED,
    ]
    assert (stages[0].ended_at, stages[1].ended_at) == (NOON + minutes(15), end)
    assert stages[2].began_at is None


def test_promoted_at_once_leaves_out_the_stages_between() -> None:
    plan = default_plan()
    progress = replace(Progress(0, NOON), step=1, state=RolloutState.PROMOTED)
    stages = followed_stages(
        plan, progress, started_at=NOON, ended_at=NOON, began={0: NOON}, now=NOON
    )
    assert stages[0].state is StageState.DONE
    assert {one.state for one in stages[1:-1]} == {StageState.SKIPPED}
    assert stages[-1].state is StageState.DONE


def test_a_promoted_rollout_has_no_stage_left() -> None:
    plan = default_plan()
    progress = replace(Progress(0, NOON), step=len(plan.steps), state=RolloutState.PROMOTED)
    stages = followed_stages(plan, progress, started_at=NOON, ended_at=NOON, began={}, now=NOON)
    assert {one.state for one in stages} == {StageState.DONE}
    assert step_ends_at(plan, progress) is None
