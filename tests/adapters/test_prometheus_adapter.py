"""Instant queries against a real Prometheus, and what a peer that is none may answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from console.errors import Unavailable
from deployments.adapters import prometheus
from tests import stack
from tests.adapters.prometheus_running import running_prometheus
from tests.deployments.waiting import eventually

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), []) as found:
        yield found


def test_one_value_is_given_and_nothing_is_nothing(address: str) -> None:
    assert prometheus.query(address, "40 + 2", allowed=LOOPBACK) == 42
    assert prometheus.query(address, "vector(1.5)", allowed=LOOPBACK) == 1.5
    assert prometheus.query(address, 'up{job="nobody"}', allowed=LOOPBACK) is None
    assert prometheus.query(address, "0 / 0", allowed=LOOPBACK) is None


def test_faults_of_a_query_are_said_in_prometheus_own_words(address: str) -> None:
    with pytest.raises(Unavailable, match="parse error") as refused:
        prometheus.query(address, "sum(", allowed=LOOPBACK)
    assert refused.value.code == "query_refused"
    for text in ("1 / 0", 'label_replace(vector(1), "a", "b", "", "") or vector(2)', '"text"'):
        with pytest.raises(Unavailable) as unusable:
            prometheus.query(address, text, allowed=LOOPBACK)
        assert unusable.value.code == "unusable_answer"


def test_addresses_inside_are_asked_only_where_a_setting_allows(address: str) -> None:
    with pytest.raises(Unavailable) as refused:
        prometheus.query(address, "1")
    assert refused.value.code == "address_not_allowed"
    with pytest.raises(Unavailable) as gone:
        prometheus.query(f"http://127.0.0.1:{stack.free_port()}", "1", allowed=LOOPBACK)
    assert gone.value.code == "unreachable"


def test_it_scrapes_what_it_is_told_and_the_value_comes_back(tmp_path: Path) -> None:
    page = serving(b"covenant_test_value 7\n", "text/plain; version=0.0.4")
    with page as target, running_prometheus(tmp_path, [target.removeprefix("http://")]) as own:
        eventually(lambda: prometheus.query(own, "covenant_test_value", allowed=LOOPBACK) == 7, 15)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b'{"status": "success"}',
        b'{"status": "success", "data": {"resultType": "vector", "result": [{}]}}',
        b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "x"]}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": []}}',
        json.dumps({"status": "success", "data": "x" * (1024 * 1024)}).encode(),
    ],
)
def test_no_answer_of_a_stranger_breaks_it(body: bytes) -> None:
    with serving(body) as other, pytest.raises(Unavailable) as unusable:
        prometheus.query(other, "1", allowed=LOOPBACK)
    assert unusable.value.code == "unusable_answer"


def test_who_never_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "TIMEOUT_S", 0.3)
    with serving(b"", delay=3.0) as silent:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            prometheus.query(silent, "1", allowed=LOOPBACK)
        assert time.monotonic() - began < 2


class serving:
    """`with serving(body) as address:` answers everything with these bytes."""

    def __init__(self, body: bytes, kind: str = "application/json", delay: float = 0.0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                time.sleep(delay)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                # Who waited for too long, or read enough, has gone.
                with suppress(OSError):
                    self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
