"""Months, budget lines, links and drawings of promises, by the pure rules."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from deployments.rules.objectives.figures import (
    minutes_left,
    reached,
    requests_left,
    share_left,
)
from deployments.rules.objectives.sla_drawings import budget_drawing, trend_drawing
from deployments.rules.objectives.sla_months import (
    RANKS,
    budget_line,
    is_over,
    month_after,
    month_before,
    months_until,
)
from deployments.rules.objectives.sla_sharing import is_due, month_to_report, share_state
from deployments.rules.objectives.slo import Objective, Promise, attain
from deployments.rules.objectives.spans import Span
from deployments.rules.statistics.histograms import Histogram
from deployments.rules.statistics.rollups import Traffic

START, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
AVAILABLE = Objective("availability", 99.9, None)


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def test_months_go_across_years_and_the_worst_promise_comes_first() -> None:
    assert month_before(date(2026, 1, 1)) == date(2025, 12, 1)
    assert month_after(date(2026, 12, 1)) == date(2027, 1, 1)
    assert months_until(date(2026, 2, 1), 4)[0] == date(2025, 11, 1)
    assert is_over(date(2026, 11, 1), END)
    assert not is_over(date(2026, 11, 1), END - timedelta(seconds=1))
    assert min(RANKS, key=lambda state: RANKS[state]) == Promise.BROKEN


def test_the_budget_line_falls_where_requests_failed_and_ends_at_the_figure_of_the_table() -> None:
    steps = {
        at(2, 9): Traffic(50_000),
        at(9, 13): Traffic(10_000, 0, 30),
        at(20): Traffic(40_000, 1_000, 20),
    }
    line = budget_line(AVAILABLE, steps, start=START, end=END)
    total = attain(AVAILABLE, sum(steps.values(), Traffic()))
    # 99,000 valid requests may fail 99 times, 50 did.
    assert total.budget_left_share == pytest.approx(49 / 99)
    assert line.points[0] == (START, 1.0)
    assert line.points[-1] == (END, total.budget_left_share)
    assert dict(line.points)[at(9, 14)] == pytest.approx(1 - 30 / 99)
    shares = [share for _, share in line.points]
    assert shares == sorted(shares, reverse=True)
    assert [moment for moment, _ in line.points] == sorted(moment for moment, _ in line.points)


def test_a_budget_line_of_nothing_is_empty_and_one_of_no_budget_falls_at_once() -> None:
    assert budget_line(AVAILABLE, {}, start=START, end=END).points == ()
    callers = {at(1): Traffic(10, 10)}
    assert budget_line(AVAILABLE, callers, start=START, end=END).points == ()
    strict = Objective("availability", 100.0, None)
    failed = budget_line(strict, {at(1): Traffic(10, 0, 1)}, start=START, end=END)
    assert failed.points[-1] == (END, -1.0)


def test_latency_lines_follow_the_slow_ones() -> None:
    fast = Objective("latency", 99.0, None, 80.0)
    steps = {
        at(3): Traffic(1_000, latency=Histogram((40.0, 80.0), (900, 100, 0))),
        at(4): Traffic(1_000, latency=Histogram((40.0, 80.0), (980, 10, 10))),
    }
    line = budget_line(fast, steps, start=START, end=END)
    assert line.points[-1][1] == pytest.approx(0.5)
    assert line.points[1] == (at(4), 1.0)


@pytest.mark.parametrize(
    ("expires", "revoked", "state"),
    [(1, None, "open"), (0, None, "expired"), (-1, None, "expired"), (1, -5, "revoked")],
)
def test_a_link_is_open_until_it_expires_or_is_revoked(
    expires: int, revoked: int | None, state: str
) -> None:
    when = None if revoked is None else END + timedelta(hours=revoked)
    told = share_state(now=END, expires_at=END + timedelta(hours=expires), revoked_at=when)
    assert told == state


def test_a_report_is_due_once_the_last_minutes_are_booked_for_whoever_asked_before() -> None:
    assert month_to_report(END + timedelta(minutes=29)) is None
    assert month_to_report(END + timedelta(minutes=30)) == date(2026, 11, 1)
    assert month_to_report(datetime(2026, 12, 24, tzinfo=UTC)) == date(2026, 11, 1)
    assert is_due(since=at(30, 23), now=END + timedelta(hours=1))
    assert not is_due(since=END, now=END + timedelta(hours=1))


def test_marks_that_lie_close_are_one_and_stay_within_the_drawing() -> None:
    line = budget_line(AVAILABLE, {at(9): Traffic(1_000, 0, 5)}, start=START, end=END)
    changes = [(at(9, hour), "neutral") for hour in range(3)]
    drawing = budget_drawing(
        [line],
        span=Span(START, END),
        now=END,
        width=1000,
        height=250,
        changes=[(START, "info"), *changes, (at(9, 4), "bad"), (END, "ok")],
        incidents=[Span(at(9), at(9, 2))],
    )
    assert [(mark.label, mark.tone) for mark in drawing.marks] == [
        ("1", "info"),
        ("2–5", "bad"),
        ("6", "ok"),
    ]
    assert all(float(mark.x) - float(mark.half) >= 38 for mark in drawing.marks)
    assert all(float(mark.x) + float(mark.half) <= 990 for mark in drawing.marks)
    # Overspent four times over: drawn down to minus itself, and labelled so.
    assert drawing.ticks_y[-1].label == "-100"
    assert float(drawing.lines[0].end_y) == float(drawing.bottom)
    assert drawing.now == ""


def test_a_trend_has_a_bar_for_each_month_that_had_requests() -> None:
    drawing = trend_drawing(
        [
            (date(2026, 9, 1), Promise.NO_DATA, None),
            (date(2026, 10, 1), Promise.KEPT, 0.8),
            (date(2026, 11, 1), Promise.BROKEN, -0.2),
        ],
        width=420,
        height=200,
    )
    none, kept, broken = drawing.bars
    assert (none.share, kept.percent, broken.percent) == (None, "80", "-20")
    assert float(kept.y) + float(kept.height) == pytest.approx(float(drawing.zero), abs=0.2)
    assert float(broken.y) == pytest.approx(float(drawing.zero), abs=0.2)


def test_figures_are_rounded_so_that_a_miss_never_reads_as_its_target() -> None:
    assert reached(99.83043662568885, 99.9) == "99.83 %"
    assert reached(99.8999, 99.9) == "99.8999 %"
    assert reached(99.89999999, 99.9) == "99.89999999 %"
    assert reached(99.9, 99.9) == "99.90 %"
    assert reached(99.99999, 99.9) == "99.999990 %"
    assert reached(100.0, 99.9) == "100.00 %"
    assert reached(None, 99.9) == "no requests"


def test_a_budget_says_its_unit_and_what_was_overspent() -> None:
    assert requests_left(39.18, 48.2) == "39 of 48 requests may still be bad"
    assert requests_left(1, 1) == "1 of 1 request may still be bad"
    assert requests_left(-18, 5) == "overspent by 18 requests (5 may be bad)"
    assert requests_left(-0.2, 0.8) == "overspent by 1 request (0 may be bad)"
    assert minutes_left(40.32, 40.32) == "40.3 of 40.3 minutes may still be bad"
    assert minutes_left(-0.01, 40.32) == "overspent by 0.1 minutes (40.3 may be bad)"
    assert share_left(-3.93) == "overspent by 393 %"
    assert (share_left(0.999), share_left(-0.0001), share_left(None)) == (
        "99 %",
        "overspent by 1 %",
        "—",
    )
