"""What callers meet at a real Envoy in front of a real Triton."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from console.adapters.triton import TritonClient
from console.errors import Unavailable
from console.stack import envoy as envoy_stack
from console.stack import process
from deployments.adapters import repository
from deployments.rules.fallbacks import Fallback, Output
from deployments.rules.histograms import delta, share_at_most
from deployments.rules.snapshots import (
    EndpointState,
    GatewayState,
    HeaderRule,
    Mirror,
    Mode,
    NodeAddress,
    Target,
)
from tests import stack
from tests.adapters.gateways import Caller, ControlPlane, Reply, Upstream, read_statistics
from tests.adapters.onnx_models import COLUMNS, place_scaled, request, serve
from tests.stack import RunningEnvoy, RunningTriton

MODEL = "edge_model"
NEXT = "edge_model_g2"
SLOW = "edge_model_slow"
FALLBACK = Fallback(
    {"score": 0.25, "label": "unknown", "reason": "model_down"},
    (Output("score", "FP32", ("batch", COLUMNS)), Output("label", "BYTES", ("batch", 1))),
)


@dataclass
class Edge:
    """A gateway with its control plane, in front of versions 1 and 2 (generation 2) of a model."""

    control: ControlPlane
    envoy: RunningEnvoy
    port: int
    log: Path
    targets: dict[int, Target]

    def apply(self, **changes: Any) -> None:
        state = EndpointState(
            "production", MODEL, 1, weights={1: 10000}, targets=self.targets, fallback=FALLBACK,
            timeout_ms=5000,
        )  # fmt: skip
        endpoint = replace(state, **{"revision": len(self.control.events) + 2, **changes})
        self.control.apply(
            GatewayState({"production": self.port}, (endpoint,), access_log=str(self.log))
        )

    def caller(self) -> Caller:
        return Caller(self.port)


@pytest.fixture(scope="module")
def targets(triton: RunningTriton) -> Iterator[dict[int, Target]]:
    """Version 1 as `edge_model`/1 and version 2 as `edge_model_g2`/2, loaded once."""
    host, port = triton.http.split(":")
    node = NodeAddress("local", host, int(port))
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        serve(client, triton.repository, MODEL, 1)
        serve(client, triton.repository, MODEL, 2, triton_model=NEXT)
        yield {1: Target(MODEL, 1, (node,)), 2: Target(NEXT, 2, (node,))}
        for name, version in ((MODEL, 1), (NEXT, 2)):
            client.unload(name)
            repository.remove_version(triton.repository, name, version)
            repository.remove_model(triton.repository, name)


@pytest.fixture
def edge(
    targets: dict[int, Target],
    envoy_factory: Callable[..., RunningEnvoy],
    free_port: Callable[[], int],
    tmp_path: Path,
) -> Iterator[Edge]:
    control = ControlPlane(free_port())
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=control.port)
    envoy = envoy_factory(document, wait=False)
    edge = Edge(control, envoy, free_port(), tmp_path / "access.jsonl", targets)
    edge.apply()
    yield edge
    control.stop()


def factor(reply: Reply) -> float:
    """Which version's graph computed the answer to a row of ones."""
    assert reply.status == 200, reply.body
    return float(reply.json["outputs"][0]["data"][0])


def problem(reply: Reply) -> tuple[int, str]:
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["status"] == reply.status
    assert reply.json["title"]
    assert reply.json["hint"]
    return reply.status, reply.json["code"]


def statistics_after_flush(edge: Edge, wanted: int, cluster: str) -> Any:
    """Statistics once the histogram of a cluster holds so many values (Envoy merges each 1 s)."""
    found: list[Any] = [None]

    def flushed() -> bool:
        sample = read_statistics(edge.envoy.admin)
        found[0] = sample.clusters.get(cluster)
        return found[0] is not None and found[0].latency.total >= wanted

    stack.wait_until("flush", flushed, edge.envoy.process, edge.envoy.log)
    return found[0]


