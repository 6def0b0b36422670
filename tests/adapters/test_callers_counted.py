"""What a real Envoy counts of its callers' answers: each request once, however it ended."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from deployments.rules.statistics.answers import Answer, traffic_of_answers
from deployments.rules.statistics.latency_bounds import EDGES_MS
from tests import stack
from tests.adapters.gateways import Caller, read_statistics
from tests.adapters.test_access_adapter import (  # noqa: F401 - fixtures
    BODY,
    KEYS,
    Gate,
    directory,
    gate,
    key_of,
)

MODEL = "open_model"
VERSION = f"production/{MODEL}/1"


def answers(gate: Gate, model: str = MODEL) -> dict[Answer, int]:
    counted = read_statistics(gate.envoy.admin).callers.get(("production", model), {})
    return {Answer.parse(name): count for name, count in counted.items()}


def wait_for(gate: Gate, check: Callable[[], bool]) -> None:
    stack.wait_until("the count", check, gate.envoy.process, gate.envoy.log)


def leave_early(gate: Gate) -> None:
    """Send a request to a model that takes its time, and go away."""
    gate.upstream.held = threading.Event()
    caller = Caller(gate.port, timeout_s=0.1)
    with pytest.raises(TimeoutError):
        caller.infer(MODEL, BODY)
    caller.close()
    wait_for(gate, lambda: answers(gate).get(Answer(0, VERSION, ""), 0) == 1)
    gate.upstream.held.set()
    gate.upstream.held = None


def leave_half_sent(gate: Gate) -> None:
    """Send half a request, and go away."""
    with socket.create_connection(("127.0.0.1", gate.port)) as line:
        head = f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
        line.sendall(head.encode() + b"{")
    wait_for(gate, lambda: answers(gate).get(Answer(0, VERSION, ""), 0) == 2)


def test_every_request_is_counted_once_whoever_ended_it(gate: Gate) -> None:
    caller, sent = gate.caller(), 0
    for status in (200, 200, 200, 400, 500):
        gate.upstream.status = status
        assert caller.infer(MODEL, BODY).status == status
        sent += 1
    gate.upstream.status = 200
    assert caller.send("GET", f"/v2/models/{MODEL}/infer").status == 405
    assert caller.send("POST", f"/v2/models/{MODEL}/infer", b"{not").status == 422
    sent += 2
    leave_early(gate)
    leave_half_sent(gate)
    sent += 2
    gate.upstream.held = threading.Event()
    assert caller.infer(MODEL, BODY).status == 504
    gate.upstream.held.set()
    sent += 1

    wait_for(gate, lambda: sum(answers(gate).values()) == sent)
    assert answers(gate) == {
        Answer(200, VERSION, "1"): 3,
        Answer(400, VERSION, "1"): 1,
        Answer(500, VERSION, "1"): 1,
        Answer(405, "", ""): 1,
        Answer(422, VERSION, ""): 1,
        Answer(0, VERSION, ""): 2,
        Answer(504, VERSION, ""): 1,
    }
    found = traffic_of_answers({one.name: n for one, n in answers(gate).items()}, {})
    total = found[0] + found[1]
    assert (total.requests, total.caller_faults, total.provider_faults) == (sent, 5, 2)


def test_who_is_not_let_in_is_counted_and_blamed_on_no_version(gate: Gate) -> None:
    gate.apply(KEYS, directory((key_of(1), "billing")))
    caller = gate.caller()
    assert caller.infer("guarded", BODY).status == 401
    assert caller.infer("guarded", BODY, x_api_key=key_of(1).key).status == 200
    wait_for(gate, lambda: sum(answers(gate, "guarded").values()) == 2)
    found = traffic_of_answers({a.name: n for a, n in answers(gate, "guarded").items()}, {})
    assert found[0].statuses == {"refused_401": 1}
    assert found[1].statuses == {"200": 1}


def test_counters_outlive_a_change_of_the_listener(gate: Gate) -> None:
    for _ in range(3):
        gate.caller().infer(MODEL, BODY)
    wait_for(gate, lambda: sum(answers(gate).values()) == 3)
    gate.log = f"{gate.log}.other"
    gate.apply()
    wait_for(gate, lambda: gate.caller().infer(MODEL, BODY).status == 200)
    wait_for(gate, lambda: sum(answers(gate).values()) == 4)


def test_latencies_are_read_in_bins_that_thresholds_can_be_told_by(gate: Gate) -> None:
    gate.caller().infer(MODEL, BODY)

    def flushed() -> bool:
        return read_statistics(gate.envoy.admin).clusters[VERSION].latency.total == 1

    wait_for(gate, flushed)
    latency = read_statistics(gate.envoy.admin).clusters[VERSION].latency
    assert latency.bounds == EDGES_MS
