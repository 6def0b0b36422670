"""A control plane in a thread of its own, and callers, for tests against a real Envoy."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import httpx

from deployments.adapters.envoy.ads import Acked, AdsServer, Connected, Disconnected, Nacked
from deployments.adapters.envoy.stats import scrape
from deployments.adapters.gateway import GatewaySample
from deployments.rules.gateways.snapshots import Snapshot, render
from deployments.rules.gateways.state import GatewayState

NODE_ID = "embedded"
Event = TypeVar("Event", Connected, Disconnected, Acked, Nacked)


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """One loop for all: grpc.aio serves the first loop of a process only."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class ControlPlane:
    """An `AdsServer` that can be asked from a test's own thread."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.events: list[object] = []
        self._changed = threading.Condition()
        self.server = self._run(self._start())

    def set(self, snapshot: Snapshot, node_id: str = NODE_ID) -> None:
        async def call() -> None:
            self.server.set_snapshot(node_id, snapshot)

        self._run(call())

    def apply(self, state: GatewayState | Snapshot, node_id: str = NODE_ID) -> Acked:
        """Set a state and wait until the gateway acts on it."""
        snapshot = state if isinstance(state, Snapshot) else render(state)
        seen = len(self.events)
        self.set(snapshot, node_id)
        return self.wait(
            Acked, lambda e: e.snapshot.version == snapshot.version and e.node_id == node_id, seen
        )

    def wait(
        self,
        kind: type[Event],
        matches: Callable[[Event], bool] = lambda _: True,
        seen: int = 0,
        seconds: float = 15,
    ) -> Event:
        """The first event of a kind, among those after the first `seen`."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for event in self.events[seen:]:
                    if isinstance(event, kind) and matches(event):
                        return event
                left = deadline - time.monotonic()
                assert left > 0, f"no {kind.__name__} within {seconds} s; seen: {self.events}"
                self._changed.wait(left)

    def connected(self) -> frozenset[str]:
        return self.server.connected()

    def stop(self) -> None:
        self._run(self.server.stop())

    async def _start(self) -> AdsServer:
        server = AdsServer(
            on_connect=self._note, on_disconnect=self._note, on_ack=self._note, on_nack=self._note
        )
        await server.start(f"127.0.0.1:{self.port}")
        return server

    def _note(self, event: object) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, _event_loop()).result(15)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def version(self) -> str:
        return self.headers.get("x-model-version", "")


class Caller:
    """One caller with one connection that is kept open."""

    def __init__(self, port: int, timeout_s: float = 10) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def send(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        """Send a request; underscores in the names of headers become dashes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self._connection.request(method, path, data, named)
            reply = self._connection.getresponse()
            content = reply.read()
        except Exception:
            self._connection.close()
            raise
        return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, content)

    def infer(self, model: str, body: object, **headers: str) -> Reply:
        return self.send("POST", f"/v2/models/{model}/infer", body, **headers)

    def close(self) -> None:
        self._connection.close()


def read_statistics(admin: str) -> GatewaySample:
    """What a gateway counted so far."""

    async def call() -> GatewaySample:
        async with httpx.AsyncClient(timeout=5) as client:
            return await scrape(client, f"http://{admin}", gateway=NODE_ID)

    return asyncio.run(call())


@dataclass
class Upstream:
    """An HTTP server that is always ready, and answers the rest with its name, or as it is told."""

    name: str
    port: int = 0
    status: int = 200
    content: bytes = b""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    held: threading.Event | None = None
    """Where it is set, nobody is answered before it happens."""

    def __post_init__(self) -> None:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer(b"")

            def do_POST(self) -> None:
                self.answer(self.rfile.read(int(self.headers.get("content-length", 0))))

            def answer(self, body: bytes) -> None:
                asked = not self.path.endswith("/ready")
                if asked:
                    upstream.paths.append(self.path)
                    upstream.headers.append({k.lower(): v for k, v in self.headers.items()})
                named = json.dumps({"name": upstream.name, "got": len(body)}).encode()
                content = upstream.content or named
                if asked and upstream.held is not None:
                    upstream.held.wait(10)
                self.send_response(upstream.status if asked else 200)
                self.send_header("content-length", str(len(content)))
                # A server may say what it likes; the gateway has the last word.
                self.send_header("x-model-version", "999")
                self.end_headers()
                # Who waited too long is gone.
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
