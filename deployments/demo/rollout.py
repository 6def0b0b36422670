"""The demo's rollout: a version that fails is taken back by itself, and no caller notices."""

from __future__ import annotations

import time
from typing import Any

from deployments.cli.client import Client, CliError
from deployments.demo.checkpoints import FAILING_FEATURES
from deployments.demo.traffic import Caller

PLAN: dict[str, Any] = {
    "steps": [{"set_weight": 20}, {"pause": {"duration": "2m"}}, {"set_weight": 100}]
}
RATE = 100
LONGEST_S = 60.0


def taken_back(client: Client, *, gateway: str, endpoint: str, version: int) -> str:
    """Start a rollout while callers send what makes the version fail; say how it ended."""
    model = endpoint.partition("/")[2]
    path = f"/endpoints/{endpoint}/rollouts/"
    with Caller(gateway, model, rate=RATE, features=FAILING_FEATURES) as caller:
        started = time.monotonic()
        made = client.post(
            path, {"version": version, "plan": PLAN, "reason": "Once more, step by step."}
        )
        while made["state"] in ("running", "paused"):
            if time.monotonic() - started > LONGEST_S:
                raise CliError(f"The rollout of v{version} did not end: {made['message']}")
            time.sleep(0.2)
            made = client.get(f"{path}{made['id']}/")
        took = time.monotonic() - started
        time.sleep(0.5)
    if made["state"] != "rolled_back":
        raise CliError(f"The rollout of v{version} is {made['state']}: {made['message']}")
    return (
        f"{made['state']} after {took:.1f} s by itself; {len(caller.tally.answers)} calls "
        f"meanwhile, {caller.tally.failed} failed: v1 answered what v{version} could not"
    )
