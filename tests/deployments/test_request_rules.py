"""What gateways are told to check of a request, how long it may take, and who answers for whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.errors import Invalid
from deployments.adapters.envoy.requests import rule_lines
from deployments.rules.access.input_rules import InputRule, InputRules, ServedInterface, rules_of
from deployments.rules.gateways.snapshots import ClusterKey, ClusterKind, render
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from deployments.rules.statistics.histograms import empty
from deployments.rules.statistics.rollups import Traffic, traffic_of
from deployments.rules.traffic.retries import baseline_of, on_trial
from models_registry.rules.contract_types import Interface, Tensor

INTERFACE = Interface(
    (
        Tensor("features", "FP32", ("batch", 10), -10, 10),
        Tensor("age", "INT32", ("batch", "years"), nan="refuse"),
    ),
    (Tensor("risk_score", "FP32", ("batch", 1)),),
)
FITS = {"features": ("FP32", (-1, 10)), "age": ("INT32", (-1, -1))}


def served(rows: int | None = 32, **changes: Any) -> ServedInterface:
    return ServedInterface({**FITS, **changes}, rows)


def test_the_contract_says_what_fits() -> None:
    rules = rules_of(INTERFACE, [served()])
    assert rules == InputRules(
        (
            InputRule("features", "FP32", ("batch", 10), -10, 10, refuse_nan=True),
            InputRule("age", "INT32", ("batch", "years")),
        ),
        ("risk_score",),
        32,
    )
    assert rule_lines(rules).splitlines() == [
        "input\tfeatures\tFP32\tbatch,10\t-10.0\t10.0\trefuse",
        "input\tage\tINT32\tbatch,years\t\t\tallow",
        "output\trisk_score",
        "batch\t32",
    ]


@pytest.mark.parametrize(
    ("versions", "most"),
    [
        ([], None),
        ([served(8), served(32)], 32),
        ([served(8), served(0)], None),
        ([served(8), served(None)], None),
    ],
)
def test_the_largest_batch_is_that_of_the_version_that_takes_the_largest(
    versions: list[ServedInterface], most: int | None
) -> None:
    rules = rules_of(INTERFACE, versions)
    assert rules is not None
    assert rules.most_rows == most


@pytest.mark.parametrize(
    "older",
    [
        served(features=("FP64", (-1, 10))),
        served(features=("FP32", (-1, 9))),
        served(features=("FP32", (10,))),
        served(extra=("FP32", (-1, 1))),
    ],
)
def test_a_version_that_takes_something_else_has_no_contract_held_against_its_callers(
    older: ServedInterface,
) -> None:
    assert rules_of(INTERFACE, [served(), older]) is None
    assert rules_of(INTERFACE, [served(), ServedInterface({})]) is not None


def test_facts_of_an_export_are_read() -> None:
    facts = {"inputs": [{"name": "features", "dtype": "FP32", "shape": [-1, 10], "dims": ["b"]}]}
    found = ServedInterface.from_facts(facts, {"max_batch_size": {"value": 16}})
    assert found == ServedInterface({"features": ("FP32", (-1, 10))}, 16)
    assert ServedInterface.from_facts({}, {}) == ServedInterface({}, None)


@given(st.dictionaries(st.integers(1, 9), st.integers(0, 10_000), max_size=5))
def test_at_most_one_version_answers_for_the_others(weights: dict[int, int]) -> None:
    baseline = baseline_of(weights)
    assert (baseline is None) == (not any(2 * points > 10_000 for points in weights.values()))


def state(**changes: Any) -> EndpointState:
    node = (NodeAddress("n", "127.0.0.1", 8000),)
    return EndpointState(
        "production",
        "m",
        1,
        **{
            "weights": {1: 9000, 2: 1000},
            "targets": {1: Target("m", 1, node), 2: Target("m", 2, node)},
            "retry_onto": 1,
            **changes,
        },
    )


def test_a_version_on_trial_has_a_cluster_that_asks_the_baseline() -> None:
    snapshot = render(GatewayState({"production": 8000}, (state(),)))
    retried = ClusterKey("production", "m", ClusterKind.RETRIED, 2).name
    (cluster,) = (one for one in snapshot.clusters if one.name == retried)
    assert cluster.members == ("production/m/2/candidate", "production/m/1")
    (routes,) = snapshot.route_tables[0].endpoints
    assert routes.retried == (("production/m/2", retried, "production/m/2/candidate"),)
    assert {retried, "production/m/2/candidate"} <= routes.destinations()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"input_rules": InputRules((InputRule("a\toutput", "FP32", ("batch",)),), ())}, "name"),
        ({"input_rules": InputRules((), ("a\nbatch",))}, "name"),
        ({"invalid_code": "no code"}, "code"),
    ],
)
def test_what_would_break_the_lines_is_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(Invalid) as caught:
        render(GatewayState({"production": 8000}, (state(**changes),)))
    assert caught.value.code == f"invalid_{code}"


@pytest.mark.parametrize(
    "changes",
    [
        {"retry_onto": None},
        {"weights": {1: 10_000}},
        {"weights": {1: 5000, 2: 5000}, "retry_onto": None},
        {"targets": {1: Target("m", 1, ()), 2: Target("m", 2, ())}},
    ],
)
def test_nobody_answers_for_another_otherwise(changes: dict[str, Any]) -> None:
    assert on_trial(state(**changes)) == ()


def test_a_fault_that_the_baseline_made_good_is_the_candidates_and_no_failure() -> None:
    key = ClusterKey("production", "m", ClusterKind.RETRIED, 2)
    counted = traffic_of(key, {"ok_2xx": 8, "server_5xx": 2, "retry_success": 5}, empty(()))
    assert (counted.requests, counted.provider_faults) == (10, 2)
    assert (counted.rescued, counted.version_faults) == (5, 7)
    assert (counted + Traffic()).rescued == 5


def test_a_node_that_could_not_be_reached_is_no_fault_of_the_version() -> None:
    key = ClusterKey("production", "m", ClusterKind.VERSION, 1)
    grown = {"ok_2xx": 10, "retry_success": 4}
    assert traffic_of(key, grown, empty(())).version_faults == 0
    assert traffic_of(key, {**grown, "retried_5xx": 3}, empty(())).version_faults == 3