def test_a_split_is_kept_and_callers_stay_where_they_are(edge: Edge) -> None:
    edge.apply(weights={1: 9500, 2: 500})
    caller = edge.caller()
    versions = {}
    for user in range(1000):
        reply = caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}")
        assert factor(reply) == float(reply.version)
        versions[user] = reply.version
    shares = Counter(versions.values())
    assert shares["1"] + shares["2"] == 1000
    # 50 are expected; five standard deviations of a binomial are 34.
    assert 16 <= shares["2"] <= 84
    second = [user for user, version in versions.items() if version == "2"][:3]
    for user in (*second, 0, 1):
        again = {caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}").version}
        assert again == {versions[user]}
    edge.apply(weights={1: 9000, 2: 1000})
    for user in second:
        assert caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}").version == "2"


def test_callers_without_identity_are_split_as_well(edge: Edge) -> None:
    edge.apply(weights={1: 5000, 2: 5000})
    caller = edge.caller()
    shares = Counter(caller.infer(MODEL, request(1.0)).version for _ in range(200))
    assert min(shares["1"], shares["2"]) > 50


def test_a_flip_moves_every_request_and_fails_none(edge: Edge) -> None:
    stop = threading.Event()
    answers: list[tuple[int, str]] = []

    def call(user: int) -> None:
        caller = edge.caller()
        while not stop.is_set():
            reply = caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}")
            answers.append((reply.status, reply.version))

    threads = [threading.Thread(target=call, args=(user,)) for user in range(3)]
    for thread in threads:
        thread.start()
    try:
        caller = edge.caller()
        for turn in range(10):
            version = 2 - turn % 2
            edge.apply(weights={version: 10000})
            while caller.infer(MODEL, request(1.0)).version != str(version):
                pass
            assert {caller.infer(MODEL, request(1.0)).version for _ in range(20)} == {str(version)}
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
    assert {status for status, _ in answers} == {200}
    assert {version for _, version in answers} == {"1", "2"}


def test_request_ids_are_kept_or_made_and_versions_cannot_be_faked(edge: Edge) -> None:
    caller = edge.caller()
    kept = caller.infer(MODEL, request(1.0), x_request_id="my-id-1", x_model_version="77")
    assert kept.headers["x-request-id"] == "my-id-1"
    assert kept.version == "1"
    made = {caller.infer(MODEL, request(1.0)).headers["x-request-id"] for _ in range(5)}
    assert len(made) == 5
    assert all(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", one) for one in made)


def test_an_upstream_can_neither_see_nor_say_another_version(edge: Edge) -> None:
    upstream = Upstream("7")
    try:
        node = NodeAddress("n", "127.0.0.1", upstream.port)
        edge.apply(weights={7: 10000}, targets={7: Target(NEXT, 5, (node,))})
        reply = edge.caller().infer(
            MODEL, {"x": 1}, x_model_version="1", x_covenant_fallback="yes", x_request_id="my-id-2"
        )
    finally:
        upstream.stop()
    assert reply.version == "7"
    assert upstream.paths == [f"/v2/models/{NEXT}/versions/5/infer"]
    assert "x-model-version" not in upstream.headers[0]
    assert "x-covenant-fallback" not in upstream.headers[0]
    assert upstream.headers[0]["x-request-id"] == "my-id-2"


def test_rules_pins_and_descriptions_reach_their_version(edge: Edge) -> None:
    edge.apply(weights={1: 10000}, header_rules=(HeaderRule("X-Exp-Id", "42", 2),))
    caller = edge.caller()
    assert factor(caller.infer(MODEL, request(1.0), x_exp_id="42")) == 2.0
    assert factor(caller.infer(MODEL, request(1.0), x_exp_id="43")) == 1.0
    pinned = f"/v2/models/{MODEL}/versions/2"
    assert factor(caller.send("POST", f"{pinned}/infer?trace=1", request(1.0))) == 2.0
    assert caller.send("GET", f"{pinned}/ready").status == 200
    assert caller.send("GET", pinned).json["name"] == NEXT
    assert caller.send("GET", f"/v2/models/{MODEL}/ready").status == 200
    described = caller.send("GET", f"/v2/models/{MODEL}").json
    assert described["name"] == MODEL
    assert described["inputs"][0]["shape"] == [-1, COLUMNS]


def test_what_is_not_served_is_a_problem(edge: Edge) -> None:
    caller = edge.caller()
    for method, path, wanted in (
        ("POST", "/v2/models/nobody/infer", (404, "model_not_found")),
        ("POST", f"/v2/models/{MODEL}/versions/9/infer", (404, "model_not_found")),
        ("POST", f"/v2/models/{MODEL}x/infer", (404, "model_not_found")),
        ("POST", f"/v2/repository/models/{MODEL}/unload", (404, "model_not_found")),
        ("GET", f"/v2/models/{MODEL}/stats", (404, "model_not_found")),
        ("GET", f"/v2/models/{MODEL}/infer", (405, "method_not_allowed")),
        ("POST", f"/v2/models/{MODEL}/ready", (405, "method_not_allowed")),
        ("POST", f"/v1/models/{MODEL}:predict", (404, "model_not_found")),
    ):
        reply = caller.send(method, path, {"inputs": []} if method == "POST" else None)
        assert problem(reply) == wanted, path
        assert reply.headers["x-request-id"]


def test_binary_tensors_pass_unchanged(edge: Edge) -> None:
    edge.apply(weights={2: 10000})
    values = [1.5, 2.5, 3.5, 4.5]
    raw = struct.pack("<4f", *values)
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "features",
                    "datatype": "FP32",
                    "shape": [1, COLUMNS],
                    "parameters": {"binary_data_size": len(raw)},
                }
            ],
            "outputs": [{"name": "score", "parameters": {"binary_data": True}}],
        }
    ).encode()
    reply = edge.caller().infer(MODEL, head + raw, inference_header_content_length=str(len(head)))
    assert reply.status == 200
    size = int(reply.headers["inference-header-content-length"])
    assert struct.unpack("<4f", reply.body[size:]) == (3.0, 5.0, 7.0, 9.0)


