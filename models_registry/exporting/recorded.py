"""Inputs from a recorded sample: its own rows, and rows near them that stay within the ranges.

What callers really send has structure that values drawn from a range have not: token numbers that
follow each other, categories that occur together, images that are no noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from models_registry.exporting import sampling
from models_registry.exporting.protocol import TensorSpec
from models_registry.exporting.sampling import Array, Feeds, Group
from models_registry.rules import tensors

MOST_ROWS: Final = 64
VARIATIONS: Final = 24
_SPREAD: Final = 0.05
_PIXEL_STEP: Final = 3
# Keeps these generators apart from those of (seed, sample number).
_STREAM: Final = 0x5A


def groups(
    specs: Sequence[TensorSpec],
    sample: Feeds,
    *,
    batch: str | None,
    start: int,
    seed: int,
    batches: Sequence[int],
) -> Iterator[Group]:
    """The sample's rows (at most 64) as they are, then variations of them; numbered from `start`.

    A variation takes a row by chance, the same for all inputs: whole numbers and text stay as they
    are, floating point moves by a twentieth of the sample's spread and is brought into min and
    max, pixels (UINT8 with three axes or more) by up to 3. With one row and nothing that can move
    there are none.
    """
    axes = sampling.batch_axes(specs, batch)
    rows = min((sample[name].shape[axis] for name, axis in axes.items()), default=1)
    number = start
    for chunk in _chunks(list(range(min(rows, MOST_ROWS))), max(batches) if axes else 1):
        feeds = {name: _rows(value, chunk, axes.get(name)) for name, value in sample.items()}
        numbers = tuple(range(number, number + len(chunk)))
        yield Group(numbers, feeds, _sizes(specs, feeds), "recorded")
        number += len(chunk)
    if rows == 1 and not any(_moves(spec) for spec in specs):
        return
    for numbers in _turns(number, VARIATIONS, batches if axes else (1,)):
        parts = [_variation(specs, sample, axes, rows, (seed, _STREAM, one)) for one in numbers]
        shared = {spec.name: parts[0][spec.name] for spec in specs if spec.name not in axes}
        feeds = sampling.together([part | shared for part in parts], axes)
        yield Group(numbers, feeds, _sizes(specs, feeds), "varied")


def _turns(start: int, count: int, batches: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """`count` numbers in groups of the batch sizes in turn."""
    end, turn = start + count, 0
    while start < end:
        size = min(batches[turn % len(batches)], end - start)
        yield tuple(range(start, start + size))
        start, turn = start + size, turn + 1


def _chunks(rows: list[int], size: int) -> Iterator[list[int]]:
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def _rows(value: Array, rows: Sequence[int], axis: int | None) -> Array:
    return value if axis is None else np.take(value, rows, axis=axis)


def _moves(spec: TensorSpec) -> bool:
    return spec.dtype in tensors.FLOATS or _is_pixels(spec)


def _is_pixels(spec: TensorSpec) -> bool:
    return spec.dtype == "UINT8" and len(spec.shape) >= 3


def _variation(
    specs: Sequence[TensorSpec],
    sample: Feeds,
    axes: Mapping[str, int],
    rows: int,
    seed: tuple[int, ...],
) -> Feeds:
    rng = np.random.default_rng(list(seed))
    row = [int(rng.integers(0, rows))]
    return {
        spec.name: _moved(
            spec, _rows(sample[spec.name], row, axes.get(spec.name)), sample[spec.name], rng
        )
        for spec in specs
    }


def _moved(spec: TensorSpec, value: Array, whole: Array, rng: np.random.Generator) -> Array:
    if _is_pixels(spec):
        step = rng.integers(-_PIXEL_STEP, _PIXEL_STEP, size=value.shape, endpoint=True)
        low, high = spec.minimum or 0, 255 if spec.maximum is None else spec.maximum
        pixels: Array = np.clip(value.astype(np.int16) + step, low, high).astype(np.uint8)
        return pixels
    if spec.dtype not in tensors.FLOATS:
        return value
    known = whole[np.isfinite(whole)].astype(np.float64)
    spread = float(known.std()) if known.size > 1 else 0.0
    spread = spread or (float(np.abs(known).mean()) if known.size else 0.0) or 1.0
    moved = value.astype(np.float64) + rng.normal(0.0, _SPREAD * spread, size=value.shape)
    if spec.minimum is not None or spec.maximum is not None:
        moved = np.clip(moved, spec.minimum, spec.maximum)
    result: Array = moved.astype(value.dtype)
    return result


def _sizes(specs: Sequence[TensorSpec], feeds: Feeds) -> dict[str, int]:
    """The size of each free axis, by name."""
    return {
        name: int(size)
        for spec in specs
        for name, size in zip(spec.dims, feeds[spec.name].shape, strict=True)
        if name
    }
