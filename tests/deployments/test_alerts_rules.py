"""When an alert rule holds, and what that makes of an alert: by hand and by properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.rules.alerts.catalogue import SIGNALS, Reading, Source, Target, signal_of
from deployments.rules.alerts.defaults import DEFAULT_RULES
from deployments.rules.alerts.documents import RuleDocument, parse_rule, rule_json
from deployments.rules.alerts.evaluate import (
    UNSEEN_LIMIT,
    Finding,
    Standing,
    Turn,
    fingerprint,
    judge,
    step,
)
from deployments.rules.alerts.grouping import GROUP_INTERVAL, GROUP_WAIT, Waiting, groups_to_tell
from deployments.rules.alerts.silences import Matchers, Traits, matches, silence_of
from deployments.rules.alerts.traffic_memory import TrafficMemory
from deployments.rules.alerts.traffic_signals import readings_of_endpoint

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BOUNDS = (10.0, 50.0, 100.0)
HERE = Target(endpoint=1)


def rule(**changes: Any) -> RuleDocument:
    document = {
        "conditions": [{"signal": "error_rate_percent", "op": ">", "threshold": 1}],
        "for_s": 60,
        "keep_firing_s": 120,
        **changes,
    }
    return parse_rule(document)


def seconds(count: float) -> datetime:
    return AT + timedelta(seconds=count)


def run(one: RuleDocument, looks: list[tuple[float, bool | None]]) -> list[str]:
    """The turns of looks (second, wrong / well / not measured); a dropped alert begins anew."""
    standing: Standing | None = None
    turns = []
    for second, wrong in looks:
        finding = None if wrong is None else Finding(wrong, ())
        taken = step(one, standing, finding, seconds(second))
        over = taken.turn in (Turn.DROPPED, Turn.RESOLVED)
        standing = None if over else taken.standing
        turns.append(taken.turn.value)
    return turns


# -- documents ----------------------------------------------------------------------------------


def test_every_default_rule_can_be_read_and_says_every_field() -> None:
    assert len({one.name for one in DEFAULT_RULES}) == len(DEFAULT_RULES) >= 15
    for one in DEFAULT_RULES:
        assert parse_rule(one.to_json()) == parse_rule(one.document)
        assert one.document["runbook"].startswith("alert_")


def test_the_defaults_are_those_of_the_field() -> None:
    by_name = {one.name: one for one in DEFAULT_RULES}

    def told(name: str) -> list[tuple[str, str, float]]:
        read = parse_rule(by_name[name].document)
        return [(one.signal, one.op, one.threshold) for one in read.conditions]

    assert by_name["success-rate"].severity == "P1"
    assert told("success-rate") == [("success_rate_percent", "<", 99.9)]
    assert told("queue-p95") == [("queue_p95_ms", ">", 100)]
    assert told("execution-p95") == [("compute_p95_ms", ">", 50)]
    assert told("output-entropy") == [("model_output_entropy", ">", 0.5)]
    assert parse_rule(by_name["output-entropy"].document).for_s == 300
    assert told("feature-drift") == [("feature_drift_score", ">", 0.3)]
    assert told("nvlink-and-heat") == [
        ("gpu_nvlink_utilization_percent", ">", 80),
        ("gpu_temperature_celsius", ">", 70),
    ]
    assert by_name["unverified-artifact"].severity == by_name["fast-burn"].severity == "P1"


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({}, "/conditions"),
        ({"conditions": []}, "/conditions"),
        ({"conditions": "x"}, "/conditions"),
        ({"conditions": [1]}, "/conditions/0"),
        ({"conditions": [{"signal": "A b", "op": ">", "threshold": 1}]}, "/conditions/0/signal"),
        ({"conditions": [{"signal": "x_ms", "op": "=", "threshold": 1}]}, "/conditions/0/op"),
        ({"conditions": [{"signal": "x_ms", "op": ">"}]}, "/conditions/0/threshold"),
        (
            {"conditions": [{"signal": "x_ms", "op": ">", "threshold": float("nan")}]},
            "/conditions/0/threshold",
        ),
        (
            {"conditions": [{"signal": "x_ms", "op": ">", "threshold": True}]},
            "/conditions/0/threshold",
        ),
        (
            {"conditions": [{"signal": "x_ms", "op": ">", "threshold": 10**400}]},
            "/conditions/0/threshold",
        ),
        (
            {"conditions": [{"signal": "x_ms", "op": ">", "threshold": 1, "label": "a\0"}]},
            "/conditions/0/label",
        ),
        (
            {"conditions": [{"signal": "x_ms", "op": ">", "threshold": 1, "when": 2}]},
            "/conditions/0/when",
        ),
        ({**rule_json(rule()), "for_s": -1}, "/for_s"),
        ({**rule_json(rule()), "for_s": 1.5}, "/for_s"),
        ({**rule_json(rule()), "every_s": 1}, "/every_s"),
        ({**rule_json(rule()), "runbook": "../x"}, "/runbook"),
        ({**rule_json(rule()), "window_s": 3600}, "/window_s"),
        ([], None),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(document: Any, pointer: str | None) -> None:
    with pytest.raises(Invalid) as refused:
        parse_rule(document)
    assert refused.value.code == "invalid_alert_rule"
    if pointer is not None:
        assert pointer in {one.pointer for one in refused.value.errors}


def test_a_name_that_is_no_signal_of_ours_is_a_series_with_its_unit() -> None:
    known, series = signal_of("latency_p99_ms"), signal_of("gpu_temperature_celsius")
    assert known is not None
    assert known.source is Source.TRAFFIC
    assert series is not None
    assert (series.source, series.unit) == (Source.SERIES, "°C")
    assert signal_of("No Signal") is None


# -- the state machine --------------------------------------------------------------------------


def test_it_fires_when_it_has_held_for_so_long_and_is_over_when_it_was_well_for_so_long() -> None:
    looks = [(0, True), (30, True), (60, True), (65, True), (70, False), (180, False), (190, False)]
    assert run(rule(), looks) == [
        "started", "none", "fired", "none", "changed", "none", "resolved",
    ]  # fmt: skip


def test_a_break_begins_the_waiting_anew() -> None:
    looks = [(0, True), (55, True), (58, False), (60, True), (100, True), (120, True)]
    assert run(rule(), looks) == ["started", "none", "dropped", "started", "none", "fired"]


def test_flapping_while_it_fires_is_one_alert() -> None:
    looks = [(0, True), (60, True)]
    for index in range(10):
        looks += [(70 + index * 20, False), (80 + index * 20, True)]
    turns = run(rule(), looks)  # type: ignore[arg-type]
    assert turns.count("fired") == 1
    assert "resolved" not in turns


def test_without_waiting_it_fires_at_once() -> None:
    assert run(rule(for_s=0, keep_firing_s=0), [(0, True), (5, False)]) == ["fired", "resolved"]


def test_nothing_measured_is_not_well() -> None:
    looks = [(0, True), (60, True), (70, None), (2000, None), (2010, True)]
    assert run(rule(), looks) == ["started", "fired", "changed", "none", "none"]
    assert run(rule(), [(0, True), (60, True), (70, None), (3670, None)])[-1] == "resolved"
    taken = step(rule(missing_s=0), Standing(AT, AT, fired_at=AT), None, seconds(5))
    assert (taken.turn, taken.why) == (Turn.RESOLVED, "not_measured")


def test_what_was_not_looked_at_for_long_has_not_held_all_the_while() -> None:
    long = UNSEEN_LIMIT.total_seconds() + 1
    assert run(rule(), [(0, True), (long, True), (long + 60, True)]) == ["started", "none", "fired"]


def test_a_clock_that_goes_back_neither_fires_early_nor_never() -> None:
    turns = run(rule(), [(0, True), (-3600, True), (-3540, True)])
    assert turns == ["started", "none", "fired"]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.sampled_from([True, False, None])), max_size=60),
    st.integers(0, 120),
    st.integers(0, 120),
)
def test_it_never_fires_before_it_held_long_enough_nor_ends_before_it_was_well_long_enough(
    looks: list[tuple[int, bool | None]], for_s: int, keep: int
) -> None:
    one = rule(for_s=for_s, keep_firing_s=keep)
    standing: Standing | None = None
    at, wrong_since, well_since = 0, None, None
    for pause, wrong in looks:
        at += pause
        if wrong is True:
            wrong_since, well_since = (at if wrong_since is None else wrong_since), None
        elif wrong is False:
            wrong_since, well_since = None, (at if well_since is None else well_since)
        finding = None if wrong is None else Finding(wrong, ())
        taken = step(one, standing, finding, seconds(at))
        if taken.turn is Turn.FIRED:
            assert wrong_since is not None
            assert at - wrong_since >= for_s
        if taken.turn is Turn.RESOLVED and taken.why == "well":
            assert well_since is not None
            assert at - well_since >= keep
        over = taken.turn in (Turn.DROPPED, Turn.RESOLVED)
        standing = None if over else taken.standing
        if taken.turn is Turn.DROPPED:
            wrong_since = None


# -- judging ------------------------------------------------------------------------------------


def test_all_conditions_have_to_hold_of_the_same_thing() -> None:
    one = parse_rule(
        {
            "conditions": [
                {"signal": "gpu_nvlink_utilization_percent", "op": ">", "threshold": 80},
                {"signal": "gpu_temperature_celsius", "op": ">", "threshold": 70},
            ]
        }
    )
    first, second = Target(node=1, device="0"), Target(node=1, device="1")
    found = judge(
        one,
        [
            {first: Reading(90), second: Reading(95), Target(node=2): Reading(99)},
            {first: Reading(75), second: Reading(60)},
        ],
    )
    # What has no temperature is neither wrong nor well.
    assert {target: one.wrong for target, one in found.items()} == {first: True, second: False}


def test_a_value_of_the_whole_stands_for_its_parts() -> None:
    one = parse_rule(
        {
            "conditions": [
                {"signal": "queue_p95_ms", "op": ">", "threshold": 100},
                {"signal": "error_rate_percent", "op": ">", "threshold": 1},
                {"signal": "gpu_temperature_celsius", "op": ">", "threshold": 70},
            ]
        }
    )
    part = Target(endpoint=1, node=2, version=7)
    found = judge(
        one,
        [
            {part: Reading(150)},
            {Target(endpoint=1): Reading(2)},
            {Target(node=2): Reading(71)},
        ],
    )
    assert found[part].wrong


def test_a_label_picks_series_and_its_own_limit_counts_before_the_threshold() -> None:
    one = parse_rule(
        {
            "conditions": [
                {
                    "signal": "feature_drift_score",
                    "op": ">",
                    "threshold": 0.3,
                    "label": "",
                    "own_limit": True,
                }
            ]
        }
    )
    age, whole, other = (
        Target(endpoint=1, label="age"),
        Target(endpoint=1),
        Target(endpoint=2),
    )
    found = judge(one, [{age: Reading(0.9), whole: Reading(0.35, 0.4), other: Reading(0.35)}])
    assert {target: (one.wrong, one.measured[0].threshold) for target, one in found.items()} == {
        whole: (False, 0.4),
        other: (True, 0.3),
    }


def test_few_faults_are_no_outage() -> None:
    one = rule(min_faults=5)
    few, many = Reading(10, facts={"faults": 4}), Reading(10, facts={"faults": 5})
    found = judge(one, [{HERE: few, Target(endpoint=2): many}])
    assert [finding.wrong for finding in found.values()] == [False, True]


def test_each_thing_has_a_name_of_its_own_under_each_rule() -> None:
    names = {
        fingerprint(number, target)
        for number in (1, 2)
        for target in (HERE, Target(node=1), Target(endpoint=1, version=1), Target(endpoint=11))
    }
    assert len(names) == 8


# -- counting requests --------------------------------------------------------------------------


def point(at: float, **versions: list[Any]) -> dict[str, Any]:
    return {"t": at, "v": {name.removeprefix("v"): counted for name, counted in versions.items()}}


@given(
    st.lists(
        st.tuples(
            st.integers(1, 20),
            st.integers(0, 50),
            st.integers(0, 3),
            st.dictionaries(st.sampled_from(["0", "1", "2", "3"]), st.integers(1, 9)),
        ),
        max_size=80,
    ),
    st.sampled_from([30.0, 120.0]),
)
def test_running_sums_are_what_a_count_of_the_whole_window_gives(
    looks: list[tuple[int, int, int, dict[str, int]]], window: float
) -> None:
    memory = TrafficMemory()
    memory.keep(["production/one"], [30.0, 120.0])
    at, points = 0.0, []
    for pause, requests, faults, buckets in looks:
        at += pause
        points.append(point(at, v1=[requests, 0, faults, buckets]))
        memory.hear("production/one", points[-4:], BOUNDS)
        got = memory.versions("production/one", window, at).get(1)
        held = [one["v"]["1"] for one in points if at - window < one["t"] <= at]
        assert got is not None
        assert got.requests == sum(one[0] for one in held)
        assert got.provider_faults == sum(one[2] for one in held)
        for index in range(4):
            wanted = sum(one[3].get(str(index), 0) for one in held)
            assert got.buckets.get(index, 0) == wanted


def test_other_bounds_begin_the_windows_anew() -> None:
    memory = TrafficMemory()
    memory.keep(["a"], [60.0])
    memory.hear("a", [point(1, v1=[5, 0, 0, {"1": 5}])], BOUNDS)
    assert memory.missing_s("a", 11.0) == 10.0
    memory.hear("a", [point(2, v1=[3, 0, 0, {"1": 3}])], (1.0, 2.0))
    counts = memory.versions("a", 60.0, 3.0)[1]
    assert (counts.requests, memory.bounds) == (3, (1.0, 2.0))
    memory.keep(["b"], [60.0])
    assert memory.versions("a", 60.0, 3.0) == {}


def test_success_is_good_of_valid_and_a_version_pays_for_what_another_answered() -> None:
    memory = TrafficMemory()
    memory.keep(["a"], [60.0])
    # 100 requests of v2: 10 are the callers' own fault, 9 failed, 9 another version answered.
    memory.hear("a", [point(1, v2=[100, 10, 9, {"0": 90, "2": 10}, 9], v0=[0, 0, 0, {}])], BOUNDS)
    versions = memory.versions("a", 60.0, 2.0)

    def value(key: str, each: str = "endpoint", least: int = 20) -> float | None:
        found = readings_of_endpoint(
            SIGNALS[key], versions, each=each, seconds=60, min_requests=least, bounds=BOUNDS
        )
        return next((round(one.value, 6) for one in found.values()), None)

    assert value("success_rate_percent") == 90.0
    assert value("success_rate_percent", "version") == 80.0
    assert value("error_rate_percent") == 10.0
    assert value("caller_fault_percent") == 10.0
    assert value("latency_p99_ms") == pytest.approx(95.0)
    assert value("requests_per_second") == pytest.approx(100 / 60)
    assert value("success_rate_percent", least=91) is None


# -- silences and groups ------------------------------------------------------------------------

TRAITS = Traits("success-rate", "P1", 1, 2, None, "")


@pytest.mark.parametrize(
    ("matchers", "wanted"),
    [
        (Matchers(), True),
        (Matchers(rule_name="success-rate", severity="P1", environment=1, model=2), True),
        (Matchers(rule_name="queue-p95"), False),
        (Matchers(environment=3), False),
        (Matchers(node=1), False),
        (Matchers(label="age"), False),
    ],
)
def test_a_silence_matches_by_all_that_it_names(matchers: Matchers, wanted: bool) -> None:
    assert matches(matchers, TRAITS) is wanted


def test_the_silence_that_lasts_longest_counts() -> None:
    rows = [
        ("short", Matchers(severity="P1"), seconds(60)),
        ("long", Matchers(model=2), seconds(600)),
        ("other", Matchers(model=3), seconds(6000)),
    ]
    assert silence_of(rows, TRAITS) == "long"
    assert silence_of(rows[2:], TRAITS) is None


def test_what_goes_wrong_together_is_told_together_and_what_is_urgent_at_once() -> None:
    calm = Waiting("production/one", "P2", AT)
    assert groups_to_tell([calm], {}, seconds(5)) == set()
    assert groups_to_tell([calm], {}, AT + GROUP_WAIT) == {"production/one"}
    urgent = Waiting("production/one", "P1", seconds(5))
    assert groups_to_tell([calm, urgent], {}, seconds(5)) == {"production/one"}
    told = {"production/one": seconds(-5)}
    assert groups_to_tell([calm], told, AT + GROUP_WAIT) == set()
    assert groups_to_tell([calm], told, AT + GROUP_INTERVAL) == {"production/one"}
