"""What each benchmark starts from: the running embedded stack after `make demo`."""

from __future__ import annotations

import json

from console import env
from deployments.cli.client import Client, Credentials
from deployments.demo.people import passwords

MODEL, ENVIRONMENT = "fraud_detector", "production"
CONFIG = env.load()
GATEWAY = f"http://127.0.0.1:{CONFIG.ports.gateway_production}"
SPLIT = f"/endpoints/{ENVIRONMENT}/{MODEL}/split/"


def token_of(username: str) -> str:
    """A new token of one of the demo's people."""
    token: str = Client(Credentials(CONFIG.base_url, "")).post(
        "/tokens/",
        {
            "username": username,
            "password": passwords(CONFIG.home)[username],
            "name": "benchmark",
        },
    )["token"]
    return token


def person(username: str) -> Client:
    """A client signed in as one of the demo's people."""
    return Client(Credentials(CONFIG.base_url, token_of(username)))


def set_split(client: Client, weights: dict[str, int]) -> dict[str, object]:
    """Move traffic and wait for every gateway's acknowledgement."""
    revision = client.get(SPLIT)["revision"]
    answer: dict[str, object] = client.put(
        SPLIT,
        {"weights": weights, "reason": "Benchmark."},
        {"wait": "1"},
        **{"If-Match": f'"{revision}"'},
    ).json()
    return answer


def quantiles(values: list[float]) -> dict[str, float]:
    """p50, p95 and the maximum, rounded to a tenth."""
    ordered = sorted(values)
    return {
        "p50": round(ordered[len(ordered) // 2], 1),
        "p95": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
        "max": round(ordered[-1], 1),
    }


def report(name: str, **figures: object) -> None:
    print(json.dumps({"benchmark": name, **figures}))
