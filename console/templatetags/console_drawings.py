"""The arithmetic of the small server-drawn pictures: sparklines and stacked bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

SPARK_WIDTH: Final = 100.0
SPARK_HEIGHT: Final = 24.0
SPARK_PAD: Final = 1.5


@dataclass(slots=True)
class Segment:
    """One version's part of a stacked bar; `start` and `width` in percent of the bar."""

    number: Any
    percent: float
    start: str
    width: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Spark:
    """`lines`: SVG points, one list for each run without a gap; the rest in the unit."""

    lines: tuple[str, ...]
    last: float | None
    low: float | None
    high: float | None
    width: float = SPARK_WIDTH
    height: float = SPARK_HEIGHT


def segments(weights: Mapping[Any, float] | Iterable[tuple[Any, float]]) -> list[Segment]:
    """Parts of a bar in the order given, without those of no weight.

    Widths are shares of the sum, so that a bar is full even when the weights are not percent.
    """
    pairs = list(weights.items()) if isinstance(weights, Mapping) else list(weights)
    shown = [(number, float(percent)) for number, percent in pairs if float(percent) > 0]
    total = sum(percent for _, percent in shown)
    parts: list[Segment] = []
    start = 0.0
    for number, percent in shown:
        width = 100 * percent / total
        parts.append(Segment(number, percent, f"{start:.3f}", f"{width:.3f}"))
        start += width
    return parts


def spark(values: Sequence[float | None]) -> Spark:
    """Points of a zero-based line over the whole width; None breaks the line."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return Spark((), None, None, None)
    low, high = min(0.0, *known), max(0.0, *known)
    reach = (high - low) or 1.0
    step = SPARK_WIDTH / max(1, len(values) - 1)
    room = SPARK_HEIGHT - 2 * SPARK_PAD
    runs: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
            continue
        y = SPARK_PAD + room * (high - float(value)) / reach
        runs[-1].append(f"{index * step:.1f},{y:.1f}")
    lines = tuple(" ".join(run) for run in runs if run)
    return Spark(lines, known[-1], min(known), max(known))