def test_fallback_answers_in_the_callers_own_protocol(edge: Edge) -> None:
    edge.apply(mode=Mode.FALLBACK)
    caller = edge.caller()
    body = {"id": "call-9", **request(1.0, 2.0, 3.0)}
    reply = caller.infer(MODEL, body, x_request_id="my-id-3")
    assert reply.status == 200
    assert reply.headers["x-covenant-fallback"] == "model_down"
    assert reply.version == "fallback"
    assert reply.headers["x-request-id"] == "my-id-3"
    assert reply.json == {
        "id": "call-9",
        "model_name": MODEL,
        "parameters": {"fallback": True, "reason": "model_down"},
        "outputs": [
            {
                "name": "score",
                "datatype": "FP32",
                "shape": [3, COLUMNS],
                "data": [0.25] * 3 * COLUMNS,
            },
            {"name": "label", "datatype": "BYTES", "shape": [3, 1], "data": ["unknown"] * 3},
        ],
    }
    pinned = caller.send("POST", f"/v2/models/{MODEL}/versions/1/infer", request(1.0))
    assert pinned.json["outputs"][0]["shape"] == [1, COLUMNS]
    plain = {"score": 0.25, "label": "unknown", "reason": "model_down"}
    assert caller.send("POST", f"/v1/models/{MODEL}:predict", {"features": [1]}).json == plain
    asked = caller.infer(MODEL, request(1.0), accept="application/json;format=plain")
    assert asked.json == plain
    assert caller.send("GET", f"/v2/models/{MODEL}/ready").status == 200
    described = caller.send("GET", f"/v2/models/{MODEL}").json
    assert [(o["name"], o["shape"]) for o in described["outputs"]] == [
        ("score", [-1, COLUMNS]),
        ("label", [-1, 1]),
    ]


