"""Rules answer without any model: a real gateway, a real edge process, and its death."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from console.env import ROOT
from console.stack import envoy as envoy_stack
from deployments.adapters import rule_store
from deployments.rules.gateways.state import EndpointState, GatewayState, Mode
from deployments.selectors.traffic.routing import fallback_of
from models_registry.models import RegisteredModel
from models_registry.rules import contract_document
from tests import factories
from tests.adapters.gateways import Caller, ControlPlane
from tests.deployments.calling import Load
from tests.deployments.waiting import eventually
from tests.stack import RunningEnvoy

MODEL = "ruled"
FALLBACK = {
    "response": {"risk_score": 0.25, "reason": "model_down"},
    "rules": [
        {"name": "high", "when": "features[0] > 5.0", "response": {"risk_score": 0.875}},
        {"name": "low", "when": "features.all(v, v < 0.0)", "response": {"risk_score": 0.125}},
    ],
}
HIGH, LOW, USUAL = [9.0] + [0.0] * 9, [-1.0] * 10, [1.0] * 10


@dataclass
class Ruled:
    """An endpoint in fallback mode whose contract has rules, and the edge that answers by them."""

    model: RegisteredModel
    control: ControlPlane
    port: int
    edge_port: int
    command: list[str]
    environment: dict[str, str]
    log: Path
    edge: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_edge(self) -> None:
        with self.log.open("ab") as log:
            self.edge = subprocess.Popen(
                self.command, env=self.environment, cwd=ROOT, stdout=log, stderr=log
            )

    def kill_edge(self) -> None:
        assert self.edge is not None
        os.kill(self.edge.pid, signal.SIGKILL)
        self.edge.wait(10)

    def apply(self, **changes: Any) -> None:
        contract = self.model.contracts.get()
        fallback = fallback_of(contract_document.load(bytes(contract.payload)))
        state = EndpointState(
            "production", MODEL, len(self.control.events) + 1, mode=Mode.FALLBACK,
            fallback=fallback, rules_fallback=True, **changes,
        )  # fmt: skip
        self.control.apply(
            GatewayState(
                {"production": self.port}, (state,), access_log="/dev/null",
                edge=("127.0.0.1", self.edge_port),
            )
        )  # fmt: skip

    def infer(self, *rows: list[float], **headers: str) -> Any:
        tensor = {"name": "features", "datatype": "FP32", "shape": [len(rows), 10]}
        body = {"id": "a1", "inputs": [{**tensor, "data": [v for row in rows for v in row]}]}
        caller = Caller(self.port)
        try:
            return caller.infer(MODEL, body, **headers)
        finally:
            caller.close()

    def answers_by_rules(self) -> bool:
        return bool(self.infer(HIGH).headers.get("x-covenant-fallback") == "rules")


@pytest.fixture
def ruled(
    process_environment: dict[str, str],
    envoy_factory: Callable[..., RunningEnvoy],
    free_port: Callable[[], int],
    tmp_path: Path,
) -> Iterator[Ruled]:
    model = factories.make_model(MODEL)
    factories.make_contract(model, fallback=FALLBACK)
    control = ControlPlane(free_port())
    document = envoy_stack.bootstrap(admin_port=free_port(), ads_port=control.port)
    envoy_factory(document, wait=False)
    port = free_port()
    made = Ruled(
        model, control, free_port(), port,
        [sys.executable, str(ROOT / "manage.py"), "edge", f"--address=127.0.0.1:{port}"],
        process_environment, tmp_path / "edge.log",
    )  # fmt: skip
    made.start_edge()
    made.apply()
    eventually(made.answers_by_rules, 60)
    yield made
    if made.edge is not None and made.edge.poll() is None:
        made.edge.terminate()
        assert made.edge.wait(10) == -signal.SIGTERM
    control.stop()


def _each_row_is_answered_by_the_first_rule_that_holds(ruled: Ruled) -> None:
    reply = ruled.infer(HIGH, USUAL, LOW)
    assert reply.status == 200
    assert reply.version == "fallback"
    assert reply.headers["x-covenant-fallback"] == "rules"
    assert reply.json == {
        "id": "a1",
        "model_name": MODEL,
        "parameters": {"fallback": True, "reason": "model_down", "rules": ["high", None, "low"]},
        "outputs": [
            {"name": "risk_score", "datatype": "FP32", "shape": [3, 1],
             "data": [0.875, 0.25, 0.125]},
        ],
    }  # fmt: skip


def _requests_without_a_rule_for_them_get_the_fixed_response(ruled: Ruled) -> None:
    fixed = ruled.infer(USUAL)
    assert fixed.headers["x-covenant-fallback"] == "model_down"
    assert fixed.json["outputs"][0]["data"] == [0.25]
    caller = Caller(ruled.port)
    for body in (
        b"",
        b"{",
        b'{"inputs": 3}',
        b"[" * 100_000,
        b'{"inputs": [{"name": "features"}]}',
    ):
        reply = caller.infer(MODEL, body)
        assert (reply.status, reply.headers["x-covenant-fallback"]) == (200, "model_down")
        assert reply.json["outputs"][0]["data"] == [0.25]
    many = {"name": "features", "datatype": "FP32", "shape": [5000, 10], "data": [9.0] * 50_000}
    reply = caller.infer(MODEL, {"inputs": [many]})
    assert reply.json["outputs"][0]["data"] == [0.25] * 5000
    assert caller.send("GET", f"/v2/models/{MODEL}/ready").status == 200
    assert caller.send("GET", f"/v2/models/{MODEL}").json["platform"] == "covenant_fallback"


def _binary_and_plain_requests_are_read_too(ruled: Ruled) -> None:
    caller = Caller(ruled.port)
    head = (
        b'{"inputs":[{"name":"features","datatype":"FP32","shape":[2,10],'
        b'"parameters":{"binary_data_size":80}}]}'
    )
    body = head + struct.pack("<20f", *HIGH, *LOW)
    reply = caller.infer(MODEL, body, inference_header_content_length=str(len(head)))
    assert reply.json["parameters"]["rules"] == ["high", "low"]
    not_a_number = head + struct.pack("<20f", *HIGH[:9], float("nan"), *LOW)
    reply = caller.infer(MODEL, not_a_number, inference_header_content_length=str(len(head)))
    assert reply.json["parameters"]["rules"] == [None, "low"]
    one = caller.send("POST", f"/v1/models/{MODEL}:predict", {"instances": [{"features": HIGH}]})
    assert one.json == {"risk_score": 0.875}
    two = caller.send("POST", f"/v1/models/{MODEL}:predict", {"instances": [HIGH, USUAL]})
    assert two.json["predictions"] == [{"risk_score": 0.875}, FALLBACK["response"]]


def _callers_cannot_ask_for_another_endpoint(ruled: Ruled) -> None:
    """A header of ours is overwritten, and another endpoint's answer is not to be had."""
    reply = ruled.infer(HIGH, x_covenant_answer="production/other/fallback")
    assert reply.json["model_name"] == MODEL


