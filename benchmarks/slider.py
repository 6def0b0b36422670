"""Slider Apply → effect, 50 times: from the PUT to the first call that the new version answers.

.venv/bin/python -m benchmarks.slider
"""

from __future__ import annotations

import http.client
import time

from benchmarks.demo_stack import CONFIG, MODEL, SPLIT, person, quantiles, report, set_split
from deployments.demo.traffic import call

MOVES = 50
PATH = f"/v2/models/{MODEL}/infer"


def main() -> None:
    client = person("sam")
    connection = http.client.HTTPConnection("127.0.0.1", CONFIG.ports.gateway_production, timeout=5)
    answered, effect = [], []
    for number in range(MOVES):
        version = "2" if number % 2 == 0 else "1"
        revision = client.get(SPLIT)["revision"]
        started = time.monotonic()
        client.put(
            SPLIT,
            {"weights": {version: 100}, "reason": "Benchmark."},
            {"wait": "1"},
            **{"If-Match": f'"{revision}"'},
        )
        answered.append((time.monotonic() - started) * 1000)
        while call(connection, PATH, [0.1] * 10, user="u1").version != version:
            if time.monotonic() - started > 5:
                raise SystemExit(f"Version {version} never answered.")
        effect.append((time.monotonic() - started) * 1000)
        time.sleep(0.05)
    set_split(client, {"1": 100})
    report("slider", moves=MOVES, acknowledged_ms=quantiles(answered), effect_ms=quantiles(effect))


if __name__ == "__main__":
    main()