def test_fallback_survives_hostile_bodies(edge: Edge) -> None:
    edge.apply(mode=Mode.FALLBACK)
    caller = edge.caller()
    large = {"inputs": [{"name": "features", "data": [0.5] * 500_000, "shape": [2, 250_000]}]}
    assert caller.infer(MODEL, large).json["outputs"][0]["shape"] == [2, COLUMNS]
    assert caller.infer(MODEL, b"{ this is no JSON").json["outputs"][0]["shape"] == [1, COLUMNS]
    assert caller.infer(MODEL, b"").json["outputs"][0]["shape"] == [1, COLUMNS]
    assert caller.infer(MODEL, b'{"inputs":[{"shape":[0,4]}]}').json["outputs"][0]["data"] == []
    huge = caller.infer(MODEL, b'{"inputs":[{"shape":[99999999999999999999,4]}]}')
    assert problem(huge) == (422, "batch_too_large")
    escaped = json.dumps({"id": 'a"b', "inputs": [{"data": ['"shape": [9'], "shape": [2, 1]}]})
    reply = caller.infer(MODEL, escaped.encode())
    assert reply.json["outputs"][0]["shape"] == [2, COLUMNS]
    assert "id" not in reply.json


def test_an_open_circuit_answers_everybody_with_the_contracts_code(edge: Edge) -> None:
    edge.apply(mode=Mode.OPEN, unavailable_code="fraud_service_down", retry_after_s=120)
    caller = edge.caller()
    for method, path in (
        ("POST", f"/v2/models/{MODEL}/infer"),
        ("POST", f"/v2/models/{MODEL}/versions/1/infer"),
        ("POST", f"/v1/models/{MODEL}:predict"),
        ("GET", f"/v2/models/{MODEL}/ready"),
    ):
        reply = caller.send(method, path, request(1.0) if method == "POST" else None)
        assert problem(reply) == (503, "fraud_service_down")
        assert reply.headers["retry-after"] == "120"
    edge.apply(weights={1: 10000})
    assert factor(caller.infer(MODEL, request(1.0))) == 1.0


def test_an_endpoint_without_any_version_is_open(edge: Edge) -> None:
    edge.apply(weights={}, targets={})
    assert problem(edge.caller().infer(MODEL, request(1.0))) == (503, "model_unavailable")


def test_everything_is_counted_where_it_was_answered(edge: Edge) -> None:
    caller = edge.caller()
    edge.apply(weights={1: 10000}, mirror=Mirror(2))
    for _ in range(12):
        assert caller.infer(MODEL, request(1.0)).version == "1"
    for _ in range(3):
        assert caller.infer(MODEL, {"inputs": []}).status == 400
    edge.apply(mode=Mode.FALLBACK, mirror=Mirror(2))
    for _ in range(5):
        caller.infer(MODEL, request(1.0))
    edge.apply(mode=Mode.OPEN, mirror=Mirror(2))
    for _ in range(4):
        caller.infer(MODEL, request(1.0))
    version = statistics_after_flush(edge, 15, f"production/{MODEL}/1")
    sample = read_statistics(edge.envoy.admin)
    counters = version.counters
    assert (counters["total"], counters["ok_2xx"], counters["client_4xx"]) == (15, 12, 3)
    assert counters["healthy"] == counters["members"] == 1
    assert version.latency.total == 15
    assert share_at_most(version.latency, 5000) == 1.0
    shadow = sample.clusters[f"production/{MODEL}/2/shadow"].counters
    assert (shadow["total"], shadow["ok_2xx"]) == (15, 12)
    assert sample.clusters[f"production/{MODEL}/2"].counters["total"] == 0
    assert sample.clusters[f"production/{MODEL}/fallback"].counters["ok_2xx"] == 5
    assert sample.clusters[f"production/{MODEL}/open"].counters["server_5xx"] == 4
    assert 0 <= sample.uptime_s < 120
    assert time.time() - 120 < sample.started_at <= time.time()


BAD_BODIES = {
    "no JSON": b"{ this is no JSON",
    "no object": b"[1]",
    "a word for a number": json.dumps(
        {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 4],
                     "data": ["a\"}", 2, 3, 4]}]}
    ).encode(),
    "less data than the shape": json.dumps(
        {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 4], "data": [1, 2]}]}
    ).encode(),
    "an id that is no text": b'{"id": 5, "inputs": []}',
    "less than no classes": json.dumps(
        {**request(1.0), "outputs": [{"name": "scaled", "parameters": {"classification": -1}}]}
    ).encode(),
}  # fmt: skip


