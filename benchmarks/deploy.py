"""What a deploy costs the version that serves: its p99 at a steady load, before and meanwhile.

Unloads version 2 and deploys it again, five times.

    .venv/bin/python -m benchmarks.deploy
"""

from __future__ import annotations

import time

from benchmarks.demo_stack import ENVIRONMENT, GATEWAY, MODEL, person, report, set_split
from deployments.demo.traffic import Caller, Tally

RATE, ROUNDS = 200, 5


def main() -> None:
    client = person("sam")
    set_split(client, {"1": 100})
    quiet, busy = Tally(), Tally()
    for _ in range(ROUNDS):
        running = client.get("/deployments/", model=MODEL, environment=ENVIRONMENT, version=2)
        for deployment in running["results"]:
            gone = client.request(
                "DELETE", f"/deployments/{deployment['id']}/", json={"reason": "Benchmark."}
            ).json()
            for placement in gone["placements"]:
                client.wait_for_job(placement["job"], timeout=60)
        releases = client.get(f"/models/{MODEL}/releases/", version=2, environment=ENVIRONMENT)
        release = next(r for r in releases["results"] if r["state"] == "approved")
        with Caller(GATEWAY, MODEL, rate=RATE, limit_seconds=120) as caller:
            time.sleep(4)
            moment = caller.mark()
            made = client.post("/deployments/", {"release": release["id"]})
            for placement in made["placements"]:
                client.wait_for_job(placement["job"], timeout=90)
            end = caller.mark()
        answers = caller.tally.answers
        quiet.answers += [a for a in answers if a.at < moment]
        busy.answers += [a for a in answers if moment <= a.at <= end]
    before, during = quiet.percentile_ms(0.99), busy.percentile_ms(0.99)
    report(
        "deploy",
        rounds=ROUNDS,
        calls=len(quiet.answers) + len(busy.answers),
        failed=quiet.failed + busy.failed,
        p99_before_ms=round(before, 2),
        p99_during_ms=round(during, 2),
        added_percent=round((during / before - 1) * 100, 1),
    )


if __name__ == "__main__":
    main()
