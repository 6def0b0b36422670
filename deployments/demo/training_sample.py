"""What the demo's first version was trained on, as a table that people record with it."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from deployments.cli.client import Client

ROWS = 2000
NAMES = (
    "amount", "account_age", "countries", "hour", "merchant_risk", "card_age", "retries",
    "distance", "velocity", "history",
)  # fmt: skip


def record(client: Client, *, model: str, number: int, folder: Path) -> str:
    """Write the rows, seeded as the callers' are, and record them with the version."""
    path = folder / "training.csv"
    source = random.Random(0)  # noqa: S311 - repeatable rows, not a secret
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows([round(source.uniform(-10, 10), 3) for _ in NAMES] for _ in range(ROWS))
    found = client.post(
        f"/models/{model}/versions/{number}/reference-sample/",
        {"upload": client.upload(path)["id"], "note": "From the demo."},
    )
    return (
        f"{found['rows']} rows of {len(found['features'])} features, for drift to be held against"
    )