def test_a_callers_malformed_request_is_the_callers_fault(edge: Edge) -> None:
    """Triton answers 500 to all of these."""
    caller = edge.caller()
    for body in BAD_BODIES.values():
        for _ in range(5):
            reply = caller.infer(MODEL, body)
            assert problem(reply) == (422, "invalid_input")
            assert reply.version == "1"
            assert "Unable to" in reply.json["detail"] or "parse" in reply.json["detail"]
            assert reply.json["error"] == reply.json["detail"]
    assert [caller.infer(MODEL, request(1.0)).status for _ in range(10)] == [200] * 10
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/1"].counters
    assert (counters["client_4xx"], counters.get("server_5xx", 0)) == (30, 0)


def test_no_request_can_end_the_process_of_a_triton(edge: Edge) -> None:
    """Each of them did, with everybody's models, before the gateway looked at bodies."""
    caller = edge.caller()
    claims = json.dumps(request(1.0)).replace(f"[1, {COLUMNS}]", f"[1000000000000, {COLUMNS}]")
    hidden = claims.replace("shape", "sh\\u0061pe")
    deep = '{"inputs":' + "[" * 200_000
    for body in (claims, hidden, deep):
        assert problem(caller.infer(MODEL, body.encode())) == (422, "invalid_input")
    packed = caller.send("POST", f"/v2/models/{MODEL}/infer", b"\x1f\x8b", Content_Encoding="gzip")
    assert problem(packed) == (415, "encoding_not_taken")
    brackets = {**request(1.0), "parameters": {"note": '\\"' + "[" * 100}}
    assert caller.infer(MODEL, brackets).status == 200


def test_a_body_beyond_the_gateways_limit_is_refused(edge: Edge) -> None:
    caller = edge.caller()
    most = 64 * 1024**2
    assert problem(caller.infer(MODEL, b" " * (most + 65536))) == (413, "body_too_large")
    row = json.dumps(request(1.0)).encode()
    assert edge.caller().infer(MODEL, row + b" " * (8 * 1024**2)).status == 200


def test_a_models_own_failure_stays_a_failure(edge: Edge) -> None:
    words = '{"error":"onnx runtime error: Unable to parse \'data\'"}'
    upstream = Upstream("7", status=500, content=words.encode())
    try:
        node = NodeAddress("n", "127.0.0.1", upstream.port)
        edge.apply(weights={7: 10000}, targets={7: Target(NEXT, 5, (node,))})
        caller = edge.caller()
        replies = [caller.infer(MODEL, request(1.0)) for _ in range(8)]
    finally:
        upstream.stop()
    assert [(one.status, one.body) for one in replies] == [(500, words.encode())] * 8


def test_a_triton_that_has_not_loaded_the_model_yet_is_at_fault_itself(edge: Edge) -> None:
    """Callers know the contract's code; a 404 would be counted against them."""
    words = '{"error":"Request for unknown model: \'edge_model\' is not found"}'
    upstream = Upstream("7", status=404, content=words.encode())
    try:
        node = NodeAddress("n", "127.0.0.1", upstream.port)
        edge.apply(
            weights={7: 10000}, targets={7: Target(NEXT, 5, (node,))}, unavailable_code="closed"
        )
        reply = edge.caller().infer(MODEL, request(1.0))
    finally:
        upstream.stop()
    assert problem(reply) == (503, "closed")
    assert reply.headers["retry-after"] == "1"
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/7"].counters
    assert (counters.get("client_4xx", 0), counters["server_5xx"]) == (0, 1)


def test_a_model_that_is_too_slow_ends_in_a_problem(edge: Edge, triton: RunningTriton) -> None:
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        # A single row waits two seconds for others to fill its batch.
        place_scaled(triton.repository, SLOW, 3, queue_delay_us=2_000_000)
        client.load(SLOW)
        try:
            target = Target(SLOW, 3, edge.targets[1].nodes)
            edge.apply(weights={3: 10000}, targets={3: target}, timeout_ms=200)
            reply = edge.caller().infer(MODEL, request(1.0), x_envoy_upstream_rq_timeout_ms="9000")
        finally:
            client.unload(SLOW)
            repository.remove_version(triton.repository, SLOW, 3)
            repository.remove_model(triton.repository, SLOW)
    assert problem(reply) == (504, "timeout")
    assert reply.json["request_id"] == reply.headers["x-request-id"]
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/3"].counters
    assert (counters["total"], counters["server_5xx"], counters["timeout"]) == (1, 1, 1)


