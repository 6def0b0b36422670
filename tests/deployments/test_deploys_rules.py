"""Generations, the smoke test, rollback targets and rules of routing: pure decisions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.rules.fleet import generations, smoke_test
from deployments.rules.incidents.rollback_targets import last_good, only_tried, suspect
from deployments.rules.traffic import routing_rules
from models_registry.adapters import triton_config
from tests import factories

Weights = dict[int, int]


def rendered(**choices: Any) -> str:
    return triton_config.render(factories.config_plan("fraud_detector", **choices))


def test_configurations_that_differ_in_name_alone_are_one_generation() -> None:
    text = rendered()
    renamed = triton_config.render(factories.config_plan("another"))
    assert generations.config_identity(text) == generations.config_identity(renamed)
    changed = rendered(queue_delay_us=7)
    assert generations.config_identity(text) != generations.config_identity(changed)
    assert triton_config.same_serving_config(text, rendered())
    assert not triton_config.same_serving_config(text, changed)


def test_a_new_generation_takes_a_name_that_nobody_has() -> None:
    assert generations.next_generation("m", [], set()) == 1
    assert generations.next_generation("m", [1, 2], {"m", "m_g2"}) == 3
    assert generations.next_generation("m", [1], {"m", "m_g2"}) == 3
    assert generations.triton_model_name("m", 3) == "m_g3"


def tensor(data: list[Any], shape: list[int] | None = None, name: str = "y") -> dict[str, Any]:
    return {"name": name, "datatype": "FP32", "shape": shape or [1, len(data)], "data": data}


def test_a_smoke_test_holds_values_to_the_tolerance() -> None:
    worst = smoke_test.compare([tensor([1.0, 2.0])], [tensor([1.00001, 2.0])], atol=1e-4, rtol=0)
    assert worst == pytest.approx(1e-5)
    nan = float("nan")
    assert smoke_test.compare([tensor([nan])], [tensor([nan])], atol=0, rtol=0) == 0


@pytest.mark.parametrize(
    "found",
    [
        [tensor([1.1, 2.0])],
        [tensor([1.0])],
        [tensor([1.0, 2.0], name="z")],
        [tensor([1.0, 2.0], [2, 1])],
        [tensor([float("nan"), 2.0])],
        [tensor(["1.0", 2.0])],
    ],
)
def test_an_answer_that_differs_fails_the_smoke_test(found: list[dict[str, Any]]) -> None:
    with pytest.raises(Invalid) as refused:
        smoke_test.compare([tensor([1.0, 2.0])], found, atol=1e-3, rtol=0)
    assert refused.value.code == "smoke_test_failed"


@pytest.mark.parametrize(
    ("current", "earlier", "ready", "target"),
    [
        ({1: 5000, 2: 5000}, [{1: 9500, 2: 500}, {1: 10000}], {1, 2}, 1),
        ({2: 10000}, [{1: 5000, 2: 5000}, {1: 10000}], {1, 2}, 1),
        ({1: 9500, 2: 500}, [{1: 10000}], {1, 2}, 1),
        ({1: 10000}, [], {1}, None),
        ({2: 10000}, [{1: 10000}], {2}, None),
        ({3: 10000}, [{2: 10000}, {1: 10000}], {1, 3}, 1),
        ({}, [], {1}, None),
        ({1: 9000, 2: 1000}, [], {1, 2}, 2),
        # Version 2 was on trial, and the trial was ended by hand: it never led.
        ({1: 10000}, [{1: 9500, 2: 500}, {1: 10000}], {1, 2}, None),
        ({2: 10000}, [{1: 500, 2: 9500}, {1: 5500, 2: 4500}], {1, 2}, 1),
    ],
)
def test_a_rollback_goes_to_whom_led_before_the_newest(
    current: Weights, earlier: list[Weights], ready: set[int], target: int | None
) -> None:
    assert last_good(current, earlier, ready) == target


def test_who_led_before_a_trial_was_not_only_tried() -> None:
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    history = [
        ({1: 5500, 2: 4500}, noon + timedelta(minutes=1)),
        ({1: 10000}, noon - timedelta(minutes=1)),
    ]
    assert only_tried(2, noon, history)
    assert not only_tried(1, noon, history)


splits = st.dictionaries(st.integers(1, 5), st.integers(0, 100), max_size=5)


@given(current=splits, earlier=st.lists(splits, max_size=5), ready=st.sets(st.integers(1, 5)))
def test_a_rollback_never_goes_to_the_suspect_nor_to_what_is_not_ready(
    current: Weights, earlier: list[Weights], ready: set[int]
) -> None:
    target = last_good(current, earlier, ready)
    if target is not None:
        assert target in ready
        assert target != suspect(current, earlier[0] if earlier else {})


def test_rules_of_routing_are_read_strictly() -> None:
    assert routing_rules.parse_header("X-User-Id") == "x-user-id"
    assert routing_rules.parse_mirror({"version": "2", "percent": 12.5}) == {
        "version": 2,
        "basis_points": 1250,
    }
    assert routing_rules.parse_mirror({"version": 2, "percent": 0}) is None
    refused: list[Any] = [
        lambda: routing_rules.parse_header("x y"),
        lambda: routing_rules.parse_header_rules([{"header": "a", "value": "b"}]),
        lambda: routing_rules.parse_header_rules([{"header": "a b", "value": "b", "version": 1}]),
        lambda: routing_rules.parse_header_rules([{"header": "a", "value": "\n", "version": 1}]),
        lambda: routing_rules.parse_mirror({"percent": 5}),
        lambda: routing_rules.parse_mirror({"version": 1, "percent": 101}),
        lambda: routing_rules.parse_mirror({"version": 1, "percent": float("inf")}),
    ]
    for call in refused:
        with pytest.raises(Invalid):
            call()
