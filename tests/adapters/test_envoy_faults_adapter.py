"""What callers meet when they, a model or a node do something wrong."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from console.adapters.triton import TritonClient
from console.errors import Unavailable
from console.stack import envoy as envoy_stack
from console.stack import process
from deployments.adapters import repository
from deployments.rules.access.rules import AccessRules, Validation
from deployments.rules.gateways.state import NodeAddress, Target
from deployments.rules.statistics.histograms import delta
from tests import stack
from tests.adapters.edges import (  # noqa: F401 - fixtures
    MODEL,
    NEXT,
    SLOW,
    Edge,
    edge,
    problem,
    statistics_after_flush,
    targets,
)
from tests.adapters.gateways import Caller, Upstream, read_statistics
from tests.adapters.onnx_models import COLUMNS, place_scaled, request, serve
from tests.stack import RunningEnvoy, RunningTriton

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


def test_a_callers_malformed_request_meets_no_version(edge: Edge) -> None:
    """Triton answers 500 to all of these."""
    caller = edge.caller()
    for body in BAD_BODIES.values():
        reply = caller.infer(MODEL, body)
        assert problem(reply) == (422, "invalid_input")
        assert reply.version == ""
        assert reply.json["error"] == reply.json["detail"]
        assert reply.json["errors"]
    assert [caller.infer(MODEL, request(1.0)).status for _ in range(10)] == [200] * 10
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/1"].counters
    assert (counters["total"], counters.get("client_4xx", 0)) == (10, 0)


def test_what_the_gateway_does_not_look_at_is_the_callers_fault_all_the_same(edge: Edge) -> None:
    """With the checks turned off Triton's 500 is told from a model's own."""
    edge.apply(access=AccessRules(validation=Validation.OFF))
    caller = edge.caller()
    for body in BAD_BODIES.values():
        reply = caller.infer(MODEL, body)
        assert problem(reply) == (422, "invalid_input")
        assert reply.version == "1"
        assert "Unable to" in reply.json["detail"] or "parse" in reply.json["detail"]
    counters = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/1"].counters
    assert (counters["client_4xx"], counters.get("server_5xx", 0)) == (len(BAD_BODIES), 0)


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
                lambda: caller.infer(MODEL, request(1.0)).status == 200,
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


def test_each_call_is_logged_with_where_its_time_went(edge: Edge) -> None:
    edge.apply(weights={2: 10000})
    lines = calls_logged(edge, edge.caller(), 5)
    for line in lines:
        until, send = line["until_upstream_us"], line["send_us"]
        told = until + send + line["model_us"] + line["answer_us"]
        assert line["receive_us"] <= until + send, "the body is whole before a model gets it"
        assert line["model_us"] > 0
        assert abs(told / 1000 - line["duration_ms"]) <= 2, line


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
