"""Find out by running it which sizes a model takes: free axes, the batch, frozen ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from models_registry.exporting import sampling
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.rules import tensors

Run = Callable[[Feeds], list[tuple[str, Array]]]

_BATCHES: Final = (2, 1, 4, 8, 3, 16, 32, 5, 6, 10, 64, 128)
_OTHERS: Final = (8, 16, 32, 64, 128, 224, 1, 4, 512, 256)
_MAX_TRIES: Final = 96
_OTHER_VALUES: Final = 3
# Loose: only to tell a size that works from one that gives garbage. Equivalence is judged later.
_RTOL, _ATOL = 1e-2, 1e-3


@dataclass(frozen=True, slots=True)
class Trial:
    """Sizes and integer ranges at which the model ran, and what came out."""

    sizes: dict[str, int]
    ranges: dict[str, Any]
    feeds: Feeds
    outputs: list[tuple[str, Array]]


_OTHER_TYPE: Final = (
    "same dtype",
    "expected scalar type",
    "scalar types",
    "Input type",
    "but got FloatTensor",
    "torch.FloatTensor instead",
    "torch.DoubleTensor instead",
    "torch.LongTensor instead",
    "Unexpected input data type",
)


def first_run(
    run: Run,
    specs: Sequence[TensorSpec],
    sample: Feeds | None,
    known: sampling.Ranges | None = None,
) -> Trial:
    """Sizes at which the model runs at all: those that were given, else a short search.

    `known` are values that the file itself shows to be worth drawing, by input.
    `Refused` with the model's own first complaint when nothing that was tried runs.
    """
    complaint = words = ""
    worth: dict[str, Any] = dict(known or {})
    for sizes, tried in itertools.islice(_candidates(specs, sample), _MAX_TRIES):
        ranges = tried | worth
        feeds = sample if sample is not None else sampling.feeds_for(specs, sizes, (0, 0), ranges)
        try:
            return Trial(sizes, ranges, feeds, run(feeds))
        except (Refused, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - any complaint of the model means: try the next
            complaint = complaint or f"{type(error).__name__}: {_last_line(error)}"
            words = words or str(error)
            if sample is not None:
                break
    shapes = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape)}" for spec in specs)
    raise Refused(
        "model_does_not_run",
        f"The model does not run on {'the sample' if sample is not None else 'inputs'} of "
        "the described shape "
        f"({shapes}): {complaint}"[:900],
        _mend(words),
        "/inputs",
    )


def _mend(complaint: str) -> str:
    """What to do about the model's own words."""
    if "'CUDA' backend" in complaint or "CUDA enabled" in complaint or "NVIDIA" in complaint:
        return (
            "The model names a GPU: it was traced or built there. Move it to the CPU first "
            "(model.cpu()), make its own tensors on x.device, and save it again."
        )
    if any(words in complaint for words in _OTHER_TYPE):
        return (
            "An input has another data type than the model's weights: describe it as the model "
            "takes it (FP32 for most, INT64 for numbers of tokens or categories)."
        )
    return (
        "Correct the inputs' shapes and data types, give min and max for integer inputs (numbers "
        "of tokens or categories), or upload a sample."
    )


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else "")[:300]


def _candidates(
    specs: Sequence[TensorSpec], sample: Feeds | None
) -> Iterator[tuple[dict[str, int], dict[str, list[float]]]]:
    if sample is not None:
        yield _sizes_of(specs, sample), _ranges_of(specs, sample)
        return
    hints = tensors.size_hints(specs)
    batch = tensors.batch_name(specs)
    others = [name for name in tensors.free_names(specs) if name != batch]
    batches = _first(hints.get(batch or ""), _BATCHES) if batch else (0,)
    pairs = itertools.product(enumerate(batches), enumerate(_OTHERS if others else (0,)))
    # By the sum of both ranks: no size waits until all of the others were tried with each batch.
    for (_, count), (_, size) in sorted(pairs, key=lambda pair: pair[0][0] + pair[1][0]):
        sizes = {name: hints.get(name, size) for name in others}
        if batch:
            sizes[batch] = count
        yield from ((sizes, ranges) for ranges in _integer_ranges(specs))


def _first(hint: int | None, rest: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((hint, *rest) if hint else rest))


def _integer_ranges(specs: Sequence[TensorSpec]) -> Iterator[dict[str, list[float]]]:
    """Ranges to try for integers without a maximum; a lone integer is mostly a count or flag."""
    open_ones = [
        spec
        for spec in specs
        if spec.dtype in tensors.INTEGERS and spec.dtype != "UINT8" and spec.maximum is None
    ]
    if not open_ones:
        yield {}
        return
    for end in sampling.INTEGER_ENDS:
        yield {
            spec.name: [
                spec.minimum or 0.0,
                max(spec.minimum or 0.0, float(min(end, 8) if not spec.shape else end)),
            ]
            for spec in open_ones
        }


