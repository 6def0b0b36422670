"""The geometry of a promise's charts: the same lines on a page, on a shared page and on paper.

Coordinates are text with a point, ready for SVG in any language.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from deployments.rules.objectives.sla_months import BudgetLine
from deployments.rules.objectives.slo import Promise
from deployments.rules.objectives.spans import Span

LEFT, RIGHT, BOTTOM = 38.0, 10.0, 22.0
LANE = 26.0
MARK_ROOM = 19.0
DAYS_LABELLED = (1, 8, 15, 22, 29)
DEEPEST = -1.0
"""An overspent budget is drawn down to minus itself; the table says how far it went."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A label on an axis; `at` is its place along the axis."""

    at: str
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """An objective's line; `slot` 1, 2 … tells lines apart."""

    name: str
    slot: int
    points: str
    end_x: str
    end_y: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time behind the lines: `kind` is incident, left_out or unobserved."""

    kind: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Mark:
    """What changed, by its number in the list; several that lie close are one mark."""

    x: str
    label: str
    tone: str
    half: str
    half_twice: str


@dataclass(frozen=True, slots=True)
class BudgetDrawing:
    width: str
    height: str
    left: str
    right: str
    top: str
    bottom: str
    plot_width: str
    plot_height: str
    zero: str
    lane: str
    now: str
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]
    lines: tuple[Line, ...]
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A month: `share` of its budget left, None without requests."""

    first: date
    state: Promise
    share: float | None
    percent: str
    x: str
    width: str
    middle: str
    y: str
    height: str
    label_y: str


@dataclass(frozen=True, slots=True)
class TrendDrawing:
    width: str
    height: str
    left: str
    right: str
    zero: str
    month_y: str
    ticks_y: tuple[Tick, ...]
    bars: tuple[Bar, ...]


def budget_drawing(
    lines: Sequence[BudgetLine],
    *,
    span: Span,
    now: datetime,
    width: float,
    height: float,
    changes: Sequence[tuple[datetime, str]] = (),
    incidents: Sequence[Span] = (),
    left_out: Sequence[Span] = (),
    unobserved: Sequence[Span] = (),
) -> BudgetDrawing:
    """How the budgets went down over a month, with what happened on the same axis of time.

    `changes` are moments with a tone, in the order of their list.
    """
    seconds = (span.end - span.start).total_seconds()
    plot_width, bottom = width - LEFT - RIGHT, height - BOTTOM
    lowest = min((share for line in lines for _, share in line.points), default=0.0)
    floor = _floor(lowest)

    def x(moment: datetime) -> float:
        part = (moment - span.start).total_seconds() / seconds
        return LEFT + plot_width * min(max(part, 0.0), 1.0)

    def y(share: float) -> float:
        return LANE + (bottom - LANE) * (1.0 - max(share, floor)) / (1.0 - floor)

    kinds = (("unobserved", unobserved), ("left_out", left_out), ("incident", incidents))
    return BudgetDrawing(
        width=_text(width),
        height=_text(height),
        left=_text(LEFT),
        right=_text(width - RIGHT),
        top=_text(LANE),
        bottom=_text(bottom),
        plot_width=_text(plot_width),
        plot_height=_text(bottom - LANE),
        zero=_text(y(0.0)),
        lane=_text(LANE / 2),
        now=_text(x(now)) if span.start <= now < span.end else "",
        ticks_x=_days(span, x),
        ticks_y=tuple(Tick(_text(y(one)), f"{one * 100:g}") for one in _steps(floor)),
        lines=tuple(
            _line(line, slot, x, y) for slot, line in enumerate(lines, start=1) if line.points
        ),
        bands=tuple(
            Band(kind, _text(x(one.start)), _text(max(x(one.end) - x(one.start), 1.5)))
            for kind, spans in kinds
            for one in spans
        ),
        marks=_marks([(x(at), tone) for at, tone in changes], LEFT, width - RIGHT),
    )


