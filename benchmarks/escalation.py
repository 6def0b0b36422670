"""kill -9 of Triton under load: when the fallback answers by itself, and when versions do again.

    .venv/bin/python -m benchmarks.escalation

The endpoint's rollback policy is set to short times and put back afterwards.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from functools import partial
from typing import Any

from benchmarks.demo_stack import ENVIRONMENT, GATEWAY, MODEL, person, report, set_split
from benchmarks.faults import pid_of, wait
from deployments.cli.client import Client
from deployments.demo.traffic import Caller

POLICY = f"/endpoints/{ENVIRONMENT}/{MODEL}/rollback-policy/"
RATE = 100
QUICK = {"window_s": 5, "no_node_s": 2, "hold_s": 10, "probe_s": 5}


def put(client: Client, automatic: bool, document: dict[str, Any]) -> None:
    """Set the policy, whatever it was."""
    body = {"automatic": automatic, "document": document, "reason": "Benchmark."}
    client.put(POLICY, body, None, **{"If-Match": "*"})


def stands_in(client: Client, phase: str) -> bool:
    """Whether the endpoint has come to this phase."""
    return bool(client.get(POLICY)["phase"] == phase)


def main() -> None:
    client = person("sam")
    before = client.get(POLICY)
    for incident in client.get("/incidents/", state="unresolved")["results"]:
        client.post(f"/incidents/{incident['id']}/resolve/", {"summary": "Before a benchmark."})
    set_split(client, {"1": 100})
    put(client, True, {**before["document"], **QUICK})
    try:
        with Caller(GATEWAY, MODEL, rate=RATE, limit_seconds=120) as caller:
            time.sleep(2)
            killed = caller.mark()
            os.kill(pid_of("triton"), signal.SIGKILL)
            times = {}
            for phase in ("held", "probing", "settling", "watching"):
                wait(phase, partial(stands_in, client, phase))
                times[phase] = caller.mark() - killed
    finally:
        put(client, before["automatic"], before["document"])
    after = [answer for answer in caller.tally.answers if answer.at > killed]
    failed = [answer.at - killed for answer in after if answer.status != 200]
    report(
        "escalation",
        calls_per_second=RATE,
        failed=len(failed),
        first_failure_to_last_s=round(max(failed, default=0.0), 2),
        fallback_answers_after_s=round(times["held"], 1),
        half_open_after_s=round(times["probing"], 1),
        versions_alone_after_s=round(times["settling"], 1),
        over_after_s=round(times["watching"], 1),
        answers=dict(Counter(answer.version or "none" for answer in after)),
        policy=QUICK,
    )


if __name__ == "__main__":
    main()