def _sizes_of(specs: Sequence[TensorSpec], sample: Feeds) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for spec in specs:
        for size, name in zip(sample[spec.name].shape, spec.dims, strict=True):
            if name and sizes.setdefault(name, size) != size:
                raise Refused(
                    "sample_does_not_fit",
                    f"The sample has {sizes[name]} and {size} for the axis “{name}”.",
                    "Give axes that may differ different names.",
                    "/sample",
                )
    return sizes


def _ranges_of(specs: Sequence[TensorSpec], sample: Feeds) -> dict[str, list[float]]:
    """The sample's own extent, for integers that nobody gave a range for."""
    return {
        spec.name: [float(sample[spec.name].min()), float(sample[spec.name].max())]
        for spec in specs
        if spec.dtype in tensors.INTEGERS and spec.maximum is None and sample[spec.name].size
    }


@dataclass
class Findings:
    """What runs taught: sizes that work by axis name, frozen axes, and the outputs' real axes."""

    sizes: dict[str, list[int]] = field(default_factory=dict)
    frozen: dict[str, int] = field(default_factory=dict)
    outputs: tuple[TensorSpec, ...] = ()
    batch: str | None = None
    warnings: list[str] = field(default_factory=list)


def explore(source: Run, exported: Run, specs: Sequence[TensorSpec], trial: Trial) -> Findings:
    """Run source and export at other sizes of each free axis, and compare.

    An axis is free when both run and agree there; otherwise it is frozen at the size of `trial`.
    """
    found = Findings(batch=tensors.batch_name(specs))
    for name in tensors.free_names(specs):
        _explore_axis(name, source, exported, specs, trial, found)
    if found.batch in found.frozen:
        found.batch = None
    found.outputs = _outputs(exported, specs, trial, found)
    if found.batch is not None:
        _check_batch(exported, specs, trial, found)
    return found


