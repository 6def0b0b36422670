"""Requests that a load generator counted against those that a promise rests on, through kill -9.

    .venv/bin/python -m benchmarks.reconcile [REQUESTS/S]

Every part of the running stack is killed while callers call: with good requests, with ones that the
gateway refuses, and some that leave before their answer. For each part the counts by exact status
are compared; where an Envoy died, the difference and the gap that is stated for it.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

from benchmarks.demo_stack import CONFIG, ENVIRONMENT, GATEWAY, MODEL, report  # noqa: E402
from console.stack.control import status  # noqa: E402
from deployments.models import CountGap, Endpoint, MinuteRollup  # noqa: E402
from deployments.rules.statistics.histograms import Histogram, delta, merge_all, quantile  # noqa: E402
from deployments.selectors.statistics.rollups import latency_of  # noqa: E402

LIMIT_S = 90.0
SETTLED_S = 14.0
THREADS = 4
PATH = f"/v2/models/{MODEL}/infer"
PARTS = ("collect", "gateway", "postgres", "valkey", "web", "traffic", "triton", "envoy")


@dataclass
class Tally:
    """What callers got: counts by the name that the roll-ups give it, and seconds of good ones."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    unknown: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, seconds: float) -> None:
        with self.lock:
            self.statuses[name] += 1
            if name == "200":
                self.seconds.append(seconds)

    def not_known(self) -> None:
        """The connection broke before an answer: the gateway may have had the request, or not."""
        with self.lock:
            self.unknown += 1


