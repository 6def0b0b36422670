"""Copies of requests through a real Envoy to the edge, which has both versions answer them."""

from __future__ import annotations

import time

import httpx
import pytest

from console import live
from deployments.models import ComparisonMinute
from tests.deployments.edge_pair import MODEL, Pair, answer, pair
from tests.deployments.waiting import eventually

__all__ = ["pair"]


def test_answers_are_compared_and_faults_are_seen_within_seconds(pair: Pair) -> None:
    alike = pair.call_until(lambda window: window.compared >= 3)
    assert (alike.differing, alike.baseline_faults, alike.candidate_faults) == (0, 0, 0)

    began = time.monotonic()
    pair.second.content = answer(None)
    found = pair.call_until(lambda window: window.candidate_faults >= 1)
    assert time.monotonic() - began < 6
    assert found.kinds == {"nan": found.candidate_faults}
    assert found.baseline_faults == 0

    pair.second.content = answer(0.75)
    apart = pair.call_until(lambda window: (window.max_difference or 0) > 0.2)
    assert apart.max_difference == pytest.approx(0.25)

    pair.second.status = 500
    pair.call_until(lambda window: window.kinds.get("error", 0) >= 1)

    def booked() -> int:
        rows = ComparisonMinute.objects.filter(endpoint__model__name=MODEL)
        assert {(row.baseline, row.candidate) for row in rows} <= {(1, 2)}
        return sum(row.sampled for row in rows)

    eventually(lambda: booked() == pair.window().sampled, 15)
    live.connection().flushall()
    assert pair.window().sampled == 0
    pair.call_until(lambda window: window.sampled >= 1)


def test_what_there_is_no_room_for_is_dropped(pair: Pair) -> None:
    headers = {"x-covenant-sample": f"production/{MODEL}"}
    body = {"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}
    url = f"http://127.0.0.1:{pair.edge_port}/v2/models/{MODEL}/infer"
    with httpx.Client(timeout=5) as client:
        known = eventually(
            lambda: client.post(url, json=body, headers=headers).status_code == 202, 10
        )
        assert known
        answers = [client.post(url, json=body, headers=headers).status_code for _ in range(60)]
        assert 429 in answers
        assert client.post(url, json=body).status_code == 404
        too_large = client.post(url, content=b" " * (1024 * 1024 + 1), headers=headers)
        assert too_large.status_code == 413