def _who_answered_is_counted(ruled: Ruled) -> None:
    ruled.infer(HIGH, HIGH, USUAL)
    wanted = {("answered", "high"), ("answered", rule_store.FIXED)}
    eventually(lambda: wanted <= rule_store.last_hour(f"production/{MODEL}").keys())


def test_a_new_contract_answers_and_one_without_rules_asks_nobody(ruled: Ruled) -> None:
    rules = [{**FALLBACK["rules"][0], "response": {"risk_score": 0.5}}]  # type: ignore[dict-item]
    factories.make_contract(ruled.model, fallback={**FALLBACK, "rules": rules})
    eventually(lambda: ruled.infer(HIGH).json["outputs"][0]["data"] == [0.5])
    factories.make_contract(ruled.model, fallback={**FALLBACK, "rules": []})
    eventually(lambda: ruled.infer(HIGH).headers["x-covenant-fallback"] == "model_down")


def _a_killed_edge_costs_no_request_and_is_used_again(ruled: Ruled) -> None:
    """Killed under load (-9), away for a while, then back: every request is answered with 200."""
    with Load(ruled.url, MODEL) as load:
        eventually(lambda: len(load.answers) > 100)
        ruled.kill_edge()
        died = len(load.answers)
        eventually(lambda: len(load.answers) > died + 300)
        begun = time.monotonic()
        reply = ruled.infer(HIGH)
        assert time.monotonic() - begun < 0.25
        assert (reply.status, reply.headers["x-covenant-fallback"]) == (200, "model_down")
        ruled.start_edge()
        eventually(ruled.answers_by_rules, 30)
    assert load.errors == []
    assert set(load.statuses) == {200}


def _an_edge_that_hangs_costs_no_request(ruled: Ruled) -> None:
    assert ruled.edge is not None
    os.kill(ruled.edge.pid, signal.SIGSTOP)
    try:
        times = []
        for _ in range(30):
            begun = time.monotonic()
            reply = ruled.infer(HIGH)
            times.append(time.monotonic() - begun)
            assert (reply.status, reply.headers["x-covenant-fallback"]) == (200, "model_down")
        assert max(times) < 0.35
        # After some requests it is left out, and nobody waits for it.
        assert sorted(times)[15] < 0.05
    finally:
        os.kill(ruled.edge.pid, signal.SIGCONT)
    eventually(ruled.answers_by_rules, 15)


def _many_at_once_are_all_answered_by_rules(ruled: Ruled) -> None:
    wrong: list[object] = []

    def call() -> None:
        with httpx.Client(timeout=5) as client:
            for _ in range(20):
                answer = client.post(
                    f"{ruled.url}/v2/models/{MODEL}/infer",
                    json={
                        "inputs": [
                            {"name": "features", "datatype": "FP32", "shape": [40, 10],
                             "data": HIGH * 40}
                        ]
                    },
                )  # fmt: skip
                if answer.status_code != 200 or answer.json()["outputs"][0]["shape"] != [40, 1]:
                    wrong.append(answer.text)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_callers_are_answered_by_rules(ruled: Ruled) -> None:
    """One process for all of it: its start takes longer than what is looked at."""
    _each_row_is_answered_by_the_first_rule_that_holds(ruled)
    _requests_without_a_rule_for_them_get_the_fixed_response(ruled)
    _binary_and_plain_requests_are_read_too(ruled)
    _callers_cannot_ask_for_another_endpoint(ruled)
    _who_answered_is_counted(ruled)
    _many_at_once_are_all_answered_by_rules(ruled)


def test_an_edge_that_dies_or_hangs_costs_no_request(ruled: Ruled) -> None:
    _a_killed_edge_costs_no_request_and_is_used_again(ruled)
    _an_edge_that_hangs_costs_no_request(ruled)
