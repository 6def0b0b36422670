"""The batching advisor on worked cases: each number can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.documents.batching_words import WORDS, told
from deployments.rules.diagnosis.batching import Advice, BatchingFacts, advise, delay_for

# 300 requests/s of one row over a minute, 20 ms in the model, executed singly, on 8 instances.
CROWD = BatchingFacts(
    max_batch_size=8,
    queue_delay_us=100,
    preferred=(),
    instances=8,
    seconds=60,
    requests=18_000,
    inferences=18_000,
    executions=17_000,
    queue_ms=1.0,
    compute_ms=20.0,
)


def codes(facts: BatchingFacts) -> list[str]:
    return [one.code for one in advise(facts)]


def only(facts: BatchingFacts) -> Advice:
    (one,) = advise(facts)
    return one


def test_requests_that_come_at_once_and_run_one_by_one() -> None:
    """Load 300 × 21 ms = 6.3; for 6.3 together one waits 17.7 ms, more than 0.6 × 20 ms."""
    assert CROWD.load == pytest.approx(6.3)
    one = only(CROWD)
    assert (one.code, one.setting) == ("batching_ineffective", "queue_delay_us")
    assert (one.now, one.wanted) == ("100", "12000")
    assert one.data["gathered"] == 4.6, "1 + 300/s × 12 ms"
    assert one.data["added"] == 6.0, "half of the delay on average"
    assert one.data["executions"] == 65.2, "300 ÷ 4.6"


def test_the_promise_bounds_the_delay() -> None:
    strict = replace(CROWD, p95_ms=46.0, latency_limit_ms=50.0)
    assert only(strict).wanted == "2000", "half of the 4 ms that are left"
    spent = replace(CROWD, p95_ms=60.0, latency_limit_ms=50.0)
    assert "batching_ineffective" not in codes(spent), "no room at all: no longer delay"


def test_a_delay_in_which_nobody_comes() -> None:
    """5 requests/s: within 600 µs come 0.003; each waits 0.6 ms for nobody."""
    lonely = replace(
        CROWD,
        requests=300,
        inferences=300,
        executions=300,
        queue_delay_us=600,
        instances=1,
        compute_ms=1.0,
        queue_ms=0.6,
    )
    one = only(lonely)
    assert (one.code, one.wanted, one.data["saved"]) == ("delay_useless", "0", 0.6)


def test_instances_that_are_busy_all_the_time() -> None:
    """45 executions/s × 20 ms = 90 % of one instance; of two it is 45 %."""
    busy = replace(
        CROWD,
        instances=1,
        executions=2_700,
        requests=13_500,
        inferences=13_500,
        queue_ms=120.0,
        queue_delay_us=12_000,
    )
    assert busy.use == pytest.approx(0.9)
    one = only(busy)
    assert (one.code, one.now, one.wanted) == ("instances_busy", "1", "2")
    assert (one.data["use"], one.data["after"]) == (90, 45)
    full = replace(busy, requests=21_600, inferences=21_600)
    assert codes(full) == ["batch_full", "instances_busy"]
    assert advise(full)[0].wanted == "16"


def test_preferred_sizes_that_traffic_never_reaches() -> None:
    """20 requests/s × 2 ms: never more than one there; 32 is not to be had."""
    waiting = replace(
        CROWD,
        requests=1_200,
        inferences=1_200,
        executions=1_150,
        instances=1,
        compute_ms=2.0,
        queue_ms=12.0,
        queue_delay_us=12_000,
        preferred=(32,),
        max_batch_size=32,
    )
    found = {one.code: one for one in advise(waiting)}
    assert found["preferred_unreachable"].data["size"] == 32


def test_a_version_that_does_not_batch() -> None:
    single = replace(CROWD, max_batch_size=0, queue_delay_us=0, executions=18_000)
    one = only(single)
    assert (one.code, one.wanted) == ("not_batched", "8")
    assert codes(replace(single, batch_axis=False)) == ["no_batch_axis"]


def test_instances_that_do_nothing() -> None:
    idle = replace(
        CROWD, requests=600, inferences=600, executions=590, compute_ms=1.0, queue_ms=0.1,
        instances=4, queue_delay_us=0,
    )  # fmt: skip
    assert codes(idle) == ["instances_idle"]


def test_what_is_well_is_left_alone_and_too_little_says_nothing() -> None:
    well = replace(CROWD, executions=4_000, queue_delay_us=12_000, instances=2)
    assert codes(well) == ["fits"]
    assert codes(replace(CROWD, requests=50)) == ["too_few"]
    assert codes(replace(CROWD, executions=0)) == ["too_few"]


@settings(deadline=None)
@given(
    st.builds(
        BatchingFacts,
        max_batch_size=st.integers(0, 128),
        queue_delay_us=st.integers(0, 100_000),
        preferred=st.lists(st.integers(1, 128), max_size=3).map(tuple),
        instances=st.integers(1, 16),
        seconds=st.floats(1, 86_400),
        requests=st.integers(0, 10**7),
        inferences=st.integers(0, 10**8),
        executions=st.integers(0, 10**7),
        queue_ms=st.floats(0, 10_000),
        compute_ms=st.floats(0, 10_000),
        batch_axis=st.booleans(),
        p95_ms=st.none() | st.floats(0, 10_000),
        latency_limit_ms=st.none() | st.floats(1, 10_000),
    )
)
def test_whatever_was_counted_it_says_something_that_can_be_done(facts: BatchingFacts) -> None:
    found = advise(facts)
    assert found
    assert len({one.code for one in found}) == len(found)
    for one in found:
        assert one.code in WORDS
        words = told(one)
        assert "%(" not in words.title + words.why + words.effect
        assert one.now != one.wanted or not one.setting
    assert 0 <= delay_for(facts, max(facts.load, 1.0)) <= 100_000
