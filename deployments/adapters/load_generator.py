"""Making load with Locust, in a child process that can be killed and never outlives this one."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, Any, cast

import httpx

from console.env import ROOT
from console.errors import Unavailable
from models_registry.rules.load_measurements import Answer

PROGRAM = "deployments.adapters.locust_program"
TICK_S = 0.1
# Starting Python and Locust takes about a second, and several on a machine that is busy.
START_S = 30.0
SETTLE_S = 5.0
MOST_WORDS = 400
MOST_STDERR = 4000
# As many as can wait for an answer at once: a second's worth of the highest rate.
FEWEST_CALLERS, MOST_CALLERS = 10, 500


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is sent where: `rates` requests in each second, bodies chosen by weight and `seed`.

    `version` is what X-Model-Version has to say. Request ids are `request_id` and a number.
    """

    host: str
    path: str
    headers: Mapping[str, str]
    bodies: Sequence[str]
    weights: Sequence[float]
    rates: Sequence[int]
    version: str
    request_id: str
    timeout_s: float
    seed: int = 0

    @property
    def callers(self) -> int:
        return max(FEWEST_CALLERS, min(MOST_CALLERS, max(self.rates)))


@dataclass(frozen=True, slots=True)
class LoadRun:
    """How a whole run went: the tool, its own count of requests, callers, and CPU seconds."""

    tool: str
    counted: int
    callers: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Probe:
    """One answer: `status` 0 when none came; `version` is X-Model-Version; `words` its start."""

    status: int
    version: str
    words: str


def probe(plan: LoadPlan) -> Probe:
    """Send the first body once, to see that there is something to measure."""
    headers = {**plan.headers, "X-Request-ID": f"{plan.request_id}-probe"}
    try:
        answer = httpx.post(
            plan.host + plan.path,
            content=plan.bodies[0].encode(),
            headers=headers,
            timeout=plan.timeout_s,
        )
    except httpx.HTTPError as fault:
        return Probe(0, "", repr(fault)[:MOST_WORDS])
    version = answer.headers.get("x-model-version", "")
    return Probe(answer.status_code, version, answer.text[:MOST_WORDS])


def generate(
    plan: LoadPlan,
    *,
    on_answers: Callable[[Sequence[Answer]], None],
    on_fault: Callable[[Mapping[str, Any]], None],
    on_time: Callable[[float], None],
    check: Callable[[], None],
) -> LoadRun:
    """Send the plan's requests, handing on answers as they come; blocks until all is over.

    `on_time` is told how many seconds of the plan have passed. `check` is called ten times a
    second and ends the run at once by raising. Call it in a thread that lives as long as the run:
    the kernel kills the child when that thread ends.

    Raises Unavailable (`load_generator_failed`, not retryable) when the child ends by itself or
    does not end in time.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, str(os.getpid())],
        cwd=ROOT,
        # No secret of ours is needed to send requests.
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    stderr = bytearray()
    threads = [
        threading.Thread(target=_read_lines, args=(child.stdout, lines), daemon=True),
        threading.Thread(target=_read_tail, args=(child.stderr, stderr), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        with suppress(BrokenPipeError):  # it has ended already, and its words say why
            child_input = cast(IO[bytes], child.stdin)
            child_input.write(json.dumps({**asdict(plan), "callers": plan.callers}).encode())
            child_input.close()
        run = _listen(plan, lines, on_answers, on_fault, on_time, check)
    finally:
        _kill(child)
        for thread in threads:
            thread.join(timeout=2)
    if run is None:
        words = stderr.decode("utf-8", "replace").strip().splitlines()
        raise Unavailable(
            "The load generator ended before the load test was over"
            + (f": {words[-1][:MOST_WORDS]}" if words else "."),
            code="load_generator_failed",
            hint="Look at the worker's memory and log, then start the load test again.",
            retryable=False,
        )
    return run


def _listen(
    plan: LoadPlan,
    lines: queue.SimpleQueue[bytes | None],
    on_answers: Callable[[Sequence[Answer]], None],
    on_fault: Callable[[Mapping[str, Any]], None],
    on_time: Callable[[float], None],
    check: Callable[[], None],
) -> LoadRun | None:
    """Hear the child out; None when it ended (or had to be ended) too early, or sent nothing."""
    deadline = time.monotonic() + START_S
    tool = ""
    while time.monotonic() < deadline:
        check()
        try:
            line = lines.get(timeout=TICK_S)
        except queue.Empty:
            continue
        if line is None:
            return None
        event = json.loads(line)
        match event["event"]:
            case "ready":
                tool = event["tool"]
                deadline = time.monotonic() + len(plan.rates) + plan.timeout_s + SETTLE_S
            case "answers":
                on_answers([tuple(one) for one in event["answers"]])
                on_time(event["at"])
            case "fault":
                on_fault(event)
            case "end" if event["counted"]:
                return LoadRun(tool, event["counted"], plan.callers, round(event["cpu_s"], 3))
    return None


def _read_lines(pipe: Any, lines: queue.SimpleQueue[bytes | None]) -> None:
    """Take lines off the pipe at once: a full pipe would hold up the sending."""
    with pipe:
        for line in pipe:
            lines.put(line)
    lines.put(None)


def _read_tail(pipe: Any, tail: bytearray) -> None:
    with pipe:
        for line in pipe:
            tail += line
            del tail[:-MOST_STDERR]


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
