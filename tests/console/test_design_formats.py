"""Numbers, times and small pictures of the design system."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from console.templatetags import console_formats as formats
from console.templatetags import console_ui as ui
from console.templatetags.console_drawings import segments, spark
from console.templatetags.console_states import STATES, look

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (4_404_019, "4.2 MiB"),
        (5 * 1024**3, "5 GiB"),
        (None, "—"),
        ("", "—"),
    ],
)
def test_file_sizes_are_in_binary_units(value: object, shown: str) -> None:
    assert plain(formats.file_size(value)) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0421, "42.1 ms"),
        (0.85, "850 ms"),
        (9.96, "10 s"),
        (12.3, "12 s"),
        (245, "4 min 05 s"),
        (59.9, "60 s"),
        (7980, "2 h 13 min"),
        (273_600, "3 d 4 h"),
        (None, "—"),
    ],
)
def test_lengths_of_time_show_their_two_leading_units(seconds: object, shown: str) -> None:
    assert plain(formats.span(seconds)) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.418, "0.42 ms"), (12.34, "12.3 ms"), (480.4, "480 ms"), (1240, "1.24 s"), (None, "—")],
)
def test_latencies_have_three_figures(value: object, shown: str) -> None:
    assert plain(formats.latency(value)) == shown


def test_percent_keeps_only_the_decimals_that_say_something() -> None:
    assert plain(formats.percentage(95)) == "95 %"
    assert plain(formats.percentage(99.95)) == "99.95 %"
    assert plain(ui.fraction(0.9995)) == "99.95 %"
    assert plain(ui.basis_points(25)) == "0.25 %"
    assert ui.fraction(None) == "—"


def test_what_is_no_number_is_a_dash_and_not_an_error() -> None:
    for value in (None, "", "many", float("nan"), float("inf"), True):
        assert formats.percentage(value) == "—"


def test_numbers_follow_the_language() -> None:
    with translation.override("de"):
        assert plain(formats.percentage(1234.5)) == "1.234,5 %"


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=1), "just now"),
        (timedelta(seconds=12), "12 s ago"),
        (timedelta(minutes=3, seconds=59), "3 min ago"),
        (timedelta(hours=5), "5 h ago"),
        (timedelta(days=4), "4 d ago"),
        (timedelta(seconds=-90), "in 1 min"),
    ],
)
def test_ages_are_in_one_unit(ago: timedelta, words: str) -> None:
    assert formats.age_words(NOW - ago, NOW) == words


def test_an_age_beyond_a_month_is_a_date() -> None:
    assert formats.age_words(NOW - timedelta(days=40), NOW) == "Jan. 23, 2026"


def test_machine_time_is_rfc_3339_in_utc() -> None:
    assert formats.machine_time(NOW) == "2026-03-04T12:00:00.000Z"


def test_a_digest_is_cut_after_its_algorithm() -> None:
    assert formats.short_digest("sha256:" + "0123456789abcdef" * 4) == "0123456789ab"


def test_a_version_keeps_its_colour_and_neighbours_differ() -> None:
    colours = [ui.version_colour(number) for number in range(1, 20)]
    assert colours[0] == colours[8] == "vc-1"
    assert all(a != b for a, b in pairwise(colours))
    assert ui.version_colour(None) == "vc-none"


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0, 100)), max_size=8).filter(
        lambda pairs: sum(percent for _, percent in pairs) > 0.01
    )
)
def test_a_stacked_bar_is_always_full(pairs: list[tuple[int, float]]) -> None:
    parts = segments(pairs)
    assert sum(float(part.width) for part in parts) == pytest.approx(100, abs=0.01)
    for left, right in pairwise(parts):
        assert float(left.start) + float(left.width) == pytest.approx(float(right.start), abs=0.01)


def test_a_sparkline_starts_at_zero_and_breaks_at_gaps() -> None:
    drawn = spark([10.0, 20.0, None, 5.0])
    assert [len(line.split()) for line in drawn.lines] == [2, 1]
    ys = [float(point.split(",")[1]) for point in drawn.lines[0].split()]
    assert ys == [12.0, 1.5]
    assert (drawn.last, drawn.low, drawn.high) == (5.0, 5.0, 20.0)
    assert spark([None, None]).lines == ()


def test_states_of_one_machine_are_told_apart_without_colour() -> None:
    for kind, states in STATES.items():
        signs = [(shown.shape, str(shown.label)) for shown in states.values()]
        assert len(signs) == len(set(signs)), kind


def test_an_unknown_state_is_shown_by_its_name() -> None:
    shown = look("job", "half_way")
    assert (shown.tone, shown.shape, shown.label) == ("neutral", "dot", "Half way")
