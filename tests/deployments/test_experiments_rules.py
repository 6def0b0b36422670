"""What an experiment may be, what its minutes say, and what an outcome may be."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.errors import Invalid
from deployments.rules.experiments.design import (
    ExperimentSettings,
    MinuteCount,
    evidence,
    is_worse,
    parse_settings,
)
from deployments.rules.experiments.outcomes import (
    Reception,
    ReportedOutcome,
    parse_outcomes,
    receive,
)
from deployments.rules.experiments.sequential_tests import Verdict

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SETTINGS = ExperimentSettings("purchase", window_s=600)


def minutes(count: int, *, base: float, new: float, answered: int = 500) -> list[MinuteCount]:
    found = []
    for index in range(count):
        at = NOON + timedelta(minutes=index)
        found.append(MinuteCount(1, at, answered, int(answered * base)))
        found.append(MinuteCount(2, at, answered, int(answered * new)))
    return found


def test_a_minute_counts_once_every_answer_has_had_its_time() -> None:
    counts = minutes(30, base=0.1, new=0.1)
    early = evidence(counts, SETTINGS, baseline=1, candidate=2, now=NOON + timedelta(minutes=11))
    assert (early.baseline.answered, early.baseline.waiting) == (0, 15000)
    later = evidence(counts, SETTINGS, baseline=1, candidate=2, now=NOON + timedelta(minutes=22))
    assert (later.candidate.answered, later.candidate.waiting) == (11 * 500, 19 * 500)
    assert later.candidate.conversion is not None
    assert later.candidate.conversion.value == pytest.approx(0.1)


def test_a_worse_candidate_is_taken_off_only_where_that_was_agreed() -> None:
    now = NOON + timedelta(hours=2)
    found = evidence(minutes(60, base=0.1, new=0.05), SETTINGS, baseline=1, candidate=2, now=now)
    assert found.verdict is Verdict.WORSE
    assert found.difference is not None
    assert found.difference.value == pytest.approx(-0.05)
    assert is_worse(found, SETTINGS)
    assert not is_worse(found, ExperimentSettings("purchase", take_off=False))
    level = evidence(minutes(60, base=0.1, new=0.1), SETTINGS, baseline=1, candidate=2, now=now)
    assert not is_worse(level, SETTINGS)


def test_a_long_experiment_is_shown_in_few_points_and_ends_with_the_newest() -> None:
    found = evidence(
        minutes(1500, base=0.1, new=0.1), SETTINGS, baseline=1, candidate=2,
        now=NOON + timedelta(days=3),
    )  # fmt: skip
    assert 100 <= len(found.points) <= 240
    assert found.points[-1] == (NOON + timedelta(minutes=1499), found.difference)


def test_more_outcomes_than_answers_never_break_an_experiment() -> None:
    counts = [MinuteCount(1, NOON, 200, 50), MinuteCount(2, NOON, 200, 300)]
    found = evidence(counts, SETTINGS, baseline=1, candidate=2, now=NOON + timedelta(hours=1))
    assert found.candidate.converted == 200


def test_settings_are_given_in_percent_and_kept_as_shares() -> None:
    found = parse_settings(
        outcome="purchase", margin=1.5, confidence=99, take_off=False, window="24h"
    )
    assert found == ExperimentSettings("purchase", 0.015, 0.99, take_off=False, window_s=86400)
    assert ExperimentSettings.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"outcome": "A b"}, "/outcome"),
        ({"margin": 0}, "/margin"),
        ({"margin": float("nan")}, "/margin"),
        ({"confidence": 100}, "/confidence"),
        ({"window": "25h"}, "/window"),
        ({"window": "x"}, "/window"),
        ({"window": "9" * 30 + "d"}, "/window"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], pointer: str) -> None:
    wanted = {"outcome": "a", "margin": 1.0, "confidence": 95.0, "take_off": True, "window": "10m"}
    with pytest.raises(Invalid) as refused:
        parse_settings(**{**wanted, **changes})
    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_outcomes_are_read_alone_and_as_a_list() -> None:
    one = {"request_id": "a", "name": "purchase"}
    assert parse_outcomes(json.dumps(one).encode()) == [ReportedOutcome("a", "purchase")]
    many = [one, {**one, "value": 0, "at": "2026-01-31T12:00:00Z"}]
    assert parse_outcomes(json.dumps(many).encode())[1] == ReportedOutcome(
        "a", "purchase", 0.0, NOON
    )


@pytest.mark.parametrize(
    ("document", "pointers"),
    [
        ([], [""]),
        ([{}] * 1001, [""]),
        (3, [""]),
        ([3], ["/0"]),
        ({"name": "x"}, ["/request_id"]),
        ([{"request_id": "a", "name": "x"}, {"request_id": "", "name": "X"}],
         ["/1/request_id", "/1/name"]),
        ({"request_id": "a", "name": "x", "value": True}, ["/value"]),
        ({"request_id": "a", "name": "x", "value": 10**400}, ["/value"]),
        ({"request_id": "a", "name": "x", "at": "yesterday"}, ["/at"]),
        ({"request_id": "a", "name": "x", "at": "2026-01-31T12:00:00"}, ["/at"]),
        ({"request_id": "a", "name": "x", "a/b": 1}, ["/a~1b"]),
    ],
)  # fmt: skip
def test_every_fault_of_an_outcome_has_its_place(document: object, pointers: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        parse_outcomes(json.dumps(document).encode())
    assert [error.pointer for error in refused.value.errors] == pointers


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_said(body: bytes) -> None:
    with pytest.raises(Invalid):
        parse_outcomes(body)


def test_an_outcome_counts_in_time_and_by_its_name() -> None:
    at = NOON.timestamp()

    def of(outcome: ReportedOutcome, wanted: str | None = "purchase") -> Reception | None:
        return receive(outcome, wanted=wanted, answered_at=at, window_s=60)

    assert of(ReportedOutcome("a", "purchase")) is None
    assert of(ReportedOutcome("a", "purchase", at=NOON + timedelta(seconds=60))) is None
    late = ReportedOutcome("a", "purchase", at=NOON + timedelta(seconds=61))
    assert of(late) is Reception.LATE
    assert of(ReportedOutcome("a", "click")) is Reception.OTHER
    assert of(ReportedOutcome("a", "purchase"), None) is Reception.ENDED
