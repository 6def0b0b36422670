"""A half-open return at a real Envoy: a share of the callers tries the version, the rest waits."""

from __future__ import annotations

from collections import Counter

from deployments.rules.gateways.state import Mode
from tests.adapters.edges import (  # noqa: F401 - fixtures
    MODEL,
    Edge,
    edge,
    targets,
)
from tests.adapters.onnx_models import request

CALLS = 600


def _versions(edge: Edge, calls: int = CALLS) -> Counter[str]:
    caller = edge.caller()
    return Counter(
        caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}").version for user in range(calls)
    )


def test_a_share_reaches_the_version_while_the_fallback_answers_the_others(
    edge: Edge,
) -> None:
    edge.apply(mode=Mode.FALLBACK)
    assert _versions(edge, 50) == {"fallback": 50}

    edge.apply(mode=Mode.FALLBACK, probe=1000, weights={2: 10000})
    shares = _versions(edge)
    # 60 are expected; five standard deviations of a binomial are 37.
    assert 23 <= shares["2"] <= 97
    assert shares["fallback"] == CALLS - shares["2"]

    edge.apply(mode=Mode.FALLBACK, probe=10000)
    assert _versions(edge, 50) == {"1": 50}
    edge.apply(mode=Mode.FALLBACK)
    assert _versions(edge, 50) == {"fallback": 50}


def test_a_share_reaches_the_version_while_the_circuit_is_open(edge: Edge) -> None:
    edge.apply(mode=Mode.OPEN, probe=5000)
    caller = edge.caller()
    replies = [caller.infer(MODEL, request(1.0)) for _ in range(200)]
    statuses = Counter(reply.status for reply in replies)
    assert set(statuses) == {200, 503}
    assert min(statuses.values()) > 50
    refused = next(reply for reply in replies if reply.status == 503)
    assert refused.headers["retry-after"] == "30"
