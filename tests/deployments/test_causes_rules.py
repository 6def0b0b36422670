"""The root-cause board's rules: what moved, what moved first, and what it means."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.rules.causes.board import Case, Happened, find_case
from deployments.rules.causes.findings import findings
from deployments.rules.causes.moves import MINUTES, moves
from deployments.rules.causes.quantities import KINDS, Signal

START = datetime(2026, 3, 1, 3, 0, tzinfo=UTC)
STEP = 5.0
COUNT = 180


def at(index: int) -> datetime:
    return START + timedelta(seconds=STEP * index)


def series(value: Callable[[int], float], count: int = COUNT) -> list[tuple[datetime, float]]:
    return [(at(index), value(index)) for index in range(count)]


def noisy(seed: int, middle: float, spread: float = 0.05) -> Callable[[int], float]:
    """A value around the middle; latencies vary to the right, so it is lognormal."""
    rng = random.Random(seed)
    return lambda _index: middle * rng.lognormvariate(0, spread)


def steps(seed: int, *levels: tuple[int, float]) -> list[tuple[datetime, float]]:
    """A series that has each level from its index on."""
    noise = noisy(seed, 1.0)

    def value(index: int) -> float:
        return [level for start, level in levels if start <= index][-1] * noise(index)

    return series(value)


def signal(
    code: str, points: Sequence[tuple[datetime, float]], version: int = 0, place: str = ""
) -> Signal:
    return Signal(KINDS[code], tuple(points), STEP, version, place)


class TestMoves:
    @pytest.mark.parametrize("index", [12, 40, 90, 170, 174])
    def test_a_step_is_found_where_it_is_however_late(self, index: int) -> None:
        (move,) = moves(steps(1, (0, 10.0), (index, 30.0)))
        assert move.at == at(index)
        assert move.before == pytest.approx(10, rel=0.1)
        assert move.after == pytest.approx(30, rel=0.1)

    def test_a_disturbance_that_is_over_is_two_moves(self) -> None:
        up, down = moves(steps(2, (0, 10.0), (90, 40.0), (98, 10.0)))
        assert (up.at, up.rose) == (at(90), True)
        assert (down.at, down.rose) == (at(98), False)

    def test_a_few_spikes_are_no_move(self) -> None:
        spikes = {30, 31, 90, 91, 92, 150}
        quiet = noisy(3, 10.0)
        assert moves(series(lambda i: 90.0 if i in spikes else quiet(i))) == []

    def test_a_slow_rise_is_one_move_from_where_it_began(self) -> None:
        quiet = noisy(4, 10.0, 0.02)
        (move,) = moves(series(lambda i: quiet(i) + max(0, i - 60) * 0.2))
        assert at(60) <= move.at <= at(90)
        assert move.after > 20

    def test_two_steps_with_time_between_them_are_two_moves(self) -> None:
        first, second = moves(steps(7, (0, 10.0), (60, 30.0), (120, 90.0)))
        assert (first.at, second.at) == (at(60), at(120))

    def test_minutes_need_fewer_points_than_seconds(self) -> None:
        points = series(lambda i: 10.0 if i < 7 else 30.0, count=10)
        assert moves(points) == []
        (move,) = moves(points, care=MINUTES)
        assert move.at == at(7)

    def test_from_nothing_to_something_needs_what_matters(self) -> None:
        points = series(lambda i: 0.0 if i < 100 else 0.05)
        assert moves(points, least=0.1) == []
        (move,) = moves(series(lambda i: 0.0 if i < 100 else 5.0), least=0.1)
        assert (move.at, move.before, move.after) == (at(100), 0.0, 5.0)

    def test_what_was_not_measured_is_left_out_and_moves_nothing(self) -> None:
        points = [one for one in steps(5, (0, 10.0)) if not at(60) <= one[0] < at(120)]
        assert moves(points) == []

    def test_noise_alone_seldom_moves(self) -> None:
        found = sum(bool(moves(series(noisy(seed, 10.0, 0.8)))) for seed in range(300))
        assert found <= 6

    @given(st.lists(st.floats(0, 1e9), max_size=60))
    def test_the_unit_does_not_matter(self, values: list[float]) -> None:
        plain = moves([(at(i), v) for i, v in enumerate(values)])
        scaled = moves([(at(i), v * 2.0**8) for i, v in enumerate(values)])
        assert [one.at for one in plain] == [one.at for one in scaled]

    @given(st.lists(st.floats(-1e9, 1e9), max_size=60))
    def test_moves_follow_each_other_in_time(self, values: list[float]) -> None:
        found = moves([(at(i), v) for i, v in enumerate(values)])
        assert [one.at for one in found] == sorted({one.at for one in found})
        assert all(one.before != one.after for one in found)


def codes(case: Case) -> list[str]:
    return [one.code for one in findings(case)]


class TestTheFirstMove:
    def test_what_moved_first_is_first_and_the_layer_below_goes_before(self) -> None:
        case = find_case(
            [
                signal("p99", steps(1, (0, 20.0), (108, 90.0))),
                signal("queue", steps(2, (0, 1.0), (100, 40.0)), 7),
                signal("gpu_memory", steps(3, (0, 3000.0)), place="gpu-1 GPU-0"),
            ],
            [Happened(at(92), 0)],
        )
        assert [one.signal.kind.code for one in case.movers] == ["queue", "p99"]
        assert case.symptom is not None
        assert case.symptom.signal.kind.code == "p99"
        assert case.before_s == 40.0
        assert [one.signal.kind.code for one in case.steady] == ["gpu_memory"]

    def test_at_one_time_the_machine_goes_before_what_runs_on_it(self) -> None:
        case = find_case(
            [
                signal("p99", steps(1, (0, 20.0), (100, 90.0))),
                signal("gpu_clock", steps(2, (0, 1700.0), (100, 900.0)), place="gpu-1 GPU-0"),
                signal("compute", steps(3, (0, 5.0), (100, 15.0)), 3),
            ],
            [],
        )
        moved = [one.signal.kind.code for one in case.movers]
        assert moved == ["gpu_clock", "compute", "p99"]

    def test_the_newest_story_is_told_unless_another_moment_is_asked_for(self) -> None:
        signals = [signal("errors", steps(1, (0, 0.1), (30, 9.0), (60, 0.1), (150, 5.0)))]
        newest, asked = find_case(signals, []), find_case(signals, [], around=at(33))
        assert newest.symptom is not None
        assert newest.symptom.move.at == at(150)
        assert asked.symptom is not None
        assert asked.symptom.move.at == at(30)

    def test_what_happened_after_the_first_move_is_not_its_cause(self) -> None:
        signals = [signal("errors", steps(1, (0, 0.1), (100, 9.0)))]
        case = find_case(signals, [Happened(at(60), 0), Happened(at(104), 1)])
        assert case.before is not None
        assert case.before.index == 0

    def test_a_version_that_is_bad_from_its_first_request_is_the_story_whoever_answered_for_it(
        self,
    ) -> None:
        case = find_case(
            [
                signal("errors", steps(1, (0, 0.0))),
                signal("errors", steps(2, (0, 0.0)), 1),
                signal("errors", steps(3, (0, 100.0))[120:], 2),
            ],
            [Happened(at(119), 0)],
        )
        assert case.first is not None
        assert (case.first.appeared, case.first.signal.version) == (True, 2)
        assert (case.first.move.at, case.before_s) == (at(120), 5.0)
        assert codes(case) == ["version_fails"]

    def test_a_version_that_failed_for_a_few_seconds_until_it_was_taken_off_is_found(self) -> None:
        bad = {150, 151}
        case = find_case(
            [
                signal("errors", steps(1, (0, 0.0)), 1),
                signal("errors", series(lambda i: 100.0 if i in bad else 0.0), 2),
            ],
            [Happened(at(149), 0)],
        )
        assert case.first is not None
        assert (case.first.move.at, case.first.signal.version) == (at(150), 2)
        assert case.before_s == 5.0

    def test_of_a_version_s_move_what_concerned_that_version_came_before(self) -> None:
        case = find_case(
            [
                signal("errors", steps(1, (0, 0.0)), 1),
                signal("errors", series(lambda i: 100.0 if i == 150 else 0.0), 2),
            ],
            [Happened(at(150), 0, 2), Happened(at(150) + timedelta(seconds=4), 1, 1)],
        )
        assert case.before is not None
        assert case.before.index == 0

    def test_a_version_that_was_there_all_the_time_has_not_appeared(self) -> None:
        case = find_case(
            [
                signal("errors", steps(2, (0, 0.0)), 1),
                signal("errors", steps(3, (0, 100.0)), 2),
            ],
            [],
        )
        assert case.first is None

    def test_what_is_over_is_said_to_be_over(self) -> None:
        lasting = find_case([signal("errors", steps(1, (0, 0.1), (100, 9.0)))], [])
        over = find_case([signal("errors", steps(1, (0, 0.1), (100, 9.0), (120, 0.1)))], [])
        assert lasting.over_at is None
        assert over.over_at == at(120)

    def test_a_version_without_requests_any_more_is_over_too(self) -> None:
        case = find_case(
            [
                signal("errors", steps(1, (0, 0.0)), 1),
                signal("errors", [(at(120), 100.0), (at(121), 100.0)], 2),
            ],
            [],
        )
        assert case.over_at == at(122)

    def test_what_goes_up_and_down_did_not_stay(self) -> None:
        requests = signal("requests", series(lambda i: 200.0 if i % 3 else 0.0))
        assert find_case([requests], []).steady == ()

    def test_nothing_that_moved_is_no_story(self) -> None:
        case = find_case([signal("p99", steps(1, (0, 20.0)))], [Happened(at(50), 0)])
        assert (case.symptom, case.movers, case.before) == (None, (), None)
        assert findings(case) == []

    def test_good_news_are_no_story(self) -> None:
        case = find_case([signal("errors", steps(1, (0, 9.0), (100, 0.1)))], [])
        assert case.symptom is None


class TestMeanings:
    def test_requests_that_wait_while_batches_shrink(self) -> None:
        case = find_case(
            [
                signal("p99", steps(1, (0, 20.0), (110, 90.0))),
                signal("queue", steps(2, (0, 1.0), (100, 40.0)), 7),
                signal("batch", steps(3, (0, 6.1), (100, 1.2)), 7),
                signal("compute", steps(4, (0, 5.0)), 7),
                signal("gpu_memory", steps(5, (0, 3000.0)), place="gpu-1 GPU-0"),
            ],
            [Happened(at(92), 0)],
        )
        (first, *_more) = findings(case)
        assert (first.code, first.version) == ("batching_ineffective", 7)
        # The queue, the batches, and that neither the model nor the memory moved.
        assert len(first.evidence) == 4

    def test_a_new_version_that_fails_is_named_against_those_beside_it(self) -> None:
        case = find_case(
            [
                signal("errors", steps(1, (0, 0.1), (100, 3.0))),
                signal("errors", steps(2, (0, 0.1)), 1),
                signal("errors", steps(3, (0, 60.0))[100:], 2),
            ],
            [Happened(at(98), 0)],
        )
        (finding,) = findings(case)
        assert (finding.code, finding.version) == ("version_fails", 2)

    @pytest.mark.parametrize(
        ("expected", "signals"),
        [
            (
                "overload",
                [
                    signal("requests", steps(1, (0, 100.0), (98, 400.0))),
                    signal("queue", steps(2, (0, 1.0), (100, 40.0))),
                    signal("p99", steps(3, (0, 20.0), (101, 90.0))),
                ],
            ),
            (
                "thermal",
                [
                    signal("gpu_temperature", steps(1, (0, 60.0), (90, 92.0)), place="gpu-1"),
                    signal("gpu_clock", steps(2, (0, 1700.0), (95, 900.0)), place="gpu-1"),
                    signal("p99", steps(3, (0, 20.0), (100, 60.0))),
                ],
            ),
            (
                "outside_model",
                [
                    signal("p99", steps(1, (0, 20.0), (100, 90.0))),
                    signal("queue", steps(2, (0, 1.0))),
                    signal("compute", steps(3, (0, 5.0))),
                ],
            ),
            (
                "inputs_changed",
                [
                    signal("feature_drift_score", steps(1, (0, 0.08), (90, 0.5))),
                    signal("conversion_rate", steps(2, (0, 12.0), (100, 8.0))),
                ],
            ),
            (
                "callers_gone",
                [
                    signal("requests", series(lambda i: 100.0 if i < 100 else 0.5)),
                    signal("p99", steps(2, (0, 20.0), (100, 60.0))),
                ],
            ),
            (
                "machine_busy",
                [
                    signal("host_cpu", steps(1, (0, 30.0), (90, 98.0)), place="gpu-1"),
                    signal("p99", steps(2, (0, 20.0), (100, 60.0))),
                ],
            ),
            (
                "memory_grows",
                [
                    signal("gpu_memory", steps(1, (0, 3000.0), (60, 9000.0)), place="gpu-1"),
                    signal("errors", steps(2, (0, 0.1), (100, 20.0))),
                ],
            ),
            (
                "no_node",
                [
                    # A node that is back after ten seconds leaves two points.
                    signal("no_node", series(lambda i: 60.0 if i in (100, 101) else 0.0)),
                    signal("errors", series(lambda i: 61.6 if i in (100, 101) else 0.0)),
                ],
            ),
            (
                "no_node",
                [
                    signal("no_node", series(lambda i: 0.0 if i < 100 else 50.0)),
                    signal("errors", series(lambda i: 0.0 if i < 100 else 50.0)),
                ],
            ),
        ],
    )
    def test_each_pattern_is_known_by_its_moves(self, expected: str, signals: list[Signal]) -> None:
        assert codes(find_case(signals, []))[0] == expected

    def test_a_machine_that_was_busy_all_the_time_is_not_nothing_to_do_with_it(self) -> None:
        case = find_case(
            [
                signal("host_cpu", steps(1, (0, 99.0)), place="gpu-1"),
                signal("p99", steps(2, (0, 20.0), (100, 60.0))),
                signal("queue", steps(3, (0, 1.0))),
                signal("compute", steps(4, (0, 5.0))),
            ],
            [],
        )
        assert codes(case) == ["machine_busy"]

    def test_a_version_that_fails_outright_needs_no_long_look(self) -> None:
        case = find_case(
            [
                signal("errors", steps(2, (0, 0.0)), 1),
                signal("errors", [(at(120), 100.0)], 2),
            ],
            [Happened(at(119), 0)],
        )
        assert codes(case) == ["version_fails"]

    def test_a_slower_model_is_not_blamed_on_what_lies_outside_it(self) -> None:
        case = find_case(
            [
                signal("p99", steps(1, (0, 20.0), (100, 90.0))),
                signal("queue", steps(2, (0, 1.0))),
                signal("compute", steps(3, (0, 5.0), (100, 70.0))),
            ],
            [],
        )
        assert "outside_model" not in codes(case)