class Load:
    """`with Load(rate) as load:` – callers until the end of the block."""

    def __init__(self, rate: float) -> None:
        self.tally = Tally()
        self._stop = threading.Event()
        self._interval = THREADS / rate
        self._threads = [
            threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(THREADS)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        source = random.Random(number)
        line = _line(10)
        due = time.monotonic()
        for turn in itertools.count():
            if self._stop.is_set():
                break
            if turn % 50 == 49:
                self._leave()
            elif not self._send(line, *_request(turn, source)):
                line.close()
                line = _line(10)
            due = max(due + self._interval, time.monotonic() - 1)
            self._stop.wait(max(0.0, due - time.monotonic()))
        line.close()

    def _send(self, line: http.client.HTTPConnection, method: str, body: bytes) -> bool:
        started = time.monotonic()
        try:
            line.request(method, PATH, body, {"content-type": "application/json"})
            answer = line.getresponse()
            answer.read()
        except ConnectionRefusedError:
            # Nobody had it: it was never sent.
            return False
        except (OSError, http.client.HTTPException):
            self.tally.not_known()
            return False
        refused = answer.status in (405, 422)
        name = f"refused_{answer.status}" if refused else str(answer.status)
        self.tally.add(name, time.monotonic() - started)
        return True

    def _leave(self) -> None:
        """Send the head of a request and half of its body, and go away."""
        line = _line(10)
        with suppress(OSError, http.client.HTTPException):
            line.putrequest("POST", PATH)
            line.putheader("content-length", "1000")
            line.endheaders(b'{"inputs"')
            # The gateway has read it by then; it only counts what it got.
            time.sleep(0.05)
            self.tally.add("caller_left", 0.0)
        line.close()


def _line(timeout_s: float) -> http.client.HTTPConnection:
    host, _, port = GATEWAY.removeprefix("http://").partition(":")
    return http.client.HTTPConnection(host, int(port), timeout=timeout_s)


def _request(turn: int, source: random.Random) -> tuple[str, bytes]:
    if turn % 20 == 5:
        return "POST", b'{"inputs": []}'
    if turn % 20 == 13:
        return "GET", b""
    features = [round(source.uniform(-10, 10), 3) for _ in range(10)]
    tensor = {"name": "features", "shape": [1, 10], "datatype": "FP32", "data": features}
    return "POST", json.dumps({"inputs": [tensor]}).encode()


def counted(endpoint: Endpoint, since: datetime) -> tuple[Counter[str], Histogram | None]:
    """What is booked since then, by status, and how long it took."""
    statuses: Counter[str] = Counter()
    latencies = []
    for row in MinuteRollup.objects.filter(endpoint=endpoint, minute__gte=since):
        for name, count in row.statuses.items():
            if name.isdecimal() or name.startswith("refused_") or name == "caller_left":
                statuses[name] += count
        if (latency := latency_of(row)) is not None:
            latencies.append(latency)
    return statuses, merge_all(latencies)


def settled(endpoint: Endpoint, since: datetime) -> tuple[Counter[str], Histogram | None]:
    """The same once nothing was added for a while."""
    deadline, found, at = time.monotonic() + LIMIT_S, None, time.monotonic()
    while time.monotonic() < deadline:
        try:
            now = counted(endpoint, since)
        except Exception:  # noqa: BLE001 - the database is being restarted
            django.db.connections.close_all()
            time.sleep(1)
            continue
        if found is None or now[0] != found[0]:
            found, at = now, time.monotonic()
        elif time.monotonic() - at > SETTLED_S:
            return found
        time.sleep(1)
    raise SystemExit("The counts do not come to rest.")


def pid_of(service: str) -> int | None:
    for one in status(CONFIG)["services"]:
        if one["name"] == service and one["pid"] and one["state"] == "ready":
            return int(one["pid"])
    return None


def wait(what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not happen within {LIMIT_S:.0f} s.")
        time.sleep(0.2)


def through(endpoint: Endpoint, part: str, rate: float) -> bool:
    """Kill one part under load and compare; whether all is as it should be."""
    since = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=1)
    before, latency_before = settled(endpoint, since)
    began = datetime.now(UTC)
    with Load(rate) as load:
        time.sleep(4)
        if part != "nothing":
            pid = pid_of(part)
            if pid is None:
                raise SystemExit(f"{part} does not run.")
            os.kill(pid, signal.SIGKILL)
            wait(f"{part} gone", lambda: not Path(f"/proc/{pid}").exists())
            wait(f"{part} back", lambda: pid_of(part) not in (None, pid))
        time.sleep(6)
    after, latency_after = settled(endpoint, since)
    got = Counter({name: n - before[name] for name, n in after.items() if n - before[name]})
    tally = load.tally
    gaps = CountGap.objects.filter(started_at__gte=began - timedelta(seconds=5), lost=True)
    figures: dict[str, Any] = {
        "killed": part,
        "generator": sum(tally.statuses.values()),
        "booked": sum(got.values()),
        "by_status": dict(sorted(tally.statuses.items())),
        "differences": {
            name: got[name] - tally.statuses[name]
            for name in sorted({*got, *tally.statuses})
            if got[name] != tally.statuses[name]
        },
        "not_known": tally.unknown,
        "lost_spans": [
            [gap.source, round((gap.ended_at - gap.started_at).total_seconds(), 1)]
            for gap in gaps
            if gap.ended_at
        ],
    }
    if part == "nothing" and latency_after is not None:
        figures |= _latencies(tally, latency_before, latency_after)
    report("reconcile", **figures)
    missing = sum(tally.statuses.values()) - sum(got.values())
    if figures["lost_spans"]:
        return part == "envoy"
    # A request whose connection broke may have been counted: at most these differ.
    return 0 <= -missing <= tally.unknown


def _latencies(tally: Tally, before: Histogram | None, after: Histogram) -> dict[str, float | None]:
    here = sorted(tally.seconds)
    grown = delta(after, before) if before is not None else after
    return {
        "generator_p50_ms": round(here[len(here) // 2] * 1e3, 2),
        "generator_p99_ms": round(here[int(len(here) * 0.99)] * 1e3, 2),
        "covenant_p50_ms": quantile(grown, 0.5),
        "covenant_p99_ms": quantile(grown, 0.99),
    }


def main() -> None:
    rate = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    parts = sys.argv[2:] or ("nothing", *PARTS)
    endpoint = Endpoint.objects.get(model__name=MODEL, environment__name=ENVIRONMENT)
    held = [through(endpoint, part, rate) for part in parts]
    if not all(held):
        sys.exit("Counts differ where they must not.")


if __name__ == "__main__":
    main()
