"""The same scenarios over every gateway product: what a caller and an operator may rely on.

Envoy is real. Kong and Kubernetes are stand-ins at the HTTP protocol (see docs/gateways.md).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.adapters.gateway import Acked, Connected
from deployments.rules.gateways.capabilities import Capability, Level, supports
from deployments.rules.gateways.snapshots import render
from deployments.rules.gateways.state import HeaderRule, Mode, Target
from tests.adapters.gateway_edges import (
    BODY,
    MODEL,
    Driven,
    EnvoyEdge,
    GatewayEdge,
    KongEdge,
    KubernetesEdge,
    driven,
)
from tests.deployments.waiting import eventually
from tests.stack import RunningEnvoy

PRODUCTS = ("envoy", "kong", "kubernetes")


@pytest.fixture(params=PRODUCTS)
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driven]:
    edge: GatewayEdge
    if request.param == "envoy":
        factory: Callable[..., RunningEnvoy] = request.getfixturevalue("envoy_factory")
        edge = EnvoyEdge(factory, request.getfixturevalue("free_port"))
    elif request.param == "kong":
        edge = KongEdge(tmp_path / "secrets")
    else:
        edge = KubernetesEdge(tmp_path / "secrets")
    with driven(edge) as made:
        made.edge.control.wait(Connected)
        yield made


def level(gateway: Driven, capability: Capability) -> Level:
    options = getattr(getattr(gateway.edge, "registration", None), "options", {})
    found = supports(gateway.edge.product, options)
    return next(one.level for one in found if one.capability is capability)


class Calling:
    """`with Calling(gateway) as calling:` calls without a pause and keeps every status."""

    def __init__(self, gateway: Driven) -> None:
        self._caller = gateway.caller()
        self.statuses: Counter[int] = Counter()

    def __enter__(self) -> Calling:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()
        eventually(lambda: self.statuses[200] > 5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _call(self) -> None:
        while not self._stop.is_set():
            self.statuses[self._caller.infer(MODEL, BODY).status] += 1


def test_requests_reach_the_version_by_the_path_that_its_triton_knows(gateway: Driven) -> None:
    acked = gateway.apply(weights={2: 10000})
    assert acked.snapshot.revisions == {("production", MODEL): 1}
    assert acked.took_ms > 0
    caller = gateway.caller()
    reply = caller.infer(MODEL, BODY)
    assert (reply.status, reply.version, reply.json["name"]) == (200, "2", "2")
    assert caller.send("GET", f"/v2/models/{MODEL}/ready").status == 200
    assert caller.send("GET", f"/v2/models/{MODEL}").version == "2"
    triton = f"/v2/models/{MODEL}_g2/versions/2"
    assert gateway.second.paths == [f"{triton}/infer", triton]
    assert gateway.first.paths == []


def test_what_nobody_serves_is_not_found(gateway: Driven) -> None:
    gateway.apply()
    caller = gateway.caller()
    assert caller.infer("another_model", BODY).status == 404
    assert caller.send("POST", f"/v2/models/{MODEL}/versions/9/infer", BODY).status == 404
    assert caller.send("POST", f"/v2/models/{MODEL}/versions/1/unload", {}).status == 404


def test_a_split_is_kept_and_moves_as_the_product_says(gateway: Driven) -> None:
    gateway.apply(weights={1: 8000, 2: 2000})
    users = range(300)
    before = gateway.versions(users)
    shares = Counter(before.values())
    # 60 are expected; five standard deviations of a binomial are 35.
    assert 25 <= shares["2"] <= 95
    sticky = level(gateway, Capability.STICKY) is not Level.NONE
    if sticky:
        assert gateway.versions(users) == before
    gateway.apply(weights={1: 5000, 2: 5000})
    after = gateway.versions(users)
    assert 105 <= Counter(after.values())["2"] <= 195
    if level(gateway, Capability.MINIMAL_MOVEMENT) is not Level.NONE:
        assert not [user for user in users if before[user] == "2" and after[user] == "1"]


def test_a_header_rule_goes_before_the_weights(gateway: Driven) -> None:
    gateway.apply(header_rules=(HeaderRule("X-Exp-Id", "42", 2),))
    caller = gateway.caller()
    assert {caller.infer(MODEL, BODY, x_exp_id="42").version for _ in range(10)} == {"2"}
    assert {caller.infer(MODEL, BODY, x_exp_id="43").version for _ in range(10)} == {"1"}
    assert {caller.infer(MODEL, BODY).version for _ in range(10)} == {"1"}


def test_the_first_rule_that_fits_decides(gateway: Driven) -> None:
    """As for testers, who are rules on the sticky header that come first."""
    testers = [HeaderRule("x-user-id", f"tester-{number}", 2) for number in range(20)]
    other = HeaderRule("x-exp-id", "42", 1)
    gateway.apply(weights={1: 10000}, header_rules=(*testers, other))
    caller = gateway.caller()
    both = {caller.infer(MODEL, BODY, x_user_id="tester-7", x_exp_id="42").version}
    assert both == {"2"}
    assert caller.infer(MODEL, BODY, x_user_id="tester-19").version == "2"
    assert caller.infer(MODEL, BODY, x_user_id="nobody", x_exp_id="42").version == "1"


def test_a_version_can_be_named_in_the_path(gateway: Driven) -> None:
    gateway.apply()
    path = f"/v2/models/{MODEL}/versions/2/infer"
    assert gateway.caller().send("POST", path, BODY).version == "2"


def test_no_request_is_lost_while_versions_come_move_and_go(gateway: Driven) -> None:
    state = gateway.state()
    endpoint = state.endpoints[0]
    alone = {1: endpoint.targets[1]}
    gateway.apply(targets=alone)
    with Calling(gateway) as calling:
        gateway.apply()
        gateway.apply(weights={1: 5000, 2: 5000})
        gateway.apply(weights={2: 10000})
        gateway.apply(weights={2: 10000}, targets={2: endpoint.targets[2]})
        gateway.apply(weights={1: 10000})
        gateway.apply(targets=alone)
    assert set(calling.statuses) == {200}
    path = f"/v2/models/{MODEL}/versions/2/infer"
    assert gateway.caller().send("POST", path, BODY).status == 404


def test_a_node_that_is_gone_is_not_asked(gateway: Driven) -> None:
    """The second of two nodes takes the requests of the first."""
    both = (gateway.edge.node(gateway.first), gateway.edge.node(gateway.second))
    gateway.apply(targets={1: Target(MODEL, 1, both)})
    caller = gateway.caller()
    eventually(lambda: caller.infer(MODEL, BODY).json["name"] == "1")
    eventually(lambda: caller.infer(MODEL, BODY).json["name"] == "2")
    gateway.apply(targets={1: Target(MODEL, 1, both[1:])})
    assert {caller.infer(MODEL, BODY).json["name"] for _ in range(10)} == {"2"}


def test_the_contracts_fallback_answers_or_is_refused_in_words(gateway: Driven) -> None:
    gateway.apply()
    if level(gateway, Capability.FALLBACK_FIXED) is Level.NONE:
        said = gateway.refused(gateway.snapshot(mode=Mode.FALLBACK))
        assert "cannot answer by itself" in said.reason
        assert gateway.caller().infer(MODEL, BODY).status == 200
        return
    with Calling(gateway) as calling:
        gateway.apply(mode=Mode.FALLBACK)
        plain = gateway.caller().infer(MODEL, BODY, accept="application/json;format=plain")
        assert plain.status == 200
        assert plain.json == {"score": 0.25, "reason": "model_down"}
        assert plain.headers["x-covenant-fallback"] == "model_down"
        assert plain.version == "fallback"
        gateway.apply()
    assert set(calling.statuses) == {200}
    assert gateway.caller().infer(MODEL, BODY).version == "1"


def test_an_open_circuit_answers_503_and_closes_again(gateway: Driven) -> None:
    gateway.apply()
    gateway.apply(mode=Mode.OPEN, unavailable_code="fraud_unavailable", retry_after_s=7)
    reply = gateway.caller().infer(MODEL, BODY)
    assert reply.status == 503
    if level(gateway, Capability.OPEN_CIRCUIT) is Level.FULL:
        assert reply.json["code"] == "fraud_unavailable"
        assert reply.headers["retry-after"] == "7"
    pinned = gateway.caller().send("POST", f"/v2/models/{MODEL}/versions/1/infer", BODY)
    assert pinned.status == 503
    gateway.apply()
    assert gateway.caller().infer(MODEL, BODY).version == "1"


def test_a_refusal_is_told_in_words_and_the_last_good_state_serves(gateway: Driven) -> None:
    good = gateway.snapshot()
    gateway.edge.control.apply(good)
    said = gateway.refused(gateway.edge.broken(gateway.snapshot(weights={2: 10000})))
    assert said.reason
    assert said.resource_type
    assert {gateway.caller().infer(MODEL, BODY).version for _ in range(10)} == {"1"}
    gateway.apply(weights={2: 10000})
    assert gateway.caller().infer(MODEL, BODY).version == "2"


def test_a_gateway_that_was_away_catches_up_with_the_newest_state(gateway: Driven) -> None:
    gateway.apply()
    gateway.away()
    assert gateway.edge.control.connected() == frozenset()
    gateway.set(gateway.snapshot(weights={1: 5000, 2: 5000}))
    newest = gateway.snapshot(weights={2: 10000})
    seen = gateway.set(newest)
    gateway.edge.come_back()
    gateway.edge.control.wait(Connected, seen=seen)
    acked = gateway.edge.control.wait(Acked, seen=seen)
    assert acked.snapshot.version == newest.version
    eventually(lambda: gateway.caller().infer(MODEL, BODY).version == "2")


def test_a_control_that_starts_anew_changes_nothing_and_goes_on(gateway: Driven) -> None:
    snapshot = render(gateway.state())
    gateway.edge.control.apply(snapshot)
    written = gateway.edge.writes()
    with Calling(gateway) as calling:
        gateway.edge.restart_control()
        gateway.edge.control.wait(Connected)
        gateway.edge.control.apply(snapshot)
        assert gateway.edge.writes() == written
        gateway.apply(weights={2: 10000})
    assert set(calling.statuses) == {200}
    assert gateway.caller().infer(MODEL, BODY).version == "2"


def test_the_same_contents_twice_are_one_effect(gateway: Driven) -> None:
    gateway.apply(weights={1: 5000, 2: 5000})
    written = gateway.edge.writes()
    again: dict[str, Any] = {"weights": {1: 5000, 2: 5000}}
    acked = gateway.apply(**again)
    assert acked.snapshot.revisions == {("production", MODEL): 2}
    assert gateway.edge.writes() == written
