"""Rollouts after a restart of everything, by impatient hands, with plans that cannot be read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from console.errors import Conflict, Invalid
from deployments.models import Node, Rollout
from deployments.rules.rollouts.progress import Cause
from deployments.selectors.rollouts import looks as rollout_looks
from deployments.services.rollouts.acts import (
    abort_rollout,
    pause_rollout,
    resume_rollout,
    skip_step,
)
from deployments.services.rollouts.engine import Report, RolloutWatch, tick
from tests.deployments.test_rollouts_services import PLAN, Story, story  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


def test_a_restart_of_everything_lets_it_go_on_from_its_step(story: Story) -> None:
    rollout = story.start({**PLAN, "fast_check": {"max_error_rate": 1}})
    story.run(20, good=20)
    assert story.weights == {"1": 9000, "2": 1000}
    # Everything was down for a while; its nodes are still loading as it begins to look.
    story.now += timedelta(seconds=40)
    watch = RolloutWatch()
    Node.objects.update(state="lost")
    for second in range(75):
        if second == 9:
            Node.objects.update(state="ready")
        story.calls(bad=20 if second < 9 else 0, good=0 if second < 9 else 20)
        watch(story.now)
        if story.split.applied_at is None:
            story.acknowledge()
        story.now += timedelta(seconds=1)
        rollout.refresh_from_db()
        assert rollout.state != "rolled_back", (second, rollout.message)
        if second < 40:
            assert story.weights == {"1": 9000, "2": 1000}, "the pause begins anew"
    assert (rollout.cause, story.weights) == (Cause.APPROVAL, {"1": 5000, "2": 5000})
    # From then on it is watched as ever.
    for _ in range(5):
        story.calls(bad=20)
        watch(story.now)
        story.now += timedelta(seconds=1)
    rollout.refresh_from_db()
    assert (rollout.state, rollout.cause) == ("rolled_back", "error_rate")


@pytest.mark.parametrize("condition", ["<= 1e999", "<= baseline * 1e999"])
def test_a_plan_that_could_not_be_read_again_is_refused(story: Story, condition: str) -> None:
    with pytest.raises(Invalid) as refused:
        story.start({"analysis": [{"name": "error_rate", "success_condition": condition}]})
    assert refused.value.errors[0].pointer == "/analysis/metrics/0/success_condition"
    assert not Rollout.objects.exists()


def test_a_plan_that_cannot_be_read_holds_up_nobody_and_can_be_ended(story: Story) -> None:
    rollout = story.start()
    Rollout.objects.update(plan={"steps": "of another release"})
    rollout_looks._plans.clear()
    assert tick(story.now) == Report()
    with pytest.raises(Conflict) as refused:
        skip_step(rollout_id=rollout.pk, actor=story.fleet.sam)
    assert refused.value.code == "plan_unreadable"
    aborted = abort_rollout(rollout_id=rollout.pk, reason="no", actor=story.fleet.sam)
    assert (aborted.state, story.weights) == ("aborted", {"1": 10_000})


def test_who_presses_twice_skips_one_step(story: Story) -> None:
    rollout = story.start()
    story.run(3, good=20)
    act = {"rollout_id": rollout.pk, "actor": story.fleet.sam}
    looked_at = rollout.progress["step"] + 1
    assert skip_step(step=looked_at, **act).progress["step"] == looked_at
    for again in (skip_step, lambda **given: resume_rollout(**given)):
        pause_rollout(**act)
        with pytest.raises(Conflict) as refused:
            again(step=looked_at, **act)
        assert refused.value.code == "step_over"
        assert f"it is at {looked_at + 1}" in refused.value.message
    assert resume_rollout(step=looked_at + 1, **act).state == "running"