def _explore_axis(
    name: str,
    source: Run,
    exported: Run,
    specs: Sequence[TensorSpec],
    trial: Trial,
    found: Findings,
) -> None:
    base = trial.sizes[name]
    is_batch = name == found.batch
    candidates = (1, 3, 5, 2) if is_batch else (base + 1, base * 2, max(1, base // 2))
    good, source_bad, export_bad = [base], [], []
    complaint = ""
    for size in dict.fromkeys(candidates):
        if size == base:
            continue
        feeds = sampling.feeds_for(specs, trial.sizes | {name: size}, (0, size), trial.ranges)
        try:
            wanted = source(feeds)
        except (Refused, MemoryError):
            raise
        except Exception:  # noqa: BLE001 - the model itself does not take this size
            source_bad.append(size)
            continue
        try:
            given = exported(feeds)
        except (Refused, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - the export froze it
            export_bad.append(size)
            complaint = _last_line(error)
            continue
        (good if _agree(wanted, given) else export_bad).append(size)
    if len(good) == 1 or export_bad or (is_batch and source_bad):
        found.frozen[name] = base
        found.warnings.append(_frozen(name, base, is_batch, bool(export_bad), complaint))
    else:
        found.sizes[name] = sorted(good)


def _frozen(name: str, base: int, is_batch: bool, by_export: bool, complaint: str) -> str:
    why = (
        "the exported graph gives wrong results or fails at other sizes"
        if by_export
        else ("the model itself does not run at other sizes")
    )
    end = (
        "Requests cannot be batched: max_batch_size will be 0."
        if is_batch
        else "Callers must send exactly this size."
    )
    more = f" ({complaint})" if complaint else ""
    return f"The axis “{name}” is fixed at {base}: {why}{more}. {end}"


def same(one: Array, other: Array) -> bool:
    """Whether two answers are the same to the bit; NaN is like NaN."""
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


def _agree(wanted: Sequence[tuple[str, Array]], given: Sequence[tuple[str, Array]]) -> bool:
    if len(wanted) != len(given):
        return False
    for (_, one), (_, other) in zip(wanted, given, strict=True):
        if one.shape != other.shape:
            return False
        if one.dtype.kind in "fc":
            scale = float(np.nanmax(np.abs(one), initial=0.0)) if one.size else 0.0
            atol = _ATOL * max(1.0, scale if np.isfinite(scale) else 1.0)
            if not np.allclose(one, other, rtol=_RTOL, atol=atol, equal_nan=True):
                return False
        elif one.dtype.kind not in "US" and np.mean(one != other) > 0.05:
            return False
    return True


def _outputs(
    exported: Run, specs: Sequence[TensorSpec], trial: Trial, found: Findings
) -> tuple[TensorSpec, ...]:
    """Outputs as seen: an axis that moved with a named one has its name, else one of its own."""
    moved: dict[tuple[str, int], str] = {}
    seen = exported(trial.feeds)
    for name, sizes in found.sizes.items():
        for size in [size for size in sizes if size != trial.sizes[name]]:
            feeds = sampling.feeds_for(specs, trial.sizes | {name: size}, (0, size), trial.ranges)
            for (label, before), (_, after) in zip(seen, exported(feeds), strict=True):
                if before.ndim != after.ndim:
                    continue
                for axis, (old, new) in enumerate(zip(before.shape, after.shape, strict=True)):
                    if old != new:
                        follows = (old, new) == (trial.sizes[name], size)
                        previous = moved.get((label, axis), name if follows else "")
                        same = follows and previous == name
                        moved[label, axis] = name if same else f"{label}_dim_{axis}"
    moved |= _moved_by_values(exported, specs, trial, seen)
    return tuple(
        TensorSpec(
            label,
            kserve_dtype(array),
            tuple(-1 if (label, axis) in moved else size for axis, size in enumerate(array.shape)),
            tuple(moved.get((label, axis), "") for axis in range(array.ndim)),
        )
        for label, array in seen
    )


def _moved_by_values(
    exported: Run, specs: Sequence[TensorSpec], trial: Trial, seen: Sequence[tuple[str, Array]]
) -> dict[tuple[str, int], str]:
    """Axes whose size depends on what the inputs hold (Loop, NonZero, a number of boxes)."""
    moved: dict[tuple[str, int], str] = {}
    for turn in range(1, _OTHER_VALUES + 1):
        feeds = sampling.feeds_for(specs, trial.sizes, (turn, 0), trial.ranges)
        try:
            answers = exported(feeds)
        except (Refused, MemoryError):
            raise
        except Exception:  # noqa: BLE001, S112 - values that the model refuses say nothing of sizes
            continue
        for (label, before), (_, after) in zip(seen, answers, strict=True):
            if before.ndim == after.ndim:
                moved |= {
                    (label, axis): f"{label}_dim_{axis}"
                    for axis in range(before.ndim)
                    if before.shape[axis] != after.shape[axis]
                }
    return moved


def kserve_dtype(array: Array) -> str:
    """KServe name of a numpy array's type."""
    return "BYTES" if array.dtype.kind in "USO" else tensors.dtype(array.dtype.name)


def _check_batch(exported: Run, specs: Sequence[TensorSpec], trial: Trial, found: Findings) -> None:
    """Give up the batch where Triton cannot use it: not the first axis, rows not independent."""
    batch = str(found.batch)
    everything = (*specs, *found.outputs)
    strangers = [spec.name for spec in everything if not spec.dims or spec.dims[0] != batch]
    if strangers:
        found.batch = None
        found.warnings.append(
            f"Requests cannot be batched by Triton: {', '.join(strangers[:4])} does not "
            f"have “{batch}” "
            "as first axis. max_batch_size will be 0."
        )
        return
    axes = sampling.batch_axes(specs, batch)
    parts = [
        _scaled(
            sampling.feeds_for(specs, trial.sizes | {batch: 1}, (1, row), trial.ranges),
            specs,
            scale,
        )
        for row, scale in enumerate((0.1, 1.0, 10.0))
    ]
    whole = exported(sampling.together(parts, axes))
    single = [exported(part) for part in parts]
    for index, (name, array) in enumerate(whole):
        stacked = np.concatenate([answer[index][1] for answer in single], axis=0)
        if not _agree([(name, array)], [(name, stacked)]):
            found.batch = None
            found.warnings.append(
                f"Requests cannot be batched by Triton: the output “{name}” of a row "
                "changes with the "
                "other rows of its batch. max_batch_size will be 0."
            )
            return


def _scaled(feeds: Feeds, specs: Sequence[TensorSpec], scale: float) -> Feeds:
    """Unbounded floats at another scale: decisions that look at all rows show themselves."""
    open_ones = {
        spec.name
        for spec in specs
        if spec.dtype in tensors.FLOATS and spec.minimum is None and spec.maximum is None
    }
    return {
        name: (value * scale).astype(value.dtype) if name in open_ones else value
        for name, value in feeds.items()
    }


def freeze(specs: Sequence[TensorSpec], frozen: Mapping[str, int]) -> tuple[TensorSpec, ...]:
    """The same tensors with the frozen axes at their fixed size."""
    return tuple(
        replace(
            spec,
            shape=tuple(
                frozen.get(name, -1) if name else size
                for size, name in zip(spec.shape, spec.dims, strict=True)
            ),
            dims=tuple("" if name in frozen else name for name in spec.dims),
        )
        for spec in specs
    )
