"""What callers meet at a real Envoy when a version on trial fails, and what is counted then."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployments.rules.access.rules import AccessRules, RequestLimits
from deployments.rules.gateways.snapshots import ClusterKey, ClusterKind
from deployments.rules.gateways.state import NodeAddress, Target
from deployments.rules.statistics.answers import traffic_of_answers
from deployments.rules.statistics.rollups import Traffic, traffic_of
from tests import stack
from tests.adapters.edges import (  # noqa: F401 - fixtures
    MODEL,
    NEXT,
    Edge,
    edge,
    problem,
    statistics_after_flush,
    targets,
)
from tests.adapters.gateways import Reply, Upstream, read_statistics
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
    sample = read_statistics(edge.envoy.admin)
    assert sample.clusters[f"production/{MODEL}/7"].counters["total"] == 60 - asked
    # Each caller got one answer, whoever was asked on the way.
    found = traffic_of_answers(sample.callers["production", MODEL], {})
    assert {version: one.requests for version, one in found.items()} == {7: 60 - asked, 8: asked}


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


@pytest.mark.parametrize("retry_onto", [None, 7])
def test_more_requests_than_a_version_takes_at_once_are_told_to_come_back(
    edge: Edge, pair: tuple[Upstream, Upstream], retry_onto: int | None
) -> None:
    baseline, candidate = pair
    baseline.held = candidate.held = threading.Event()
    limits = AccessRules(limits=RequestLimits(max_concurrent=3))
    put_on_trial(edge, baseline.port, candidate.port, access=limits, retry_onto=retry_onto)

    def call(user: int) -> Reply:
        return edge.caller().infer(MODEL, request(1.0), x_user_id=f"user-{user}")

    with ThreadPoolExecutor(20) as pool:
        calls = [pool.submit(call, user) for user in range(20)]
        stack.wait_until(
            "refusals",
            lambda: sum(call.done() for call in calls) == 14,
            edge.envoy.process,
            edge.envoy.log,
        )
        baseline.held.set()
        replies = [call.result() for call in calls]
    refused = [one for one in replies if one.status != 200]
    assert len(refused) == 14
    assert {problem(one) for one in refused} == {(503, "overloaded")}
    assert {one.headers["retry-after"] for one in refused} == {"1"}


def test_who_waits_longer_than_the_endpoint_gives_gets_a_time_out(
    edge: Edge, pair: tuple[Upstream, Upstream]
) -> None:
    """A request that may be run again gets half of the time for each attempt."""
    baseline, candidate = pair
    candidate.held = threading.Event()
    put_on_trial(edge, baseline.port, candidate.port, timeout_ms=300)
    caller = edge.caller()
    met = Counter(
        caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}").status for user in range(12)
    )
    assert set(met) == {200, 504}
    put_on_trial(edge, baseline.port, candidate.port, timeout_ms=300, idempotent=True)
    replies = [caller.infer(MODEL, request(1.0), x_user_id=f"user-{user}") for user in range(12)]
    candidate.held.set()
    assert Counter((one.status, one.version) for one in replies) == {(200, "7"): 12}