def trend_drawing(
    months: Sequence[tuple[date, Promise, float | None]], *, width: float, height: float
) -> TrendDrawing:
    """What was left of the budget in each month, as bars from zero."""
    top, bottom = 16.0, height - BOTTOM
    floor = _floor(min((share for _, _, share in months if share is not None), default=0.0))
    slot = (width - LEFT - RIGHT) / max(len(months), 1)
    bar = min(slot * 0.56, 34.0)

    def y(share: float) -> float:
        return top + (bottom - top) * (1.0 - max(share, floor)) / (1.0 - floor)

    bars = []
    for index, (first, state, share) in enumerate(months):
        middle = LEFT + slot * (index + 0.5)
        high, low = sorted((y(0.0), y(share or 0.0)))
        bars.append(
            Bar(
                first=first,
                state=state,
                share=share,
                percent=f"{(share or 0.0) * 100:.0f}",
                x=_text(middle - bar / 2),
                width=_text(bar),
                middle=_text(middle),
                y=_text(high),
                height=_text(max(low - high, 1.5)),
                label_y=_text(high - 5.0 if (share or 0.0) >= 0 else y(0.0) - 5.0),
            )
        )
    return TrendDrawing(
        width=_text(width),
        height=_text(height),
        left=_text(LEFT),
        right=_text(width - RIGHT),
        zero=_text(y(0.0)),
        month_y=_text(height - 6.0),
        ticks_y=tuple(Tick(_text(y(one)), f"{one * 100:g}") for one in _steps(floor)),
        bars=tuple(bars),
    )


def _floor(lowest: float) -> float:
    """The lower edge: zero, or below it in halves down to minus the whole budget."""
    if lowest >= 0:
        return 0.0
    return -0.5 if lowest >= -0.5 else DEEPEST


def _steps(floor: float) -> tuple[float, ...]:
    return tuple(one for one in (1.0, 0.5, 0.0, -0.5, -1.0) if one >= floor)


def _days(span: Span, x: Callable[[datetime], float]) -> tuple[Tick, ...]:
    return tuple(
        Tick(_text(x(span.start + timedelta(days=day - 1))), str(day))
        for day in DAYS_LABELLED
        if span.start + timedelta(days=day - 1) < span.end
    )


def _line(
    line: BudgetLine,
    slot: int,
    x: Callable[[datetime], float],
    y: Callable[[float], float],
) -> Line:
    points = [(x(at), y(share)) for at, share in line.points]
    return Line(
        name=line.name,
        slot=slot,
        points=" ".join(f"{_text(left)},{_text(down)}" for left, down in points),
        end_x=_text(points[-1][0]),
        end_y=_text(points[-1][1]),
    )


def _marks(changes: Sequence[tuple[float, str]], left: float, right: float) -> tuple[Mark, ...]:
    """Numbered marks that do not overlap; the worst tone of several is theirs."""
    groups: list[list[tuple[int, float, str]]] = []
    for number, (at, tone) in enumerate(changes, start=1):
        if groups and at - groups[-1][0][1] < MARK_ROOM * (1.6 if len(groups[-1]) > 1 else 1.2):
            groups[-1].append((number, at, tone))
        else:
            groups.append([(number, at, tone)])
    marks = []
    for group in groups:
        first, last = group[0][0], group[-1][0]
        label = str(first) if first == last else f"{first}–{last}"
        half = max(8.0, 4.5 + 2.9 * len(label))
        at = min(max(sum(one[1] for one in group) / len(group), left + half), right - half)
        tone = min((one[2] for one in group), key=_order)
        marks.append(Mark(_text(at), label, tone, _text(half), _text(2 * half)))
    return tuple(marks)


def _order(tone: str) -> int:
    order = ("bad", "warn", "info", "ok", "neutral")
    return order.index(tone) if tone in order else len(order)


def _text(number: float) -> str:
    return f"{number:.1f}"
