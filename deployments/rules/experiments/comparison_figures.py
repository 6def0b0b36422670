"""What was found by comparing two versions' answers, added up and kept as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.rules.statistics.histograms import Histogram, empty, merge

DIFFERENCE_BOUNDS = (0.0, *(10.0**power for power in range(-8, 4)))
"""Upper bounds of the absolute differences that are counted; the first holds the equal ones."""


@dataclass(frozen=True, slots=True)
class OutputFigures:
    """One output over some requests; rows, differences of numbers, and values of either side."""

    rows: int = 0
    differing_rows: int = 0
    max_difference: float | None = None
    differences: Histogram = field(default_factory=lambda: empty(DIFFERENCE_BOUNDS))
    baseline_values: Histogram | None = None
    candidate_values: Histogram | None = None
    baseline_faults: Mapping[str, int] = field(default_factory=dict)
    candidate_faults: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: OutputFigures) -> OutputFigures:
        return OutputFigures(
            self.rows + other.rows,
            self.differing_rows + other.differing_rows,
            largest(self.max_difference, other.max_difference),
            merge(self.differences, other.differences),
            _merged(self.baseline_values, other.baseline_values),
            _merged(self.candidate_values, other.candidate_values),
            _added(self.baseline_faults, other.baseline_faults),
            _added(self.candidate_faults, other.candidate_faults),
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Requests that were sampled, and those that both versions answered, and how they differed.

    A side's faults are requests, each counted once whatever is wrong with its answer; the kinds
    stand by output, and those of no output (errors, time-outs) under "".
    """

    sampled: int = 0
    compared: int = 0
    differing: int = 0
    baseline_faults: int = 0
    candidate_faults: int = 0
    max_difference: float | None = None
    outputs: Mapping[str, OutputFigures] = field(default_factory=dict)

    def __add__(self, other: Figures) -> Figures:
        names = [*self.outputs, *(name for name in other.outputs if name not in self.outputs)]
        return Figures(
            self.sampled + other.sampled,
            self.compared + other.compared,
            self.differing + other.differing,
            self.baseline_faults + other.baseline_faults,
            self.candidate_faults + other.candidate_faults,
            largest(self.max_difference, other.max_difference),
            {
                name: self.outputs.get(name, OutputFigures())
                + other.outputs.get(name, OutputFigures())
                for name in names
            },
        )


def largest(*values: float | None) -> float | None:
    """The largest of the values that are known."""
    return max((value for value in values if value is not None), default=None)


def _added(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def _merged(left: Histogram | None, right: Histogram | None) -> Histogram | None:
    if left is None or right is None:
        return left or right
    # The contract's range changed in between: its newer bounds hold from there on.
    return merge(left, right) if left.bounds == right.bounds else right


def to_json(outputs: Mapping[str, OutputFigures]) -> dict[str, Any]:
    """Outputs' figures as they are stored; histograms as counts by bucket, without the empty."""
    return {
        name: {
            "rows": one.rows,
            "differing_rows": one.differing_rows,
            "max_difference": one.max_difference,
            "differences": _sparse(one.differences),
            "baseline_values": _stored(one.baseline_values),
            "candidate_values": _stored(one.candidate_values),
            "baseline_faults": dict(one.baseline_faults),
            "candidate_faults": dict(one.candidate_faults),
        }
        for name, one in outputs.items()
    }


def from_json(stored: Mapping[str, Any]) -> dict[str, OutputFigures]:
    """What `to_json` wrote."""
    return {
        name: OutputFigures(
            one["rows"],
            one["differing_rows"],
            one["max_difference"],
            _dense(DIFFERENCE_BOUNDS, one["differences"]),
            _restored(one["baseline_values"]),
            _restored(one["candidate_values"]),
            one["baseline_faults"],
            one["candidate_faults"],
        )
        for name, one in stored.items()
    }


def _sparse(histogram: Histogram) -> dict[str, int]:
    return {str(index): count for index, count in enumerate(histogram.counts) if count}


def _dense(bounds: tuple[float, ...], counts: Mapping[str, int]) -> Histogram:
    return Histogram(bounds, tuple(counts.get(str(i), 0) for i in range(len(bounds) + 1)))


def _stored(histogram: Histogram | None) -> list[Any] | None:
    return None if histogram is None else [list(histogram.bounds), _sparse(histogram)]


def _restored(stored: Sequence[Any] | None) -> Histogram | None:
    return None if stored is None else _dense(tuple(stored[0]), stored[1])
