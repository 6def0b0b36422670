"""The root-cause board on real faults: what it says moved first, and what it makes of it.

`python -m benchmarks.causes` after `make demo`: some five minutes, calls 127.0.0.1 only. Each fault
comes a minute into steady traffic and lasts half a minute; then the board is asked. Said is what
was done, what the board found first, and its findings.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from benchmarks.demo_stack import ENVIRONMENT, GATEWAY, MODEL, person, report, set_split
from deployments.cli.client import Client
from deployments.demo.checkpoints import FAILING_FEATURES
from deployments.demo.traffic import Caller

QUIET_S, FAULT_S = 75.0, 35.0
RATE = 40.0


def main() -> None:
    sam = person("sam")
    set_split(sam, {"1": 100})
    for name, fault in (
        ("a version that fails gets 30 %", _failing_version),
        ("the machine is busy", _busy_machine),
        ("eight times the requests", _more_requests),
    ):
        _run(name, fault, sam)


def _run(name: str, fault: Callable[[Client], object], sam: Client) -> None:
    features = FAILING_FEATURES if fault is _failing_version else ()
    with Caller(GATEWAY, MODEL, rate=RATE, limit_seconds=240, features=features):
        time.sleep(QUIET_S)
        at = datetime.now(UTC)
        fault(sam)
    found = sam.get(f"/endpoints/{ENVIRONMENT}/{MODEL}/causes/?window=15m")
    first = found["movers"][0] if found["movers"] else None
    report(
        "causes",
        fault=name,
        began=at.isoformat(timespec="seconds"),
        first=first and first["text"],
        first_after_s=first
        and round((datetime.fromisoformat(first["at"]) - at).total_seconds(), 1),
        before=found["before"] and found["before"]["text"],
        findings=[one["code"] for one in found["findings"]],
        summary=found["summary"],
    )


def _failing_version(sam: Client) -> None:
    set_split(sam, {"1": 70, "2": 30})
    time.sleep(FAULT_S)
    set_split(sam, {"1": 100})


def _busy_machine(_sam: Client) -> None:
    with _burning(2 * (os.cpu_count() or 1)):
        time.sleep(FAULT_S)


def _more_requests(_sam: Client) -> None:
    with Caller(GATEWAY, MODEL, rate=7 * RATE, threads=8, limit_seconds=60):
        time.sleep(FAULT_S)


@contextmanager
def _burning(count: int) -> Iterator[None]:
    """So many processes that only count, and end by themselves."""
    burning = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(count)]
    for one in burning:
        one.start()
    try:
        yield
    finally:
        for one in burning:
            one.terminate()
            one.join(5)


def _burn() -> None:
    end = time.monotonic() + 2 * FAULT_S
    while time.monotonic() < end:
        json.dumps(list(range(1000)))


if __name__ == "__main__":
    main()