def test_a_node_that_dies_drops_out_and_comes_back(edge: Edge, tmp_path: Path) -> None:
    """Two nodes hold version 1; one is killed, then there is only the dead one, then it is back."""
    running, child = stack.start_triton(tmp_path / "second")
    other = NodeAddress("second", "127.0.0.1", int(running.http.split(":")[1]))
    try:
        with TritonClient(running.grpc, repository_key=running.key) as client:
            serve(client, running.repository, MODEL, 1)
        nodes = (*edge.targets[1].nodes, other)
        edge.apply(targets={1: Target(MODEL, 1, nodes)})
        caller = edge.caller()
        seen = {log_line["upstream"] for log_line in calls_logged(edge, caller, 40)}
        assert len(seen) == 2
        os.kill(running.pid, signal.SIGKILL)
        child.wait(10)
        # Connections that fail are tried again elsewhere; those cut in mid-answer are not.
        statuses = Counter(caller.infer(MODEL, request(1.0)).status for _ in range(300))
        assert statuses[200] >= 295
        edge.apply(targets={1: Target(MODEL, 1, (other,))})
        reply = caller.infer(MODEL, request(1.0))
        assert problem(reply) == (503, "model_unavailable")
        assert reply.headers["retry-after"] == "1"
        standby = Upstream("1", port=other.http_port)
        try:
            stack.wait_until(
                "recovery",
                lambda: caller.infer(MODEL, {"x": 1}).status == 200,
                edge.envoy.process,
                edge.envoy.log,
            )
        finally:
            standby.stop()
    finally:
        process.stop(child, signal.SIGKILL, seconds=5)


def calls_logged(edge: Edge, caller: Caller, count: int) -> list[dict[str, Any]]:
    """Call so often, and return the access log's lines of these calls."""
    for number in range(count):
        caller.infer(MODEL, request(1.0), x_request_id=f"logged-{number}")
    found: list[dict[str, Any]] = []

    def written() -> bool:
        lines = [json.loads(line) for line in edge.log.read_text().splitlines()]
        found[:] = [one for one in lines if one["x_request_id"].startswith("logged-")]
        return len(found) == count

    stack.wait_until("access log", written, edge.envoy.process, edge.envoy.log)
    return found


def test_each_call_is_logged_with_what_the_contract_asks_for(edge: Edge) -> None:
    edge.apply(weights={2: 10000})
    (line,) = calls_logged(edge, edge.caller(), 1)
    assert line["x_request_id"] == "logged-0"
    assert (line["environment"], line["model"], line["model_version"]) == ("production", MODEL, "2")
    assert line["cluster"] == f"production/{MODEL}/2"
    assert (line["status"], line["method"]) == (200, "POST")
    assert isinstance(line["duration_ms"], int)


def test_statistics_say_when_a_gateway_began_anew(
    edge: Edge, envoy_factory: Callable[..., RunningEnvoy], free_port: Callable[[], int]
) -> None:
    for _ in range(3):
        edge.caller().infer(MODEL, request(1.0))
    before = statistics_after_flush(edge, 3, f"production/{MODEL}/1")
    started = read_statistics(edge.envoy.admin).started_at
    assert read_statistics(edge.envoy.admin).started_at == pytest.approx(started, abs=2)
    process.stop(edge.envoy.process, signal.SIGTERM, seconds=5)
    with pytest.raises(Unavailable) as caught:
        read_statistics(edge.envoy.admin)
    assert caught.value.code == "gateway_unreachable"
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=edge.control.port)
    edge.envoy = envoy_factory(document)
    again = read_statistics(edge.envoy.admin)
    assert again.started_at > started
    assert again.uptime_s <= time.time() - started
    after = again.clusters[f"production/{MODEL}/1"]
    assert delta(after.latency, before.latency, restarted=True) == after.latency
