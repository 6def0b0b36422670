"""Measure how far the exported model's answers are from the source's, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from models_registry.exporting.protocol import TensorSpec
from models_registry.exporting.sampling import Array, Group
from models_registry.rules import tensors
from models_registry.rules.equivalence import OutputDifference, Tolerance


@dataclass(frozen=True, slots=True)
class Worst:
    """The sample to look at first: where its answer lies, and the element that is furthest away.

    `group` and `row` find the answer (row 0 where the output has no batch axis); `index` is the
    element's place in it, without the batch, None when the shapes differ.
    """

    sample: int
    group: int
    row: int
    badness: tuple[bool, float]
    index: tuple[int, ...] | None = None
    ours: Any = None
    theirs: Any = None


@dataclass
class Column:
    """One output while it is being measured, over all samples.

    `low_sum` and `high_sum` are of the values along the last axis, where there is one beside the
    batch with more than one value.
    """

    spec: TensorSpec
    within: Tolerance
    errors: list[float] = field(default_factory=list)
    max_rel: float = 0.0
    ratio: float = 0.0
    different: int = 0
    sum_abs: float = 0.0
    count: int = 0
    nan: int = 0
    infinite: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    above: int = 0
    below: int = 0
    first: Array | None = None
    varies: bool = False
    low_sum: float = float("inf")
    high_sum: float = float("-inf")
    worst: Worst | None = None

    def difference(self) -> OutputDifference:
        """The finished measurement."""
        return OutputDifference(
            self.spec.name,
            self.spec.dtype,
            tuple(self.errors),
            self.max_rel,
            self.sum_abs / self.count if self.count else 0.0,
            self.ratio,
            self.different,
            0 if self.spec.dtype in tensors.FLOATS else int(self.within.share * self.count),
            self.worst.sample if self.worst else None,
        )

    @property
    def sums(self) -> tuple[float, float] | None:
        """The smallest and the largest sum along the last axis; None where nothing was added."""
        return (self.low_sum, self.high_sum) if self.high_sum >= self.low_sum else None


def add(
    column: Column, ours: Array, theirs: Array, group: Group, number: int, batch: str | None
) -> None:
    """Measure the answers to group `number`; `theirs` is the reference.

    Arrays of different shapes count as different in every element.
    """
    axis = (
        column.spec.dims.index(batch) if batch is not None and batch in column.spec.dims else None
    )
    if ours.shape != theirs.shape:
        column.different += max(1, int(ours.size))
        column.errors += [0.0] * len(group.samples)
        _remember(column, Worst(group.samples[0], number, 0, (True, float("inf"))))
        return
    error, unlike = _measure(column, ours, theirs)
    if axis is None or not error.size:
        top = float(error.max()) if error.size else 0.0
        column.errors += [top] * len(group.samples)
    else:
        rows = np.moveaxis(error, axis, 0).reshape(len(group.samples), -1)
        column.errors += [float(value) for value in rows.max(axis=1, initial=0.0)]
    if error.size:
        _look(column, ours, theirs, error, unlike, group, number, axis)
    _watch(column, ours, axis)


def _look(
    column: Column,
    ours: Array,
    theirs: Array,
    error: Array,
    unlike: Array,
    group: Group,
    number: int,
    axis: int | None,
) -> None:
    """Remember the element that is furthest away: first those that are no numbers in one only."""
    bad = bool(unlike.any())
    seen = np.where(unlike, error + 1.0, 0.0) if bad else error
    place = np.unravel_index(int(seen.argmax()), error.shape)
    row = int(place[axis]) if axis is not None else 0
    badness = (bad, float(error[place]))
    if column.worst is None or badness > column.worst.badness:
        index = tuple(int(one) for at, one in enumerate(place) if at != axis)
        values = ours[place], theirs[place]
        _remember(column, Worst(group.samples[row], number, row, badness, index, *values))


def _remember(column: Column, found: Worst) -> None:
    if column.worst is None or found.badness > column.worst.badness:
        column.worst = found


def _measure(column: Column, ours: Array, theirs: Array) -> tuple[Array, Array]:
    """Absolute error per element, 0 where both are equally not finite; and which are unlike:
    not finite in one only, or unequal where exact."""
    within = column.within
    if column.spec.dtype not in tensors.FLOATS:
        unequal = np.asarray(ours != theirs)
        column.different += int(unequal.sum())
        column.count += int(unequal.size)
        if column.spec.dtype in tensors.INTEGERS:
            error = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            column.sum_abs += float(error.sum())
            return error, unequal
        column.sum_abs += float(unequal.sum())
        return unequal.astype(np.float64), unequal
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    same = finite | (a == b) | (np.isnan(a) & np.isnan(b))
    column.different += int((~same).sum())
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(finite, np.abs(a - b), 0.0)
        size = np.where(finite, np.abs(b), 0.0)
    column.sum_abs += float(error.sum())
    column.count += int(error.size)
    if error.size:
        allowed = within.atol + within.rtol * size
        with np.errstate(divide="ignore"):
            ratio = np.divide(error, allowed, out=np.zeros_like(error), where=error > 0)
        column.ratio = max(column.ratio, float(ratio.max()))
        relative = np.divide(error, size, out=np.zeros_like(error), where=size > within.atol)
        column.max_rel = max(column.max_rel, float(relative.max()))
    return error, ~same


def _watch(column: Column, ours: Array, axis: int | None) -> None:
    """What the answers look like: range, values that are no numbers, whether they ever change."""
    if column.first is None and ours.size:
        column.first = np.take(ours, [0], axis=axis) if axis is not None else ours
    if column.first is not None and not column.varies:
        rows = np.split(ours, ours.shape[axis], axis=axis) if axis is not None else [ours]
        column.varies = any(
            row.shape != column.first.shape or not _equal(row, column.first) for row in rows
        )
    if column.spec.dtype == "BYTES" or not ours.size:
        return
    values = ours.astype(np.float64)
    column.nan += int(np.isnan(values).sum())
    column.infinite += int(np.isinf(values).sum())
    finite = values[np.isfinite(values)]
    if finite.size:
        column.low = min(column.low, float(finite.min()))
        column.high = max(column.high, float(finite.max()))
    if column.spec.maximum is not None:
        column.above += int((finite > column.spec.maximum).sum())
    if column.spec.minimum is not None:
        column.below += int((finite < column.spec.minimum).sum())
    last = values.ndim - 1
    if column.spec.dtype in tensors.FLOATS and last >= 0 and last != axis and values.shape[-1] > 1:
        sums = values.sum(axis=-1)
        sums = sums[np.isfinite(sums)]
        if sums.size:
            column.low_sum = min(column.low_sum, float(sums.min()))
            column.high_sum = max(column.high_sum, float(sums.max()))


def largest(archive: Mapping[str, Any], output: int) -> float:
    """The largest finite magnitude that the source gave for output `output`, over all groups."""
    found, group = 0.0, 0
    while (key := f"{group}/{output}") in archive:
        values = archive[key]
        if values.dtype.kind == "f" and values.size:
            finite = np.abs(values[np.isfinite(values)].astype(np.float64))
            found = max(found, float(finite.max(initial=0.0)))
        group += 1
    return found


def _equal(one: Array, other: Array) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def reference_of(archive: Mapping[str, Any], group: int, outputs: int) -> Sequence[Array] | None:
    """The reference's outputs for one group; None when it has another number of outputs."""
    keys = [f"{group}/{index}" for index in range(outputs)]
    if any(key not in archive for key in keys) or f"{group}/{outputs}" in archive:
        return None
    return [archive[key] for key in keys]
