"""Down the levels and back: single steps, and what must hold whatever happens."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.rules.incidents.escalation import HOUR, decide, hold_of
from deployments.rules.incidents.escalation_state import (
    Act,
    Decision,
    Health,
    Phase,
    Progress,
    VersionHealth,
    progress_json,
    read_progress,
)
from deployments.rules.incidents.rollback_policies import RollbackPolicy, parse_policy, policy_json
from deployments.rules.incidents.rollback_targets import good_before, left_behind

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = RollbackPolicy()
WELL = VersionHealth(requests=1000, provider_faults=0, p99_ms=5.0, nodes=1)
FAILS = VersionHealth(requests=1000, provider_faults=900, p99_ms=5.0, nodes=1)
GONE = VersionHealth(requests=1000, provider_faults=1000, nodes=0)
IDLE = VersionHealth(nodes=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def health(**changes: Any) -> Health:
    usual = Health(revision=7, weights={2: 10000}, versions={2: WELL, 1: IDLE}, fallback=True)
    return replace(usual, **changes)


def step(decision: Decision, revision: int = 8) -> Progress:
    """The progress as it is stored once the decision was carried out."""
    writes = decision.act in (Act.MOVE, Act.PROBE, Act.RETURN)
    return replace(decision.progress, revision=revision) if writes else decision.progress


def test_a_healthy_endpoint_is_left_alone() -> None:
    decision = decide(POLICY, Progress(), health(), NOON)
    assert (decision.act, decision.progress) == (Act.STAY, Progress())


def test_too_few_requests_say_nothing() -> None:
    few = VersionHealth(requests=POLICY.min_requests - 1, provider_faults=19, nodes=1)
    assert decide(POLICY, Progress(), health(versions={2: few}), NOON).act is Act.STAY


def test_numbers_that_nobody_wrote_for_a_while_say_nothing() -> None:
    stale = health(versions={2: FAILS}, fresh=False)
    assert decide(POLICY, Progress(), stale, NOON).act is Act.STAY


def test_an_earlier_version_is_asked_before_traffic_moves_to_it() -> None:
    bad = health(versions={2: FAILS, 1: IDLE}, others=(1,))
    first = decide(POLICY, Progress(), bad, NOON)
    assert (first.act, first.versions) == (Act.ASK, (1,))
    moved = decide(POLICY, first.progress, replace(bad, asked={1: True}), NOON)
    assert (moved.act, moved.level, moved.versions) == (Act.MOVE, 1, (1,))
    assert moved.cause == "error_rate"
    assert moved.progress.left == (2,)


def test_a_version_that_was_just_left_is_not_gone_back_to() -> None:
    progress = Progress(phase=Phase.SETTLING, level=1, since=NOON, revision=8, left=(2,))
    bad = health(revision=8, weights={1: 10000}, versions={1: FAILS, 2: IDLE}, others=(2,))
    decision = decide(POLICY, progress, bad, at(5))
    assert (decision.act, decision.level) == (Act.MOVE, 2)


def test_the_fallback_answers_when_no_earlier_version_does_and_what_is_gone_is_deployed() -> None:
    bad = health(versions={2: FAILS}, others=(1,), asked={1: False}, gone=(4,))
    decision = decide(POLICY, Progress(), bad, NOON)
    assert (decision.act, decision.level, decision.redeploy) == (Act.MOVE, 2, 4)
    assert decision.progress.phase is Phase.HELD


def test_without_a_fallback_the_circuit_opens_and_somebody_is_called() -> None:
    decision = decide(POLICY, Progress(), health(versions={2: FAILS}, fallback=False), NOON)
    assert (decision.act, decision.level, decision.call) == (Act.MOVE, 3, True)


def test_a_policy_that_goes_no_further_calls_somebody_instead() -> None:
    policy = replace(POLICY, highest_level=1)
    decision = decide(policy, Progress(), health(versions={2: FAILS}), NOON)
    assert (decision.act, decision.call) == (Act.STOP, True)


def test_a_missing_node_counts_once_it_has_been_missing_for_a_while() -> None:
    missing = health(versions={2: replace(GONE, requests=0, provider_faults=0)})
    first = decide(POLICY, Progress(), missing, NOON)
    assert first.act is Act.STAY
    back = decide(POLICY, first.progress, health(), at(3))
    assert back.progress.missing_since is None
    assert decide(POLICY, first.progress, missing, at(4.9)).act is Act.STAY
    late = decide(POLICY, first.progress, missing, at(5))
    assert (late.act, late.cause, late.level) == (Act.MOVE, "no_node", 2)


def test_the_candidate_of_a_rollout_is_the_rollouts_own() -> None:
    both = health(weights={1: 5000, 2: 5000}, versions={1: WELL, 2: FAILS}, spared=2)
    assert decide(POLICY, Progress(), both, NOON).act is Act.STAY


def test_a_latency_limit_counts_where_the_policy_has_one() -> None:
    slow = health(versions={2: replace(WELL, p99_ms=80.0)})
    assert decide(POLICY, Progress(), slow, NOON).act is Act.STAY
    decision = decide(replace(POLICY, p99_ms=50.0), Progress(), slow, NOON)
    assert (decision.act, decision.cause) == (Act.MOVE, "latency")


def test_a_fallback_that_fails_opens_the_circuit() -> None:
    held = Progress(phase=Phase.HELD, level=2, since=NOON, revision=8, left=(2,))
    failing = health(revision=8, mode="fallback", versions={0: FAILS, 2: GONE})
    assert decide(POLICY, held, failing, at(5)).act is Act.STAY
    decision = decide(POLICY, held, failing, at(10))
    assert (decision.level, decision.call, decision.cause) == (3, True, "fallback_fails")


def test_the_way_back_is_taken_in_steps_and_ends_the_disturbance() -> None:
    progress = Progress(phase=Phase.HELD, level=2, since=NOON, revision=8, left=(2,))
    held = health(revision=8, mode="fallback", versions={2: IDLE})
    assert decide(POLICY, progress, held, at(29)).act is Act.STAY
    asked = decide(POLICY, progress, held, at(30))
    assert (asked.act, asked.versions) == (Act.ASK, (2,))
    probe = decide(POLICY, progress, replace(held, asked={2: True}), at(30))
    shares, now = [probe.probe], 30.0
    progress = step(probe)
    while progress.phase is Phase.PROBING:
        trying = replace(held, versions={2: replace(WELL, requests=10)})
        assert decide(POLICY, progress, trying, at(now + 19)).act is Act.STAY
        now += 20
        decision = decide(POLICY, progress, trying, at(now))
        shares.append(decision.probe)
        progress = step(decision)
    assert shares == [100, 1000, 5000, 10000, 0]
    assert (progress.phase, progress.level) == (Phase.SETTLING, 0)
    over = decide(POLICY, progress, health(revision=8), at(now + 20))
    assert over.act is Act.END
    assert over.progress == Progress(moves=over.progress.moves)


def test_a_probe_that_fails_goes_back_and_is_tried_again_twice_as_late() -> None:
    progress = Progress(phase=Phase.PROBING, level=2, since=NOON, revision=8, left=(2,))
    failing = health(
        revision=8,
        mode="fallback",
        versions={2: VersionHealth(requests=6, provider_faults=5, nodes=1)},
    )
    back = decide(POLICY, progress, failing, at(3))
    assert (back.act, back.level, back.probe, back.cause) == (Act.MOVE, 2, 0, "error_rate")
    held = step(back)
    calm = health(revision=8, mode="fallback", versions={2: IDLE}, asked={2: True})
    assert decide(POLICY, held, calm, at(3 + 59)).act is Act.STAY
    assert decide(POLICY, held, calm, at(3 + 60)).act is Act.PROBE


def test_where_nobody_calls_the_version_is_asked_instead() -> None:
    progress = Progress(phase=Phase.PROBING, level=2, since=NOON, revision=8, step=1)
    silent = health(revision=8, mode="fallback", versions={2: IDLE})
    assert decide(POLICY, progress, silent, at(59)).act is Act.STAY
    assert decide(POLICY, progress, silent, at(60)).act is Act.ASK
    assert decide(POLICY, progress, replace(silent, asked={2: True}), at(60)).probe == 5000
    assert decide(POLICY, progress, replace(silent, asked={2: False}), at(60)).act is Act.MOVE


def test_an_earlier_version_that_came_ready_is_returned_to_first() -> None:
    progress = Progress(phase=Phase.HELD, level=2, since=NOON, revision=8, left=(2,))
    ready = health(
        revision=8, mode="fallback", versions={2: IDLE, 1: IDLE}, others=(1,), asked={1: True}
    )
    decision = decide(POLICY, progress, ready, at(30))
    assert (decision.act, decision.versions) == (Act.PROBE, (1,))


def test_where_only_the_node_was_missing_its_version_is_returned_to() -> None:
    progress = Progress(
        phase=Phase.HELD, level=2, since=NOON, revision=8, left=(2,), cause="no_node"
    )
    back = health(
        revision=8, mode="fallback", versions={2: IDLE, 1: IDLE}, others=(1,),
        asked={1: True, 2: True},
    )  # fmt: skip
    decision = decide(POLICY, progress, back, at(30))
    assert (decision.act, decision.versions) == (Act.PROBE, ())


def test_a_version_whose_nodes_are_back_answers_all_callers_at_once() -> None:
    gone = health(versions={2: replace(GONE, requests=0, provider_faults=0)})
    first = decide(POLICY, Progress(), gone, NOON)
    held = step(decide(POLICY, first.progress, gone, at(5)))
    fallback = replace(gone, revision=8, mode="fallback")
    assert decide(POLICY, held, fallback, at(29)).act is Act.STAY
    back = replace(fallback, versions={2: IDLE})
    assert decide(POLICY, held, back, at(6)).versions == (2,)
    right, wrong = replace(back, asked={2: True}), replace(back, asked={2: False})
    probe = decide(POLICY, held, right, at(6))
    assert (probe.act, probe.probe) == (Act.PROBE, 10000)
    serving = replace(back, versions={2: WELL}, revision=9)
    returned = decide(POLICY, step(probe, 9), serving, at(26))
    assert (returned.act, returned.level) == (Act.RETURN, 0)
    # One that answers wrongly, or a node that comes and goes, is waited for.
    waits = decide(POLICY, held, wrong, at(6)).progress
    assert decide(POLICY, waits, right, at(7)).act is Act.STAY
    restless = replace(held, moves=tuple(at(second) for second in range(4)))
    assert decide(POLICY, restless, right, at(6)).act is Act.STAY
    assert decide(POLICY, restless, right, at(35)).probe == 100
    failed = replace(held, cause="error_rate")
    assert decide(POLICY, failed, right, at(6)).act is Act.STAY


def test_what_fails_without_a_node_is_the_nodes_fault() -> None:
    decision = decide(POLICY, Progress(), health(versions={2: GONE}), NOON)
    assert (decision.act, decision.cause) == (Act.MOVE, "no_node")


def test_nothing_moves_while_the_looking_has_only_begun() -> None:
    gone = health(versions={2: GONE}, starting=True)
    begun = decide(POLICY, Progress(), gone, NOON)
    assert (begun.act, begun.progress.missing_since) == (Act.STAY, NOON)
    assert decide(POLICY, begun.progress, gone, at(14)).act is Act.STAY
    late = decide(POLICY, begun.progress, replace(gone, starting=False), at(15))
    assert (late.act, late.cause) == (Act.MOVE, "no_node")
    back = decide(POLICY, begun.progress, health(starting=True), at(3))
    assert (back.progress.missing_since, back.progress.back_at) == (None, at(3))
    probing = Progress(phase=Phase.PROBING, level=2, since=NOON, revision=8, left=(2,))
    assert decide(POLICY, probing, replace(gone, revision=8), at(3)).act is Act.STAY


def test_a_version_that_somebody_got_away_from_is_not_good() -> None:
    history = [({1: 10000}, True), ({2: 10000}, False), ({1: 10000}, False), ({3: 10000}, False)]
    assert left_behind(history) == {2}
    assert good_before({1: 10000}, [w for w, _ in history], {2}) == [1, 3]
    # It has traffic again: somebody trusts it anew.
    assert left_behind([({2: 10000}, False), *history]) == set()


def test_what_a_gateway_refuses_leads_one_level_further() -> None:
    for progress, level in (
        (Progress(phase=Phase.SETTLING, level=1, since=NOON, revision=8), 2),
        (Progress(phase=Phase.HELD, level=2, since=NOON, revision=8), 3),
    ):
        decision = decide(POLICY, progress, health(revision=7, refused=True), at(1))
        assert (decision.act, decision.level) == (Act.MOVE, level)
    opened = Progress(phase=Phase.HELD, level=3, since=NOON, revision=8)
    last = decide(POLICY, opened, health(revision=7, refused=True), at(1))
    assert (last.act, last.call) == (Act.STOP, True)


def test_progress_survives_being_stored() -> None:
    progress = Progress(
        Phase.PROBING, 2, NOON, 9, 1, 3, (1,), (2, 4), at(1), (NOON, at(2)), "latency", at(3),
    )  # fmt: skip
    assert read_progress(progress_json(progress)) == progress
    assert read_progress({}) == Progress()


def test_a_policy_is_read_strictly() -> None:
    assert parse_policy(policy_json(POLICY)) == POLICY
    faults = {
        "window_s": 1,
        "fault_percent": 0,
        "probes_percent": [10, 5, 100],
        "redeploy": "yes",
        "sometimes": True,
    }
    with pytest.raises(Invalid) as refused:
        parse_policy(faults)
    assert {error.pointer for error in refused.value.errors} == {f"/{name}" for name in faults}
    with pytest.raises(Invalid):
        parse_policy({"hold_s": 5, "window_s": 60})


# What must hold whatever happens.

numbers = st.builds(
    VersionHealth,
    requests=st.integers(0, 200),
    provider_faults=st.integers(0, 200),
    p99_ms=st.none() | st.floats(1, 100),
    nodes=st.integers(0, 2),
)
moments = st.fixed_dictionaries(
    {
        "wait": st.integers(1, 60),
        "versions": st.dictionaries(st.integers(0, 3), numbers, max_size=4),
        "others": st.lists(st.integers(1, 3), unique=True, max_size=2),
        "fallback": st.booleans(),
        "fresh": st.booleans(),
        "settled": st.booleans(),
        "refused": st.sampled_from([False, False, False, True]),
        "answers": st.booleans(),
        "person": st.sampled_from([False] * 19 + [True]),
    }
)


@dataclass
class World:
    """An endpoint that does as it is told, and notes what it was told."""

    policy: RollbackPolicy
    now: datetime = NOON
    revision: int = 1
    mode: str = "normal"
    weights: dict[int, int] = field(default_factory=lambda: {3: 10000})
    progress: Progress = field(default_factory=Progress)
    incident: bool = False
    told: list[tuple[datetime, Decision]] = field(default_factory=list)

    def pass_time(self, moment: dict[str, Any]) -> Decision:
        self.now += timedelta(seconds=moment["wait"])
        if moment["person"]:
            self.revision += 1
        known = Health(
            revision=self.revision,
            mode=self.mode,
            weights=self.weights,
            settled=moment["settled"],
            refused=moment["refused"] and self.revision == self.progress.revision,
            fresh=moment["fresh"],
            versions=moment["versions"],
            others=tuple(v for v in moment["others"] if v not in self.weights),
            fallback=moment["fallback"],
            incident_open=self.incident,
        )
        decision = decide(self.policy, self.progress, known, self.now)
        asked: dict[int, bool] = {}
        while decision.act is Act.ASK:
            assert not set(decision.versions) & set(asked)
            asked |= dict.fromkeys(decision.versions, moment["answers"])
            known = replace(known, asked=asked)
            decision = decide(self.policy, decision.progress, known, self.now)
        self.carry_out(decision)
        self.told.append((self.now, decision))
        return decision

    def carry_out(self, decision: Decision) -> None:
        self.progress = decision.progress
        if decision.act not in (Act.MOVE, Act.PROBE, Act.RETURN):
            return
        self.revision += 1
        self.incident = True
        self.progress = replace(self.progress, revision=self.revision)
        self.mode = {0: "normal", 1: "normal", 2: "fallback", 3: "open"}[decision.level]
        if decision.versions:
            self.weights = dict.fromkeys(decision.versions, 10000)


policies = st.builds(
    RollbackPolicy,
    hold_s=st.integers(10, 60),
    probe_s=st.integers(2, 30),
    moves_per_hour=st.integers(4, 12),
    highest_level=st.integers(1, 3),
    p99_ms=st.none() | st.just(50.0),
)


@settings(max_examples=100, deadline=None)
@given(policies, st.lists(moments, max_size=60))
def test_it_never_moves_more_often_than_allowed_and_holds_each_level(
    policy: RollbackPolicy, story: list[dict[str, Any]]
) -> None:
    world = World(policy)
    for moment in story:
        world.pass_time(moment)
    changes = [
        (when, one)
        for when, one in world.told
        if one.act is Act.MOVE or (one.act is Act.PROBE and one.progress.step == 0)
    ]
    for index, (when, _) in enumerate(changes):
        within = [other for other, _ in changes[: index + 1] if when - other < HOUR]
        assert len(within) <= policy.moves_per_hour
    for (before, down), (after, change) in itertools.pairwise(changes):
        if down.act is Act.MOVE and change.act is Act.PROBE:
            assert after - before >= hold_of(policy, down.progress.failures)


@settings(max_examples=100, deadline=None)
@given(policies, st.lists(moments, max_size=60))
def test_level_3_and_giving_up_always_call_somebody(
    policy: RollbackPolicy, story: list[dict[str, Any]]
) -> None:
    world = World(policy)
    for moment in story:
        decision = world.pass_time(moment)
        if decision.act is Act.STOP or (decision.act is Act.MOVE and decision.level == 3):
            assert decision.call
        assert decision.level <= policy.highest_level


@settings(max_examples=100, deadline=None)
@given(policies, st.lists(moments, max_size=60))
def test_once_a_person_has_moved_traffic_it_is_left_to_them(
    policy: RollbackPolicy, story: list[dict[str, Any]]
) -> None:
    world = World(policy)
    handed_over = False
    for moment in story:
        decision = world.pass_time(moment)
        if handed_over:
            assert decision.act is Act.STAY
        handed_over = handed_over or decision.act is Act.HAND_OVER


@settings(max_examples=100, deadline=None)
@given(policies, st.lists(moments, max_size=40))
def test_deciding_twice_is_deciding_once(
    policy: RollbackPolicy, story: list[dict[str, Any]]
) -> None:
    world = World(policy)
    for moment in story:
        world.pass_time(moment)
        known = Health(
            revision=world.revision,
            mode=world.mode,
            weights=world.weights,
            versions=moment["versions"],
            incident_open=world.incident,
            fallback=True,
        )
        again = decide(policy, read_progress(progress_json(world.progress)), known, world.now)
        assert again == decide(policy, world.progress, known, world.now)
