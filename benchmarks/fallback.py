"""Level 2 rules through a real Envoy: answers a second, and what a dead edge costs callers.

Needs nothing that runs: it starts an Envoy and an edge of its own, without databases.

    .venv/bin/python -m benchmarks.fallback [--seconds 5] [--connections 8]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from console.stack import web

ROWS = 1
PORTS = {"gateway": 9160, "admin": 9161, "ads": 9162, "edge": 9164}
MODEL = "ruled"
BODY: dict[str, object] = {
    "apiVersion": "covenant/v1",
    "kind": "ServiceContract",
    "model": MODEL,
    "interface": {
        "inputs": [{"name": "features", "dtype": "FP32", "dims": ["batch", 10]}],
        "outputs": [{"name": "risk_score", "dtype": "FP32", "dims": ["batch", 1]}],
    },
    "objectives": [{"name": "latency", "threshold_ms": 80, "target": 99.0, "window": "28d"}],
    "errors": [],
    "fallback": {
        "response": {"risk_score": 0.25, "reason": "model_down"},
        "rules": [
            {"name": f"above_{n}", "when": f"features[{n}] > 5.0", "response": {"risk_score": 0.5}}
            for n in range(9)
        ]
        + [{"name": "low", "when": "features.all(v, v < 0.0)", "response": {"risk_score": 0.1}}],
    },
    "logging": {"required": ["status"], "retention_days": 30},
}


@dataclass
class Tally:
    """What callers met: milliseconds, statuses with who answered, and broken connections."""

    took: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    broken: int = 0

    def words(self, seconds: float) -> str:
        ordered = sorted(self.took) or [0.0]
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return (
            f"{len(self.took) / seconds:7.0f} /s   p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   "
            f"max {ordered[-1]:6.1f} ms   {dict(self.answers)}   broken {self.broken}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    else:
        measure(options.seconds, options.connections)


def measure(seconds: float, connections: int) -> None:
    from console.stack import envoy, process
    from tests.adapters.gateways import ControlPlane

    folder = Path(tempfile.mkdtemp(prefix="covenant-fallback-"))
    control = ControlPlane(PORTS["ads"])
    document = envoy.bootstrap(admin_port=PORTS["admin"], ads_port=PORTS["ads"])
    child = process.spawn(envoy.server(envoy.find(), folder, document), folder / "envoy.log")
    edge = start_edge()
    try:
        apply(control, rules=False)
        report("fixed response, no hop", seconds, connections)
        apply(control, rules=True)
        report("rules", seconds, connections)
        edge = asyncio.run(killed_under_load(edge, seconds, connections))
        edge.kill()
        edge.wait()
        report("edge away", seconds, connections)
        edge = start_edge()
        time.sleep(3)  # so that the gateway asks it again
        edge.send_signal(signal.SIGSTOP)
        report("edge hangs", seconds, connections)
    finally:
        with suppress(ProcessLookupError):
            edge.kill()
        process.stop(child, signal.SIGTERM, seconds=5)
        control.stop()


async def killed_under_load(
    edge: subprocess.Popen[bytes], seconds: float, connections: int
) -> subprocess.Popen[bytes]:
    """`kill -9` in the middle of the load, and a new process a second later."""
    load = asyncio.create_task(call(seconds * 2, connections))
    await asyncio.sleep(seconds / 2)
    edge.kill()
    await asyncio.to_thread(edge.wait)
    await asyncio.sleep(1)
    again = await asyncio.to_thread(start_edge)
    tally = await load
    print(f"{'edge killed under load':24}", tally.words(seconds * 2))
    return again


def apply(control: object, *, rules: bool) -> None:
    from deployments.rules.gateways.state import EndpointState, GatewayState, Mode
    from deployments.selectors.traffic.routing import fallback_of
    from models_registry.rules import contract_document

    endpoint = EndpointState(
        "production",
        MODEL,
        2 if rules else 1,
        mode=Mode.FALLBACK,
        fallback=fallback_of(contract_document.from_json(BODY)),
        rules_fallback=rules,
    )
    state = GatewayState(
        {"production": PORTS["gateway"]},
        (endpoint,),
        access_log="/dev/null",
        edge=("127.0.0.1", PORTS["edge"]),
    )
    control.apply(state)  # type: ignore[attr-defined]


def report(name: str, seconds: float, connections: int) -> None:
    tally = asyncio.run(call(seconds, connections))
    print(f"{name:24}", tally.words(seconds), flush=True)


async def call(seconds: float, connections: int) -> Tally:
    tally = Tally()
    end = time.monotonic() + seconds
    await asyncio.gather(*(_caller(tally, end, number) for number in range(connections)))
    return tally


async def _caller(tally: Tally, end: float, number: int) -> None:
    data = [[9.0] + [0.0] * 9, [-1.0] * 10, [1.0] * 10][number % 3] * ROWS
    tensor = {"name": "features", "datatype": "FP32", "shape": [ROWS, 10], "data": data}
    body = json.dumps({"inputs": [tensor]}).encode()
    head = (
        f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    writer = None
    while time.monotonic() < end:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", PORTS["gateway"])
            begun = time.perf_counter()
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            fields = dict(
                line.split(": ", 1) for line in answer.decode().split("\r\n")[1:] if ": " in line
            )
            await reader.readexactly(int(fields["content-length"]))
            tally.took.append((time.perf_counter() - begun) * 1000)
            tally.answers[f"{answer[9:12].decode()} {fields.get('x-covenant-fallback', '')}"] += 1
        except (OSError, asyncio.IncompleteReadError):
            tally.broken += 1
            writer = None


def start_edge() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, "-m", "benchmarks.fallback", "--serve"]
    started = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    while web.status(f"http://127.0.0.1:{PORTS['edge']}/healthz") != 200:
        time.sleep(0.05)
    return started


def serve() -> None:
    """The edge with the rules of one contract, which needs no database."""
    import uvicorn

    from deployments.edge.app import EdgeApp
    from deployments.edge.rules import Rules
    from deployments.rules.fallback.rule_answers import served_rules
    from deployments.selectors.traffic.routing import fallback_of
    from models_registry.rules import contract_document

    class Fixed(Rules):
        async def run(self) -> None:
            document = contract_document.from_json(BODY)
            self._served = {MODEL: served_rules(document, fallback_of(document), 1)}
            await asyncio.Event().wait()

    config = uvicorn.Config(
        EdgeApp((Fixed(),)),
        port=PORTS["edge"],
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    main()
