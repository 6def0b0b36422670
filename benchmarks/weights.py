"""Two hundred changes of weights under load, then how many sticky callers each step really moves.

.venv/bin/python -m benchmarks.weights
"""

from __future__ import annotations

import http.client
import random
import time

from benchmarks.demo_stack import CONFIG, GATEWAY, MODEL, person, quantiles, report, set_split
from deployments.cli.client import Client
from deployments.demo.traffic import Caller, call

RATE, CHANGES, EVERY_S = 560, 200, 0.25
PEOPLE, STEPS = 4000, (5, 10, 50, 100)


def main() -> None:
    client = person("sam")
    set_split(client, {"1": 100})
    _changes_under_load(client)
    _sticky_callers(client)
    set_split(client, {"1": 100})


def _changes_under_load(client: Client) -> None:
    source, took = random.Random(7), []
    # Version 2 of the demo fails on some inputs; this is about moving traffic.
    features = [0.1] * 10
    with Caller(
        GATEWAY, MODEL, rate=RATE, threads=6, limit_seconds=150, features=features
    ) as caller:
        time.sleep(1)
        for _ in range(CHANGES):
            share, started = source.randrange(1, 100), time.monotonic()
            set_split(client, {"1": 100 - share, "2": share})
            took.append((time.monotonic() - started) * 1000)
            time.sleep(max(0.0, EVERY_S - (time.monotonic() - started)))
        seconds = caller.mark() - caller.tally.answers[0].at
    tally = caller.tally
    report(
        "weights",
        changes=CHANGES,
        requests=len(tally.answers),
        failed=tally.failed,
        # Only answers of the two versions count: a fallback would hide what is measured.
        answered_by=dict(sorted(tally.by_version.items())),
        requests_per_second=round(len(tally.answers) / seconds),
        acknowledged_ms=quantiles(took),
        p50_ms=round(tally.percentile_ms(0.5), 1),
        p99_ms=round(tally.percentile_ms(0.99), 1),
    )


def _sticky_callers(client: Client) -> None:
    set_split(client, {"1": 100})
    before = _who_answers()
    for percent in STEPS:
        answer = set_split(client, {"1": 100 - percent, "2": percent})
        after = _who_answers()
        report(
            "sticky_callers",
            weight=percent,
            people=PEOPLE,
            moved=sum(before[n] != after[n] for n in range(PEOPLE)),
            moved_back=sum(before[n] == "2" and after[n] == "1" for n in range(PEOPLE)),
            told_percent=answer["moved"],
        )
        before = after


def _who_answers() -> list[str]:
    connection = http.client.HTTPConnection("127.0.0.1", CONFIG.ports.gateway_production, timeout=5)
    path = f"/v2/models/{MODEL}/infer"
    people = [call(connection, path, [0.1] * 10, user=f"u{n}").version for n in range(PEOPLE)]
    connection.close()
    return people


if __name__ == "__main__":
    main()
