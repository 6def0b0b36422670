"""What callers meet at a real Envoy when a version on trial fails, and what is counted then."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from deployments.rules.gateway_state import NodeAddress, Target
from deployments.rules.rollups import Traffic, traffic_of
from deployments.rules.snapshots import ClusterKey, ClusterKind
from tests.adapters.edges import (  # noqa: F401 - fixtures
    MODEL,
    NEXT,
    Edge,
    edge,
    statistics_after_flush,
    targets,
)
from tests.adapters.gateways import Upstream, read_statistics
from tests.adapters.onnx_models import request

RETRIED = ClusterKey("production", MODEL, ClusterKind.RETRIED, 8)


@pytest.fixture
def pair() -> Iterator[tuple[Upstream, Upstream]]:
    """A baseline (version 7) and a candidate (version 8)."""
    baseline, candidate = Upstream("7"), Upstream("8")
    yield baseline, candidate
    baseline.stop()
    candidate.stop()


def put_on_trial(edge: Edge, baseline: int, candidate: int, **changes: object) -> None:
    targets = {
        7: Target(NEXT, 5, (NodeAddress("n", "127.0.0.1", baseline),)),
        8: Target(NEXT, 6, (NodeAddress("n", "127.0.0.1", candidate),)),
    }
    edge.apply(**{"weights": {7: 6000, 8: 4000}, "targets": targets, "retry_onto": 7, **changes})


def traffic(edge: Edge, wanted: int) -> Traffic:
    sample = statistics_after_flush(edge, wanted, RETRIED.name)
    return traffic_of(RETRIED, sample.counters, sample.latency)


def test_what_a_candidate_fails_the_baseline_answers(
    edge: Edge, pair: tuple[Upstream, Upstream]
) -> None:
    baseline, candidate = pair
    candidate.status = 500
    put_on_trial(edge, baseline.port, candidate.port)
    caller = edge.caller()
    replies = [caller.infer(MODEL, request(1.0)) for _ in range(60)]
    assert Counter((one.status, one.version) for one in replies) == {(200, "7"): 60}
    asked = len(candidate.paths)
    assert asked > 5
    assert set(candidate.paths) == {f"/v2/models/{NEXT}/versions/6/infer"}
    assert set(baseline.paths) == {f"/v2/models/{NEXT}/versions/5/infer"}
    assert not {"x-covenant-target", "x-envoy-retry-on"} & set(baseline.headers[-1])
    counted = traffic(edge, asked)
    assert (counted.requests, counted.provider_faults, counted.rescued) == (asked, 0, asked)
    plain = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/7"].counters
    assert plain["total"] == 60 - asked


def test_a_candidate_that_answers_is_the_one_that_is_named(
    edge: Edge, pair: tuple[Upstream, Upstream]
) -> None:
    baseline, candidate = pair
    put_on_trial(edge, baseline.port, candidate.port)
    caller = edge.caller()
    versions = Counter(caller.infer(MODEL, request(1.0)).version for _ in range(60))
    assert set(versions) == {"7", "8"}
    counted = traffic(edge, versions["8"])
    assert (counted.requests, counted.rescued) == (versions["8"], 0)


def test_a_candidate_whose_process_is_gone_costs_no_caller_anything_and_is_seen(
    edge: Edge, pair: tuple[Upstream, Upstream]
) -> None:
    baseline, _ = pair
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    put_on_trial(edge, baseline.port, port)
    caller = edge.caller()
    replies = [caller.infer(MODEL, request(1.0)) for _ in range(60)]
    assert Counter((one.status, one.version) for one in replies) == {(200, "7"): 60}
    sample = read_statistics(edge.envoy.admin).clusters[RETRIED.name]
    counted = traffic_of(RETRIED, sample.counters, sample.latency)
    assert counted.rescued == counted.requests > 5


def test_both_failing_is_a_failure(edge: Edge, pair: tuple[Upstream, Upstream]) -> None:
    baseline, candidate = pair
    baseline.status = candidate.status = 500
    put_on_trial(edge, baseline.port, candidate.port)
    caller = edge.caller()
    replies = [caller.infer(MODEL, request(1.0)) for _ in range(40)]
    assert {one.status for one in replies} == {500}
    counted = traffic(edge, len(candidate.paths))
    assert (counted.provider_faults, counted.rescued) == (len(candidate.paths), 0)


def test_a_candidate_that_is_asked_for_by_name_answers_for_itself(
    edge: Edge, pair: tuple[Upstream, Upstream]
) -> None:
    baseline, candidate = pair
    candidate.status = 500
    put_on_trial(edge, baseline.port, candidate.port)
    reply = edge.caller().send("POST", f"/v2/models/{MODEL}/versions/8/infer", request(1.0))
    assert (reply.status, reply.version) == (500, "8")


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_failed_request_is_run_again_only_where_the_contract_says_so(
    edge: Edge, pair: tuple[Upstream, Upstream], idempotent: bool
) -> None:
    """Two nodes of one version, one of which fails."""
    _, bad = pair
    bad.status = 503
    nodes = tuple(NodeAddress(one.name, "127.0.0.1", one.port) for one in pair)
    edge.apply(
        weights={7: 10000}, targets={7: Target(NEXT, 5, nodes)}, idempotent=idempotent
    )  # fmt: skip
    caller = edge.caller()
    statuses = Counter(caller.infer(MODEL, request(1.0)).status for _ in range(8))
    assert bad.paths
    assert (set(statuses) == {200}) is idempotent
    sample = read_statistics(edge.envoy.admin).clusters[f"production/{MODEL}/7"]
    counted = traffic_of(
        ClusterKey("production", MODEL, ClusterKind.VERSION, 7), sample.counters, sample.latency
    )
    assert (counted.rescued > 0) is idempotent
    assert (counted.provider_faults > 0) is not idempotent
