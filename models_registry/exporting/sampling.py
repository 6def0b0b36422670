"""Inputs to run a model with: drawn from a seed, the same on every machine and in every program.

Each sample has a generator of its own, seeded with (seed, index), so that a sample does not depend
on how samples are put together into batches (numpy, "Parallel random number generation").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from models_registry.exporting.protocol import TensorSpec
from models_registry.rules import tensors

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
# Values worth drawing, by input: [low, high], where each may be a list with one for each column of
# the last axis, and a third number is the share that may be missing (NaN); or {"choices": [...]}.
Ranges = Mapping[str, Any]

DEFAULT_SIZE: Final = 8
_MISSING_EVERY: Final = 4
# Upper ends tried for integers without a range: token numbers, small categories, flags.
INTEGER_ENDS: Final = (99, 9, 1)
_WORDS: Final = ("alpha", "Bravo", "ÅNGSTRÖM", "日本", "", "x y", "42", "tab\tbed")


@dataclass(frozen=True, slots=True)
class Group:
    """Samples that go through the model together.

    `feeds` have the batch axis, where there is one, at len(samples); otherwise one sample.
    `origin`: drawn from the ranges, recorded, or varied from what was recorded.
    """

    samples: tuple[int, ...]
    feeds: Feeds
    sizes: dict[str, int]
    origin: str = "ranges"


def draw(
    spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator, ranges: Ranges
) -> Array:
    """One tensor, never constant where it has more than one element.

    Floats are standard normal, or uniform between the given bounds; integers uniform, bounds
    included; text from a short list with spaces, non-ASCII letters and the empty string.
    """
    numpy_name = tensors.DTYPES[spec.dtype][0]
    known = ranges.get(spec.name)
    if isinstance(known, Mapping) and spec.minimum is None and spec.maximum is None:
        choices = np.array(known["choices"], dtype=object if spec.dtype == "BYTES" else numpy_name)
        return choices[rng.integers(0, len(choices), size=shape)]
    if spec.dtype == "BYTES":
        return np.array(_WORDS, dtype=object)[rng.integers(0, len(_WORDS), size=shape)]
    if spec.dtype == "BOOL":
        return rng.integers(0, 2, size=shape).astype(bool)
    low, high = _bounds(spec, ranges)
    if spec.dtype in tensors.INTEGERS:
        return rng.integers(int(low), int(high), size=shape, endpoint=True).astype(numpy_name)
    if spec.minimum is None and spec.maximum is None and spec.name not in ranges:
        return rng.standard_normal(shape).astype(numpy_name)
    return rng.uniform(low, high, size=shape).astype(numpy_name)


def with_missing(value: Array, rng: np.random.Generator, share: float) -> Array:
    """The same floats with about that share of them missing (NaN)."""
    return np.where(rng.random(value.shape) < share, value.dtype.type(np.nan), value)


def _bounds(spec: TensorSpec, ranges: Ranges) -> tuple[Any, Any]:
    """Low and high; each a number, or one number for each column of the last axis."""
    known = ranges.get(spec.name)
    if isinstance(known, Sequence):
        low, high = (_columns(end, spec) for end in known[:2])
    else:
        low, high = _default_bounds(spec)
    if isinstance(low, np.ndarray):
        low = low if spec.minimum is None else np.full_like(low, spec.minimum)
        high = high if spec.maximum is None else np.full_like(high, spec.maximum)
        return np.minimum(low, high), np.maximum(low, high)
    if spec.minimum is not None:
        low = spec.minimum
        high = (
            max(high, low + (1 if spec.dtype in tensors.INTEGERS else 2.0))
            if spec.maximum is None
            else high
        )
    if spec.maximum is not None:
        high = spec.maximum
        low = min(low, high - 2.0) if spec.minimum is None else low
    return low, high


def _columns(end: Any, spec: TensorSpec) -> Any:
    """A bound as it is, or an array of one for each column where that fits the tensor."""
    if not isinstance(end, Sequence):
        return end
    return np.asarray(end) if spec.shape and spec.shape[-1] == len(end) else float(end[0])


def _default_bounds(spec: TensorSpec) -> tuple[float, float]:
    if spec.dtype == "UINT8":
        return 0, 255  # almost always an image
    return (0, INTEGER_ENDS[-1]) if spec.dtype in tensors.INTEGERS else (-1.0, 1.0)


def feeds_for(
    specs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: Sequence[int], ranges: Ranges
) -> Feeds:
    """One set of inputs with the free axes at `sizes`."""
    rng = np.random.default_rng(list(seed))
    feeds = {spec.name: draw(spec, tensors.concrete(spec, sizes), rng, ranges) for spec in specs}
    if seed[-1] % _MISSING_EVERY == _MISSING_EVERY - 1:  # never the first, which is the example
        for spec in specs:
            known = ranges.get(spec.name)
            if isinstance(known, Sequence) and len(known) > 2 and spec.dtype in tensors.FLOATS:
                feeds[spec.name] = with_missing(feeds[spec.name], rng, float(known[2]))
    return feeds


def batch_axes(specs: Sequence[TensorSpec], batch: str | None) -> dict[str, int]:
    """For each tensor that has the batch axis, which axis it is."""
    if batch is None:
        return {}
    return {spec.name: spec.dims.index(batch) for spec in specs if batch in spec.dims}


def together(parts: Sequence[Feeds], axes: Mapping[str, int]) -> Feeds:
    """Samples side by side along their batch axis; tensors without one come from the first."""
    first = parts[0]
    return {
        name: np.concatenate([part[name] for part in parts], axis=axes[name])
        if name in axes
        else value
        for name, value in first.items()
    }


def groups(
    specs: Sequence[TensorSpec],
    *,
    batch: str | None,
    sizes: Mapping[str, Sequence[int]],
    ranges: Ranges,
    samples: int,
    seed: int,
    batches: Sequence[int],
) -> Iterator[Group]:
    """All samples, in groups of the batch sizes in turn; other free axes take their sizes in turn.

    `sizes` are the sizes known to run, by axis name. Without a batch axis each group is one sample.
    """
    axes = batch_axes(specs, batch)
    shared = [spec for spec in specs if spec.name not in axes]
    start, turn = 0, 0
    while start < samples:
        count = min(batches[turn % len(batches)] if batch is not None else 1, samples - start)
        here = {
            name: known[turn % len(known)]
            for name, known in sizes.items()
            if known and name != batch
        }
        one = here | ({batch: 1} if batch is not None else {})
        numbers = tuple(range(start, start + count))
        parts = [feeds_for(specs, one, (seed, number), ranges) for number in numbers]
        if shared and count > 1:
            parts = [part | {spec.name: parts[0][spec.name] for spec in shared} for part in parts]
        sized = here | ({batch: count} if batch is not None else {})
        yield Group(numbers, together(parts, axes), sized)
        start += count
        turn += 1


def storable(array: Array) -> Array:
    """Text as fixed-width unicode, so that it can be kept without pickling."""
    return array.astype(str) if array.dtype == object else array
