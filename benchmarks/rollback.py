"""Rollback under load, ten times: failed requests, when every gateway had acknowledged, and when
the bad version answered last.

.venv/bin/python -m benchmarks.rollback
"""

from __future__ import annotations

import time

from benchmarks.demo_stack import ENVIRONMENT, GATEWAY, MODEL, person, quantiles, report, set_split
from deployments.demo.traffic import Caller

RATE, ROUNDS = 250, 10


def main() -> None:
    client = person("sam")
    answered, effect, last, failed, calls, rates = [], [], [], 0, 0, []
    for _ in range(ROUNDS):
        set_split(client, {"1": 50, "2": 50})
        with Caller(GATEWAY, MODEL, rate=RATE, limit_seconds=30) as caller:
            time.sleep(1.5)
            started = caller.mark()
            split = client.post(
                f"/endpoints/{ENVIRONMENT}/{MODEL}/rollback/?wait=1",
                {"reason": "Benchmark.", "to": 1},
            )
            answered.append((caller.mark() - started) * 1000)
            effect.append(max(one["took_ms"] for one in split["acknowledgements"]))
            time.sleep(1.5)
            seconds = caller.mark() - caller.tally.answers[0].at
        after = [a.at for a in caller.tally.answers if a.version == "2" and a.at > started]
        last.append((max(after) - started) * 1000 if after else 0.0)
        failed += caller.tally.failed
        calls += len(caller.tally.answers)
        rates.append(len(caller.tally.answers) / seconds)
    report(
        "rollback",
        rounds=ROUNDS,
        calls=calls,
        calls_per_second=round(min(rates)),
        failed=failed,
        answered_ms=quantiles(answered),
        written_to_acknowledged_ms=quantiles(effect),
        last_bad_answer_ms=quantiles(last),
    )


if __name__ == "__main__":
    main()
