"""A rollout of a version that answers NaN, through a real gateway and the edge that samples it."""

from __future__ import annotations

import time

import pytest
from django.utils import timezone

from deployments.models import Rollout
from deployments.services.rollouts.acts import start_rollout
from deployments.services.rollouts.engine import tick
from deployments.services.traffic.splits import wait_acknowledged
from tests.deployments.calling import infer
from tests.deployments.edge_pair import MODEL, Pair, answer, pair
from tests.deployments.waiting import eventually

__all__ = ["pair"]

PLAN = {"steps": [{"set_weight": 10}, {"pause": "10m"}], "analysis": False}


@pytest.mark.timeout(180)
def test_no_gateway_gives_it_traffic_within_ten_seconds(pair: Pair) -> None:
    pair.second.content = answer(None)
    rollout = start_rollout(
        environment="production",
        model=MODEL,
        version=2,
        plan=PLAN,
        reason="the next model",
        actor=pair.fleet.sam,
    )
    given = rollout.endpoint.splits.first()
    assert given is not None
    wait_acknowledged(given)
    bad_since = time.monotonic()

    def ended() -> Rollout | None:
        pair.call(10)
        tick(timezone.now())
        return Rollout.objects.filter(pk=rollout.pk, state="rolled_back").first()

    done = eventually(ended, 30)
    assert done is not None
    assert done.cause == "outputs"
    taken_back = done.endpoint.splits.first()
    assert taken_back is not None
    assert taken_back.weights == {"1": 10_000, "2": 0}
    wait_acknowledged(taken_back, 10)
    assert time.monotonic() - bad_since < 10
    versions = {infer(pair.fleet.url(), MODEL).headers["x-model-version"] for _ in range(20)}
    assert versions == {"1"}
