"""Locust as it is driven here, against a server that answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from console.errors import Unavailable
from deployments.adapters import load_generator
from deployments.adapters.load_generator import LoadPlan, LoadRun, generate, probe
from models_registry.rules.load_measurements import Answer
from tests.adapters.gateways import Upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream("m", content=b'{"outputs": []}')
    yield server
    server.stop()


def plan(port: int, **changes: Any) -> LoadPlan:
    given = LoadPlan(
        host=f"http://127.0.0.1:{port}",
        path="/v2/models/m/versions/999/infer",
        headers={"User-Agent": "covenant-load-test/1 (abc)", "Content-Type": "application/json"},
        bodies=['{"inputs": [1]}', '{"inputs": [1, 2]}'],
        weights=[1.0, 1.0],
        rates=[20, 150],
        version="999",
        request_id="load-test-abc",
        timeout_s=3.0,
    )
    return replace(given, **changes)


def send(
    wanted: LoadPlan, check: Callable[[], None] = lambda: None
) -> tuple[LoadRun, list[Answer]]:
    answers: list[Answer] = []
    faults: list[Mapping[str, Any]] = []

    def take(found: Sequence[Answer]) -> None:
        answers.extend(found)

    made = generate(
        wanted, on_answers=take, on_fault=faults.append, on_time=lambda _: None, check=check
    )
    bad = [one for one in answers if one[3] != "ok"]
    assert len(faults) == min(len(bad), 20)
    return made, answers


def test_each_request_of_the_timetable_is_sent_once_and_can_be_told(upstream: Upstream) -> None:
    made, answers = send(plan(upstream.port))
    assert made.tool.startswith("locust 2.")
    assert made.callers == 150
    assert made.counted == len(answers) == len(upstream.paths) == 170
    assert {one[3] for one in answers} == {"ok"}
    assert {one[4] for one in answers} == {0, 1}, "both bodies were sent"
    assert sorted(one[0] for one in answers)[:3] == [0, 50_000, 100_000]
    assert all(due <= sent <= ended for due, sent, ended, _, _ in answers)
    ids = {headers["x-request-id"] for headers in upstream.headers}
    assert ids == {f"load-test-abc-{index}" for index in range(170)}
    assert {headers["user-agent"] for headers in upstream.headers} == {"covenant-load-test/1 (abc)"}


@pytest.mark.parametrize(
    ("changes", "answered", "outcome"),
    [
        ({"status": 503}, {}, "http_503"),
        ({}, {"version": "7"}, "not_the_version"),
        ({"content": b'{"error": "no"}'}, {}, "no_outputs"),
    ],
)
def test_what_is_no_answer_of_the_version_is_a_failure(
    upstream: Upstream, changes: dict[str, Any], answered: dict[str, Any], outcome: str
) -> None:
    for name, value in changes.items():
        setattr(upstream, name, value)
    _, answers = send(plan(upstream.port, rates=[10], **answered))
    assert [one[3] for one in answers] == [outcome] * 10


def test_a_server_that_is_away_is_counted_as_such(free_port: Callable[[], int]) -> None:
    port = free_port()
    assert probe(plan(port)).status == 0
    _, answers = send(plan(port, rates=[10]))
    assert [one[3] for one in answers] == ["connection"] * 10


def test_a_generator_that_does_not_run_is_no_measurement(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_generator, "PROGRAM", "deployments.adapters.no_such_program")
    with pytest.raises(Unavailable, match="No module named") as failed:
        send(plan(upstream.port))
    assert (failed.value.code, failed.value.retryable) == ("load_generator_failed", False)
    assert upstream.paths == []
