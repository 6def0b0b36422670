"""Outcomes: a real Envoy tells the edge who answered, and callers what it led to."""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from console import live
from deployments.models import Experiment, ExperimentCount, Outcome
from deployments.services.experiments.acts import start_experiment, stop_experiment
from deployments.services.traffic.splits import set_split, wait_acknowledged
from tests.deployments.calling import BODY
from tests.deployments.edge_pair import MODEL, Pair, pair
from tests.deployments.waiting import eventually

__all__ = ["pair"]


def call(pair: Pair, client: httpx.Client, request_id: str, **headers: str) -> str:
    """The version that answered."""
    reply = client.post(
        f"{pair.fleet.url()}/v2/models/{MODEL}/infer",
        json=BODY,
        headers={"x-request-id": request_id, "x-user-id": request_id, **headers},
    )
    assert reply.status_code == 200, reply.text
    return reply.headers["x-model-version"]


def counted(experiment: Experiment, field: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for row in ExperimentCount.objects.filter(experiment=experiment):
        found[row.version] += getattr(row, field)
    return found


def test_outcomes_count_for_the_version_that_answered_and_once(pair: Pair) -> None:
    split = set_split(
        environment="production", model=MODEL, weights={1: 50, 2: 50},
        expected_revision=None, reason="an experiment", actor=pair.fleet.sam,
    )  # fmt: skip
    wait_acknowledged(split)
    url = f"{pair.fleet.url()}/v1/outcomes"
    here: dict[str, Any] = {"environment": "production", "model": MODEL, "actor": pair.fleet.sam}
    with httpx.Client(timeout=5) as client:
        early = str(uuid.uuid4())
        call(pair, client, early, **{"x-covenant-experiment": f"production/{MODEL}"})
        experiment = start_experiment(
            **here, name="Checkout", outcome="purchase", baseline=1, candidate=2, window="2m"
        )

        def logged() -> bool:
            call(pair, client, str(uuid.uuid4()))
            return sum(counted(experiment, "answered").values()) > 0

        eventually(logged, 15)
        before = {"answered": sum(counted(experiment, "answered").values())}
        answered = {(name := str(uuid.uuid4())): call(pair, client, name) for _ in range(40)}
        call(pair, client, next(iter(answered)))

        first, second, third = list(answered)[:3]
        late = (datetime.now(UTC) + timedelta(minutes=10)).isoformat()
        # At once: the gateway tells who answered a tenth of a second later.
        reply = client.post(
            url,
            json=[
                {"request_id": first, "name": "purchase", "value": 20.5},
                {"request_id": first, "name": "purchase"},
                {"request_id": second, "name": "click"},
                {"request_id": third, "name": "purchase", "at": late},
                {"request_id": early, "name": "purchase"},
                {"request_id": "made-up", "name": "purchase"},
            ],
        )
        assert reply.status_code == 202, reply.text
        said = reply.json()
        reasons = [one["reason"] for one in said["not_counted"]]
        assert said["accepted"] == 1
        assert reasons == ["duplicate", "other_name", "late", "unknown", "unknown"]
        assert said["not_counted"][-1]["pointer"] == "/5"
        outcomes = [{"request_id": name, "name": "purchase"} for name in answered]
        assert client.post(url, json=outcomes).json()["accepted"] == 39
        assert client.post(url, json=outcomes).json()["duplicate"] == 40
        assert counted(experiment, "converted") == Counter(map(int, answered.values()))
        assert Outcome.objects.count() == 40
        total = before["answered"] + 40
        eventually(lambda: sum(counted(experiment, "answered").values()) >= total, 10)

        bad = client.post(url, json={"request_id": 3, "name": "purchase"})
        assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (422, "/request_id")
        assert bad.headers["content-type"] == "application/problem+json"
        live.connection().flushall()
        assert client.post(url, json=outcomes[0]).json()["unknown"] == 1
        name = str(uuid.uuid4())
        call(pair, client, name)
        stop_experiment(**here, experiment_id=experiment.pk)
        ended = eventually(
            lambda: (
                (said := client.post(url, json={"request_id": name, "name": "purchase"}).json())
                and said["ended"] == 1
            )
        )
        assert ended
