"""A snapshot is a pure function of what was decided."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from console.errors import Conflict, Invalid
from deployments.rules.fallback.fallbacks import Fallback, Output, fallback_answer
from deployments.rules.gateways.snapshots import (
    ClusterKey,
    ClusterKind,
    EndpointRoutes,
    Snapshot,
    digest_of,
    render,
)
from deployments.rules.gateways.state import (
    EndpointState,
    GatewayState,
    HeaderRule,
    Mirror,
    Mode,
    NodeAddress,
    Target,
)

NODES = (NodeAddress("local", "127.0.0.1", 8720), NodeAddress("gpu-1", "10.0.0.7", 8000))
FALLBACK = Fallback(
    {"risk_score": 0.3, "reason": "model_down"}, (Output("risk_score", "FP32", ("batch", 1)),)
)
ENDPOINT = EndpointState(
    environment="production",
    model="fraud_detector",
    revision=7,
    weights={2: 500, 1: 9500},
    targets={
        1: Target("fraud_detector", 1, NODES),
        2: Target("fraud_detector_g2", 1, NODES[:1]),
        3: Target("fraud_detector_g2", 2, NODES[:1]),
    },
    fallback=FALLBACK,
)
STATE = GatewayState({"staging": 8713, "production": 8710}, (ENDPOINT,))


def with_endpoint(**changes: object) -> Snapshot:
    return render(replace(STATE, endpoints=(replace(ENDPOINT, **changes),)))  # type: ignore[arg-type]


def routes_of(snapshot: Snapshot) -> EndpointRoutes:
    (table,) = [t for t in snapshot.route_tables if t.environment == "production"]
    return table.endpoints[0]


def test_every_ready_version_has_a_cluster_and_the_answers_have_theirs() -> None:
    snapshot = render(STATE)
    each = ("", "/candidate", "/retried")
    assert [cluster.name for cluster in snapshot.clusters] == [
        *(f"production/fraud_detector/{n}{kind}" for n in (1, 2, 3) for kind in each),
        "production/fraud_detector/fallback",
        "production/fraud_detector/open",
    ]
    first = snapshot.clusters[0].target
    assert first is not None
    assert [node.node for node in first.nodes] == ["gpu-1", "local"]
    assert [listener.port for listener in snapshot.listeners] == [8710, 8713]
    assert [table.environment for table in snapshot.route_tables] == ["production", "staging"]
    assert snapshot.revisions == {("production", "fraud_detector"): 7}


def test_rules_are_asked_for_where_a_contract_has_them_and_an_edge_is_there() -> None:
    edge = ("127.0.0.1", 8714)
    plain = replace(ENDPOINT, mode=Mode.FALLBACK)
    ruled = replace(plain, rules_fallback=True)

    def cluster_and_route(endpoint: EndpointState, edge: tuple[str, int] | None) -> object:
        snapshot = render(replace(STATE, endpoints=(endpoint,), edge=edge))
        names = {cluster.name: cluster.edge for cluster in snapshot.clusters}
        return names.get("production/fraud_detector/rules"), routes_of(snapshot).rules

    assert cluster_and_route(ruled, edge) == (edge, "production/fraud_detector/rules")
    assert cluster_and_route(ruled, None) == (None, None)
    assert cluster_and_route(plain, edge) == (None, None)
    # The cluster stands ready, so that a change of mode is a change of routes alone.
    assert cluster_and_route(replace(ruled, mode=Mode.NORMAL), edge) == (edge, None)
    key = ClusterKey.parse("production/fraud_detector/rules")
    assert key is not None
    assert key.name == "production/fraud_detector/rules"
    assert ClusterKey.parse("covenant_edge") is None


def test_the_split_goes_by_version_number_and_leaves_zeros_out() -> None:
    routes = routes_of(with_endpoint(weights={3: 500, 1: 9500, 2: 0}))
    assert routes.split == (
        ("production/fraud_detector/1", 9500),
        ("production/fraud_detector/3", 500),
    )
    assert [version for version, _ in routes.pinned] == [1, 2, 3]
    assert routes.answer is None


def test_equal_states_give_equal_snapshots_in_any_order() -> None:
    other = replace(ENDPOINT, environment="staging", model="churn")
    one = render(replace(STATE, endpoints=(ENDPOINT, other)))
    two = render(
        GatewayState(
            {"production": 8710, "staging": 8713},
            (
                other,
                replace(
                    ENDPOINT,
                    weights={1: 9500, 2: 500},
                    targets=dict(reversed(ENDPOINT.targets.items())),
                ),
            ),
        )
    )
    assert one == two


def test_a_change_of_weights_changes_routes_alone() -> None:
    before, after = render(STATE), with_endpoint(weights={1: 10000})
    assert before.version != after.version
    assert before.clusters == after.clusters
    assert before.listeners == after.listeners
    changed = [
        one.environment
        for one, two in zip(before.route_tables, after.route_tables, strict=True)
        if digest_of(one) != digest_of(two)
    ]
    assert changed == ["production"]


def test_a_new_revision_is_a_new_snapshot_though_nothing_else_changed() -> None:
    before, after = render(STATE), with_endpoint(revision=8)
    assert before.version != after.version
    assert before.route_tables == after.route_tables


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"mode": Mode.FALLBACK}, "production/fraud_detector/fallback"),
        ({"mode": Mode.OPEN}, "production/fraud_detector/open"),
        ({"weights": {}}, "production/fraud_detector/open"),
        ({"weights": {}, "targets": {}}, "production/fraud_detector/open"),
    ],
)
def test_modes_are_answered_by_the_gateway(changes: dict[str, object], answer: str) -> None:
    snapshot = with_endpoint(**changes)
    routes = routes_of(snapshot)
    assert routes.answer == answer
    assert answer in routes.destinations()
    assert answer in [cluster.name for cluster in snapshot.clusters]


def test_rules_and_mirrors_pick_clusters() -> None:
    snapshot = with_endpoint(
        header_rules=(HeaderRule("X-Exp-Id", "42", 2),), mirror=Mirror(3, 2500)
    )
    routes = routes_of(snapshot)
    assert routes.header_rules == (("x-exp-id", "42", "production/fraud_detector/2"),)
    assert routes.mirror == ("production/fraud_detector/3/shadow", 2500)
    assert routes.destinations() <= {cluster.name for cluster in snapshot.clusters}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"weights": {1: 9000}}, "invalid_weights"),
        ({"weights": {1: 10500, 2: -500}}, "invalid_weights"),
        ({"weights": {9: 10000}}, "not_ready"),
        ({"header_rules": (HeaderRule("X-Exp-Id", "42", 9),)}, "not_ready"),
        ({"mirror": Mirror(9)}, "not_ready"),
        ({"mirror": Mirror(2, 0)}, "invalid_weights"),
        ({"header_rules": (HeaderRule("X Exp", "42", 2),)}, "invalid_header"),
        ({"header_rules": (HeaderRule("X-Exp-Id", "4\n2", 2),)}, "invalid_header"),
        ({"sticky_header": ":path"}, "invalid_header"),
        ({"mode": Mode.FALLBACK, "fallback": None}, "no_fallback"),
        ({"environment": "moon"}, "no_listener"),
        ({"model": "Fraud/../x"}, "invalid_name"),
        ({"timeout_ms": 0}, "invalid_timeout"),
        ({"unavailable_code": 'x"%'}, "invalid_code"),
        (
            {"targets": {1: Target('a" .. os.exit()', 1, NODES), 2: Target("b", 1, NODES)}},
            "invalid_name",
        ),
        (
            {
                "targets": {
                    1: Target("a", 1, (NodeAddress("n", "no host", 1),)),
                    2: Target("b", 1, NODES),
                }
            },
            "invalid_address",
        ),
    ],
)
def test_what_no_gateway_could_serve_is_refused(changes: dict[str, object], code: str) -> None:
    with pytest.raises((Invalid, Conflict)) as caught:
        with_endpoint(**changes)
    assert caught.value.code == code


def test_listeners_need_ports_of_their_own() -> None:
    for listeners, code in (
        ({"production": 8710, "staging": 8710}, "port_shared"),
        ({"production": 0}, "invalid_listener"),
        ({"Prod/1": 8710}, "invalid_listener"),
    ):
        with pytest.raises(Invalid) as caught:
            render(GatewayState(listeners))
        assert caught.value.code == code
    with pytest.raises(Invalid) as caught:
        render(replace(STATE, endpoints=(ENDPOINT, ENDPOINT)))
    assert caught.value.code == "duplicate_endpoint"


# A candidate's hosts count nothing of their own.
@pytest.mark.parametrize("kind", sorted(set(ClusterKind) - {ClusterKind.CANDIDATE}))
def test_a_clusters_name_says_what_it_is(kind: ClusterKind) -> None:
    numbered = kind in (ClusterKind.VERSION, ClusterKind.SHADOW, ClusterKind.RETRIED)
    key = ClusterKey("production", "fraud_detector", kind, 12 if numbered else None)
    assert ClusterKey.parse(key.name) == key


@pytest.mark.parametrize(
    "name", ["ads", "a/b", "a/b/c", "a/b/1/copy", "a/b/1/shadow/x", "a/b/1/candidate", ""]
)
def test_other_clusters_are_none_of_ours(name: str) -> None:
    assert ClusterKey.parse(name) is None


def test_a_fallback_becomes_rows_of_the_contracts_outputs() -> None:
    answer = fallback_answer(
        Fallback(
            {
                "risk_score": 0.3,
                "labels": ["ok", "unknown"],
                "grid": [[1, 2], [3, 4]],
                "flag": True,
            },
            (
                Output("risk_score", "FP32", ("batch", 1)),
                Output("labels", "BYTES", ("batch", "words")),
                Output("grid", "INT64", (2, 2)),
                Output("flag", "BOOL", ("batch",)),
                Output("not_mentioned", "FP32", ("batch", 1)),
            ),
        )
    )
    found = {t.name: (t.batched, t.row_shape, json.loads(f"[{t.row}]")) for t in answer.tensors}
    assert found == {
        "risk_score": (True, (1,), [0.3]),
        "labels": (True, (2,), ["ok", "unknown"]),
        "grid": (False, (2, 2), [1, 2, 3, 4]),
        "flag": (True, (), [True]),
    }
    assert answer.reason == "model_down"
    assert json.loads(answer.plain)["risk_score"] == 0.3


def test_one_value_fills_a_row() -> None:
    answer = fallback_answer(Fallback({"p": 0.25}, (Output("p", "FP32", ("batch", 4)),)))
    assert answer.tensors[0].row == "0.25,0.25,0.25,0.25"


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("high", Output("p", "FP32", ("batch", 1))),
        (0.5, Output("p", "INT64", ("batch", 1))),
        (-1, Output("p", "UINT8", ("batch", 1))),
        (1, Output("p", "BOOL", ("batch", 1))),
        (1, Output("p", "BYTES", ("batch", 1))),
        ([1, 2, 3], Output("p", "FP32", ("batch", 2))),
        (None, Output("p", "FP32", ("batch", 1))),
        (float("inf"), Output("p", "FP32", ("batch", 1))),
        (1.0, Output("p", "FP99", ("batch", 1))),
    ],
)
def test_a_fallback_that_does_not_fit_is_told_where(value: object, output: Output) -> None:
    with pytest.raises(Invalid) as caught:
        fallback_answer(Fallback({"p": value}, (output,)))
    assert caught.value.code == "invalid_fallback"
    assert caught.value.errors[0].pointer == "/fallback/response/p"
