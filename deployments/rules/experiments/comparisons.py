"""Two versions' answers to one request: how far they differ, and what breaks the contract.

A row (an element of the batch) differs when any of its values does: two numbers do beyond
`atol + rtol * |baseline|`, as at validation; texts, truth values and whole numbers unless equal.
A value that is NaN on both sides is no difference (it is a fault of both, unless it is allowed).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from deployments.rules.experiments.comparison_figures import (
    DIFFERENCE_BOUNDS,
    Figures,
    OutputFigures,
    largest,
)
from deployments.rules.experiments.v2_answers import TensorAnswer, Values
from deployments.rules.statistics.histograms import Histogram

OUTPUT_BINS = 20
_MAGNITUDES = tuple(10.0**power for power in range(-3, 7))
WIDE_BOUNDS = (*(-one for one in reversed(_MAGNITUDES)), 0.0, *_MAGNITUDES)
"""Bounds of an output's values where the contract says no range."""


class FaultKind(StrEnum):
    """What a version did that its contract does not allow."""

    NAN = "nan"
    INFINITE = "infinite"
    RANGE = "range"
    SHAPE = "shape"
    DATATYPE = "datatype"
    MISSING = "missing"
    ERROR = "error"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class OutputRule:
    """What the contract says of one output; `dims` holds a name where a length varies."""

    name: str
    datatype: str
    dims: tuple[str | int, ...]
    minimum: float | None = None
    maximum: float | None = None
    nan_allowed: bool = False

    @property
    def value_bounds(self) -> tuple[float, ...]:
        """Bounds of the histogram of this output's values."""
        if self.minimum is None or self.maximum is None or self.minimum >= self.maximum:
            return WIDE_BOUNDS
        edges = np.linspace(self.minimum, self.maximum, OUTPUT_BINS + 1)
        return tuple(float(f"{edge:.9g}") for edge in edges)


@dataclass(frozen=True, slots=True)
class Tolerance:
    atol: float = 1e-5
    rtol: float = 1e-4


@dataclass(frozen=True, slots=True)
class Answered:
    """What one version said: its outputs, or the kind of its fault.

    `refused`: it blamed the caller (4xx), which is a fault only if the other version did not.
    """

    outputs: Mapping[str, TensorAnswer] = field(default_factory=dict)
    fault: FaultKind | None = None
    refused: bool = False


def compare(
    baseline: Answered, candidate: Answered, rules: Sequence[OutputRule], tolerance: Tolerance
) -> Figures:
    """The figures of one sampled request.

    Without `rules` (no contract holds) the outputs that the baseline gave are compared, and
    nothing is a fault but an error, a late answer, or a number that is none.
    """
    if baseline.refused and candidate.refused:
        return Figures(sampled=1)
    sides = [_outcome(baseline, candidate.refused), _outcome(candidate, baseline.refused)]
    known = list(rules) or _rules_of(baseline, candidate)
    faults = [_faults(side, known) for side in sides]
    outputs = {"": _lost(sides)} if any(side.fault for side in sides) else {}
    both = not any(side.fault for side in sides)
    rows = np.zeros(0, dtype=bool)
    for rule in known:
        figures = _values(rule, sides, faults)
        if both:
            compared, differing = _compared(rule, sides, tolerance)
            rows = _or(rows, differing)
            figures += compared
        outputs[rule.name] = figures
    found = [one.max_difference for one in outputs.values()]
    return Figures(
        sampled=1,
        compared=int(both),
        differing=int(both and bool(rows.any())),
        baseline_faults=int(bool(sides[0].fault or faults[0])),
        candidate_faults=int(bool(sides[1].fault or faults[1])),
        max_difference=largest(*found) if found else None,
        outputs=outputs,
    )


def _outcome(side: Answered, other_refused: bool) -> Answered:
    """A refusal is the version's fault where the other version took the same request."""
    if side.refused and not other_refused:
        return Answered(fault=FaultKind.ERROR)
    return side


def _rules_of(*sides: Answered) -> list[OutputRule]:
    outputs = next((side.outputs for side in sides if side.outputs), {})
    return [
        OutputRule(name, one.datatype, tuple(f"d{axis}" for axis in range(one.values.ndim)))
        for name, one in outputs.items()
    ]


def _faults(side: Answered, rules: Iterable[OutputRule]) -> dict[str, list[FaultKind]]:
    """Each output's faults, by its name."""
    if side.fault:
        return {}
    found = {rule.name: check_output(side.outputs.get(rule.name), rule) for rule in rules}
    return {name: kinds for name, kinds in found.items() if kinds}


