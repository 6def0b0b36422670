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


@dataclass
class Column:
    """One output while it is being measured, over all samples."""

    spec: TensorSpec
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
        )


def add(
    column: Column, ours: Array, theirs: Array, group: Group, batch: str | None, within: Tolerance
) -> None:
    """Measure one group's answers; `theirs` is the reference.

    Arrays of different shapes count as different in every element.
    """
    axis = (
        column.spec.dims.index(batch) if batch is not None and batch in column.spec.dims else None
    )
    if ours.shape != theirs.shape:
        column.different += max(1, int(ours.size))
        column.errors += [0.0] * len(group.samples)
        return
    error = _measure(column, ours, theirs, within)
    if axis is None or not error.size:
        top = float(error.max()) if error.size else 0.0
        column.errors += [top] * len(group.samples)
    else:
        rows = np.moveaxis(error, axis, 0).reshape(len(group.samples), -1)
        column.errors += [float(value) for value in rows.max(axis=1, initial=0.0)]
    _watch(column, ours, axis)


def _measure(column: Column, ours: Array, theirs: Array, within: Tolerance) -> Array:
    """Absolute error per element; 0 where both are equally not finite."""
    if column.spec.dtype not in tensors.FLOATS:
        unequal = np.asarray(ours != theirs)
        column.different += int(unequal.sum())
        column.count += int(unequal.size)
        if column.spec.dtype in tensors.INTEGERS:
            error = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
            column.sum_abs += float(error.sum())
            return error
        column.sum_abs += float(unequal.sum())
        return unequal.astype(np.float64)
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
        column.ratio = max(column.ratio, float((error / (within.atol + within.rtol * size)).max()))
        relative = np.divide(error, size, out=np.zeros_like(error), where=size > within.atol)
        column.max_rel = max(column.max_rel, float(relative.max()))
    return error


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


def _equal(one: Array, other: Array) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def reference_of(archive: Mapping[str, Any], group: int, outputs: int) -> Sequence[Array] | None:
    """The reference's outputs for one group; None when it has another number of outputs."""
    keys = [f"{group}/{index}" for index in range(outputs)]
    if any(key not in archive for key in keys) or f"{group}/{outputs}" in archive:
        return None
    return [archive[key] for key in keys]
