"""What the gateway costs: direct Triton against the gateway, with its checks off and on.

Starts a Triton and an Envoy of its own (one worker), asks the ways in turn within one run, and
prints a line of JSON for each way and size of body: requests/s, p50 and p99 in milliseconds, and
the processor time that Envoy spent on a request, in microseconds, which other load on the machine
moves least. `gateway` checks nothing but what would end a Triton; `validation` compares each
element with the contract's limits; `policy` asks for an API key, networks and a rate limit.

.venv/bin/python -m benchmarks.gateway [--seconds 3] [--connections 16]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from benchmarks.demo_stack import report
from console.adapters.triton import TritonClient
from console.stack import envoy, process
from deployments.adapters import repository
from deployments.adapters.repository import FilePart
from deployments.rules.access.caller_directory import CallerDirectory
from deployments.rules.access.caller_keys import new_key
from deployments.rules.access.input_rules import InputRule, InputRules
from deployments.rules.access.rules import AccessRules, RateLimit, Validation
from deployments.rules.gateways.state import EndpointState, GatewayState, NodeAddress, Target
from models_registry.adapters import triton_config
from models_registry.rules.tuning import Tensor, TuningChoice, TuningFacts, plan
from tests import stack
from tests.adapters.gateways import ControlPlane
from tests.stack import RunningEnvoy, RunningTriton

MODEL = "wide"
KEY = new_key(os.urandom(5), os.urandom(24))
WIDTHS = {"100 B": 3, "10 KB": 1000, "1 MB": 104_000}
RULES = InputRules(
    (InputRule("features", "FP32", ("batch", "width"), -10.0, 10.0, refuse_nan=True),),
    ("highest",),
    most_rows=32,
)
OFF = AccessRules(validation=Validation.OFF)
POLICY = {
    "api_key": True,
    "required": True,
    "deny_networks": ("203.0.113.0/24",),
    "total": RateLimit(10_000_000, 1000, 10_000_000),
}
WAYS = {
    "gateway": OFF,
    "validation": AccessRules(),
    "policy": AccessRules(**POLICY, validation=Validation.OFF),  # type: ignore[arg-type]
    "policy and validation": AccessRules(**POLICY),  # type: ignore[arg-type]
}


@dataclass(frozen=True, slots=True)
class Way:
    """Where a request goes, and to what path."""

    name: str
    port: int
    path: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _running(Path(folder)) as (ways, gateway):
        for size, width in WIDTHS.items():
            body = _body(width)
            for way in ways:
                asyncio.run(_ask(way, body, 2, 0.3))
            for way in ways:
                before = _cpu_us(gateway.process.pid)
                took, seconds = asyncio.run(_ask(way, body, options.connections, options.seconds))
                took.sort()
                report(
                    "gateway",
                    way=way.name,
                    body=size,
                    bytes=len(body),
                    requests_per_second=round(len(took) / seconds),
                    p50_ms=round(took[len(took) // 2] * 1000, 2),
                    p99_ms=round(took[int(len(took) * 0.99)] * 1000, 2),
                    envoy_us=round((_cpu_us(gateway.process.pid) - before) / len(took)),
                )


@contextmanager
def _running(folder: Path) -> Iterator[tuple[list[Way], RunningEnvoy]]:
    triton, triton_process = stack.start_triton(folder / "triton")
    control = ControlPlane(stack.free_port())
    document = envoy.bootstrap(admin_port=stack.free_port(), ads_port=control.port)
    gateway = stack.start_envoy(folder / "envoy", document, wait=False)
    try:
        port = stack.free_port()
        with TritonClient(triton.grpc, repository_key=triton.key) as client:
            _place(triton.repository)
            client.load(MODEL)
            control.apply(_state(triton, port))
            own = int(triton.http.rpartition(":")[2])
            through = [Way(name, port, f"/v2/models/{_endpoint(name)}/infer") for name in WAYS]
            direct = Way("direct", own, f"/v2/models/{MODEL}/versions/1/infer")
            yield [direct, *through], gateway
    finally:
        control.stop()
        process.stop(gateway.process, signal.SIGTERM, seconds=5)
        process.stop(triton_process, signal.SIGTERM, seconds=10)


def _endpoint(way: str) -> str:
    return "wide_" + way.replace(" ", "_")


def _state(triton: RunningTriton, port: int) -> GatewayState:
    host, _, number = triton.http.partition(":")
    target = Target(MODEL, 1, (NodeAddress("local", host, int(number)),))
    endpoints = tuple(
        EndpointState(
            "production", _endpoint(name), 1, weights={1: 10000}, targets={1: target},
            timeout_ms=60_000, access=access, input_rules=RULES,
        )
        for name, access in WAYS.items()
    )  # fmt: skip
    callers = {"production": CallerDirectory(keys=((KEY.digest, "benchmark"),))}
    return GatewayState({"production": port}, endpoints, access_log=os.devnull, directories=callers)


def _place(root: Path) -> None:
    """A model of one input of any width, whose answer is its largest value."""
    inputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", "width"])]
    outputs = [helper.make_tensor_value_info("highest", TensorProto.FLOAT, ["batch", 1])]
    node = helper.make_node("ReduceMax", ["features"], ["highest"], axes=[1], keepdims=1)
    graph = helper.make_graph([node], MODEL, inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    facts = TuningFacts(
        model=MODEL,
        inputs=(Tensor("features", "FP32", ("batch", "width")),),
        outputs=(Tensor("highest", "FP32", ("batch", 1)),),
    )
    choice = TuningChoice(queue_delay_us=0, warmup=False)
    config = triton_config.specialise(triton_config.render(plan(facts, choice)), triton_model=MODEL)
    repository.place(
        root,
        triton_model=MODEL,
        version=1,
        config=[FilePart.of_bytes("config.pbtxt", config.encode())],
        files=[FilePart.of_bytes("model.onnx", model.SerializeToString())],
    )


def _body(width: int) -> bytes:
    numbers = random.Random(0)
    data = ",".join(f"{numbers.uniform(-9, 9):.6f}" for _ in range(width))
    head = '{"inputs":[{"name":"features","datatype":"FP32","shape":[1,%d],"data":[%s]}]}'
    return (head % (width, data)).encode()


async def _ask(
    way: Way, body: bytes, connections: int, seconds: float
) -> tuple[list[float], float]:
    """The seconds that each answer took, and how long the whole lasted."""
    head = (
        f"POST {way.path} HTTP/1.1\r\nhost: benchmark\r\nx-api-key: {KEY.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    took: list[float] = []
    started = time.monotonic()
    callers = (
        _call(way.port, head.encode() + body, started + seconds, took) for _ in range(connections)
    )
    await asyncio.gather(*callers)
    return took, time.monotonic() - started


async def _call(port: int, request: bytes, until: float, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    while time.monotonic() < until:
        started = time.monotonic()
        writer.write(request)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        if not head.startswith(b"http/1.1 200"):
            raise SystemExit(f"{head.decode()}{answer[:300].decode()}")
        took.append(time.monotonic() - started)
    writer.close()


def _cpu_us(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1e6


if __name__ == "__main__":
    main()
