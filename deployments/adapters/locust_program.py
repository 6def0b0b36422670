"""The program that makes the load: Locust's callers, sent off by a timetable (a child process).

Reads a plan from its standard input and writes lines of JSON: what it is asked and what it says is
described in `load_generator`. It judges nothing and adds nothing up.

Locust's own wait times let a caller that is kept waiting send later, and so less: the worst moments
would be measured the least (coordinated omission). Here each request has its moment in a timetable
of the whole test; a caller that is free takes the next one, and a request that had to wait for a
free caller is still measured from its moment on.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the one that started it ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    # Before the imports below, which take a second in which the parent may be killed.
    end_with_parent(int(sys.argv[1]))

# Locust makes the standard library cooperative when it is imported, so it comes first.
import locust  # noqa: E402
from locust import FastHttpUser, constant, task  # noqa: E402
from locust.env import Environment  # noqa: E402
from locust.exception import StopUser  # noqa: E402

import random  # noqa: E402 # isort: skip
import time  # noqa: E402 # isort: skip
from typing import Any  # noqa: E402 # isort: skip

import gevent  # noqa: E402 # isort: skip
from gevent.event import Event  # noqa: E402 # isort: skip

TELL_EVERY_S = 0.25
LEAD_S = 0.1
MOST_FAULTS_TOLD = 20
MOST_WORDS = 400
MICROSECONDS = 1_000_000


class Timetable:
    """When each request is due, and what became of those that were sent."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        # In seconds from the start: each second's requests are spread evenly over it.
        self.due = [
            second + index / rate
            for second, rate in enumerate(plan["rates"])
            for index in range(rate)
        ]
        # The same requests in the same order each time.
        source = random.Random(plan["seed"])  # noqa: S311 - repeatable traffic, not a secret
        self.choices = source.choices(
            range(len(plan["bodies"])), weights=plan["weights"], k=len(self.due)
        )
        self.bodies = [body.encode() for body in plan["bodies"]]
        self.started = Event()
        self.zero = 0.0
        self.taken = 0
        self.under_way = 0
        self.closed = False
        self.answers: list[tuple[int, int, int, str, int]] = []
        self.faults_told = 0
        self.broken = ""

    def start(self) -> None:
        """From now on it is the timetable's time."""
        self.zero = time.perf_counter() + LEAD_S
        self.started.set()

    def now(self) -> float:
        return time.perf_counter() - self.zero

    def take(self) -> int | None:
        """The next request that nobody has taken; None when there is none any more."""
        if self.closed or self.taken == len(self.due):
            return None
        self.taken += 1
        return self.taken - 1

    def note_fault(self, exception: BaseException, **_: object) -> None:
        """A caller's own error is the generator's fault, and no measurement of anybody."""
        self.broken = repr(exception)

    @property
    def over(self) -> bool:
        """Whether all was sent and answered."""
        return (self.closed or self.taken == len(self.due)) and self.under_way == 0


class Caller(FastHttpUser):
    """Somebody who sends the next request that is due, whenever free."""

    wait_time = constant(0)
    timetable: Timetable

    @task
    def call(self) -> None:
        table = self.timetable
        table.started.wait()
        index = table.take()
        if index is None:
            raise StopUser
        table.under_way += 1
        try:
            gevent.sleep(max(0.0, table.due[index] - table.now()))
            self.send(index)
        finally:
            table.under_way -= 1

    def send(self, index: int) -> None:
        table, plan = self.timetable, self.timetable.plan
        body = table.choices[index]
        sent = table.now()
        response = self.client.request(
            "POST",
            plan["path"],
            name="infer",
            data=table.bodies[body],
            headers={**plan["headers"], "X-Request-ID": f"{plan['request_id']}-{index}"},
            allow_redirects=False,
        )
        ended = table.now()
        outcome = outcome_of(response, plan["version"])
        moments = (round(moment * MICROSECONDS) for moment in (table.due[index], sent, ended))
        table.answers.append((*moments, outcome, body))  # type: ignore[arg-type]
        if outcome != "ok" and table.faults_told < MOST_FAULTS_TOLD:
            table.faults_told += 1
            tell(
                {
                    "event": "fault",
                    "second": int(table.due[index]),
                    "outcome": outcome,
                    "body": words_of(response),
                }
            )


def outcome_of(response: Any, version: str) -> str:
    """`ok`, `timeout`, `connection`, `http_<status>`, `not_the_version` or `no_outputs`."""
    status = response.status_code
    if not status:
        return "timeout" if isinstance(response.error, TimeoutError) else "connection"
    if not 200 <= status < 300:
        return f"http_{status}"
    if response.headers.get("x-model-version") != version:
        return "not_the_version"
    return "ok" if b'"outputs"' in (response.content or b"") else "no_outputs"


def words_of(response: Any) -> str:
    """The beginning of what was answered, or of what went wrong on the way."""
    if not response.status_code:
        return repr(response.error)[:MOST_WORDS]
    return bytes(response.content or b"")[:MOST_WORDS].decode("utf-8", "replace")


def tell(event: dict[str, Any]) -> None:
    """One line for the parent."""
    sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def tell_answers(table: Timetable) -> None:
    """Hand on what was answered since the last time."""
    answers, table.answers = table.answers, []
    tell(
        {"event": "answers", "at": round(table.now(), 3), "taken": table.taken, "answers": answers}
    )


def run(plan: dict[str, Any]) -> None:
    """Send all requests of the plan, and wait for their answers as long as a request may take."""
    table = Timetable(plan)
    Caller.timetable = table
    Caller.host = plan["host"]
    Caller.network_timeout = Caller.connection_timeout = plan["timeout_s"]
    environment = Environment(user_classes=[Caller], host=plan["host"])
    runner = environment.create_local_runner()
    environment.events.user_error.add_listener(table.note_fault)  # type: ignore[no-untyped-call]
    runner.start(plan["callers"], spawn_rate=plan["callers"])
    gevent.joinall([runner.spawning_greenlet])
    if runner.user_count < plan["callers"]:
        sys.exit(f"only {runner.user_count} of {plan['callers']} callers were started")
    tell({"event": "ready", "tool": f"locust {locust.__version__}"})
    table.start()
    last = len(plan["rates"])
    while not table.over:
        gevent.sleep(TELL_EVERY_S)
        tell_answers(table)
        if table.now() > last and not table.closed:
            # What could not be sent in its time is not sent after it; what is under way may end.
            table.closed = True
        if table.broken:
            sys.exit(f"a caller failed: {table.broken}")
        if table.now() > last + plan["timeout_s"] + 1:
            break
    runner.quit()
    tell_answers(table)
    tell(
        {
            "event": "end",
            "counted": environment.stats.total.num_requests,
            "cpu_s": time.process_time(),
        }
    )


if __name__ == "__main__":
    run(json.load(sys.stdin))