def check_output(answer: TensorAnswer | None, rule: OutputRule) -> list[FaultKind]:
    """What is wrong with one output, judged by the contract."""
    if answer is None:
        return [FaultKind.MISSING]
    found = []
    if answer.datatype != rule.datatype:
        found.append(FaultKind.DATATYPE)
    if not _fits(answer.values.shape, rule.dims):
        found.append(FaultKind.SHAPE)
    values = answer.values
    if not _is_number(values) or not values.size:
        return found
    if values.dtype.kind == "f":
        if not rule.nan_allowed and bool(np.isnan(values).any()):
            found.append(FaultKind.NAN)
        if bool(np.isinf(values).any()):
            found.append(FaultKind.INFINITE)
        values = values[np.isfinite(values)]
    low, high = rule.minimum, rule.maximum
    if values.size and (
        (low is not None and float(values.min()) < low)
        or (high is not None and float(values.max()) > high)
    ):
        found.append(FaultKind.RANGE)
    return found


def _fits(shape: tuple[int, ...], dims: tuple[str | int, ...]) -> bool:
    if len(shape) != len(dims):
        return False
    return all(
        isinstance(dim, str) or dim == length for dim, length in zip(dims, shape, strict=True)
    )


def _lost(sides: Sequence[Answered]) -> OutputFigures:
    counts = [{side.fault.value: 1} if side.fault else {} for side in sides]
    return OutputFigures(baseline_faults=counts[0], candidate_faults=counts[1])


def _values(
    rule: OutputRule, sides: Sequence[Answered], faults: Sequence[Mapping[str, list[FaultKind]]]
) -> OutputFigures:
    held = [_histogram(side.outputs.get(rule.name), rule.value_bounds) for side in sides]
    counts = [dict.fromkeys((kind.value for kind in one.get(rule.name, ())), 1) for one in faults]
    return OutputFigures(
        baseline_values=held[0],
        candidate_values=held[1],
        baseline_faults=counts[0],
        candidate_faults=counts[1],
    )


def _compared(
    rule: OutputRule, sides: Sequence[Answered], tolerance: Tolerance
) -> tuple[OutputFigures, Values]:
    """The differences of one output, and which rows differ."""
    left, right = (side.outputs.get(rule.name) for side in sides)
    if left is None or right is None:
        one = left or right
        rows = np.ones(_rows(one.values) if one else 1, dtype=bool)
        return OutputFigures(rows=len(rows), differing_rows=len(rows)), rows
    base, new = left.values, right.values
    if base.shape != new.shape or _is_number(base) != _is_number(new):
        rows = np.ones(_rows(base), dtype=bool)
        return OutputFigures(rows=len(rows), differing_rows=len(rows)), rows
    if not _is_number(base):
        rows = _by_row(base != new)
        return OutputFigures(rows=len(rows), differing_rows=int(rows.sum())), rows
    distance, beyond = _distances(base, new, tolerance)
    rows = _by_row(beyond)
    known = distance[np.isfinite(distance)]
    figures = OutputFigures(
        rows=len(rows),
        differing_rows=int(rows.sum()),
        max_difference=float(known.max()) if known.size else None,
        differences=count_values(distance[~np.isnan(distance)], DIFFERENCE_BOUNDS),
    )
    return figures, rows


def _distances(base: Values, new: Values, tolerance: Tolerance) -> tuple[Values, Values]:
    """Absolute differences (NaN where a side has no number), and which are beyond tolerance."""
    left, right = base.astype(np.float64), new.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(right - left)
        # Infinite and equal on both sides is no distance, although the subtraction gives NaN.
        distance[np.isinf(left) & (left == right)] = 0.0
        if base.dtype.kind == new.dtype.kind == "f":
            allowed = tolerance.atol + tolerance.rtol * np.abs(left)
            beyond = ~((distance <= allowed) | (np.isnan(left) & np.isnan(right)))
            # No tolerance reaches from a number to an infinite one.
            beyond |= np.isinf(left) != np.isinf(right)
        else:
            beyond = base != new
    return distance, beyond


def count_values(values: Values, bounds: tuple[float, ...]) -> Histogram:
    """How many values lie in each bucket; a value at a bound lies in the bucket below it."""
    places = np.searchsorted(np.asarray(bounds), values.ravel(), side="left")
    counts = np.bincount(places, minlength=len(bounds) + 1)
    return Histogram(bounds, tuple(int(count) for count in counts))


def _histogram(answer: TensorAnswer | None, bounds: tuple[float, ...]) -> Histogram | None:
    if answer is None or not _is_number(answer.values):
        return None
    values = answer.values.astype(np.float64)
    return count_values(values[~np.isnan(values)], bounds)


def _is_number(values: Values) -> bool:
    return values.dtype.kind in "fiu"


def _rows(values: Values) -> int:
    return values.shape[0] if values.ndim else 1


def _by_row(wrong: Values) -> Values:
    """Whether anything of a row is wrong; what has no batch is one row."""
    flags = np.asarray(wrong, dtype=bool)
    rows = flags.shape[0] if flags.ndim else 1
    return np.asarray(flags.reshape(rows, -1).any(axis=1) if flags.size else np.zeros(rows, bool))


def _or(left: Values, right: Values) -> Values:
    if len(left) == len(right):
        return np.logical_or(left, right)
    return np.concatenate([left, right])
