"""Which axes of a model that can be run are free, and what a business would call them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from models_registry.exporting import axes, sampling
from models_registry.exporting.protocol import Json, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.rules import tensors

_IMAGE_CHANNELS: Final = (1, 3, 4)
# What exporters write for an axis that nobody named.
_MEANINGLESS: Final = re.compile(
    r"(unk__|dim_?|d|s|axis_?|dynamic_axes_|.*_dim_|.*dynamic_axes_)[0-9]+|\?|None|-1",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Clock:
    """How long may be tried; a run that has begun is not stopped by it."""

    seconds: float
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether nothing more should be tried."""
        return time.monotonic() - self.started > self.seconds

    def bounded(self, run: axes.Run) -> axes.Run:
        """The same run, which raises `Refused` (`propose_time`) once the time is over."""

        def inner(feeds: Feeds) -> list[tuple[str, Array]]:
            if self.is_over:
                raise Refused("propose_time", "There was no time left to try more sizes.")
            return run(feeds)

        return inner


def answer(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], notes: list[str]) -> Json:
    """What program `propose` answers."""
    return {
        "inputs": [spec.to_json() for spec in inputs],
        "outputs": [spec.to_json() for spec in outputs],
        "notes": notes,
    }


def described(name: str, array: Array) -> TensorSpec:
    """An input as a sample shows it, every axis at the sample's size."""
    return TensorSpec(name, axes.kserve_dtype(array), tuple(array.shape), ("",) * array.ndim)


def opened_axes(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The same inputs with every axis free, named by what it probably is; sizes stay as hints.

    One name stands for one size: an axis that has another size than its namesake gets its own.
    """
    taken: dict[str, int] = {}
    result = []
    for spec in specs:
        names = []
        for axis, (size, name) in enumerate(zip(spec.shape, _names(spec), strict=True)):
            own = name if taken.get(name, size) == size else f"{spec.name}_{name}"
            if axis == 0 and own != tensors.BATCH:
                own = f"{spec.name}_dim_0"
            taken.setdefault(own, size)
            names.append(own)
        result.append(replace(spec, dims=tuple(names)))
    return tuple(result)


def _names(spec: TensorSpec) -> list[str]:
    rank = len(spec.shape)
    names = [tensors.BATCH] + [f"{spec.name}_dim_{axis}" for axis in range(1, rank)]
    if rank == 2 and spec.dtype in tensors.INTEGERS:
        names[1] = "sequence"
    elif rank == 3:
        names[1:] = ["sequence", "length"]
    elif rank == 4:
        first = spec.shape[1] in _IMAGE_CHANNELS or spec.shape[3] not in _IMAGE_CHANNELS
        names[1:] = ["channels", "height", "width"] if first else ["height", "width", "channels"]
    return names[:rank]


def renamed(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Free axes that an exporter numbered get the name that they probably have."""
    proposed = dict(zip([spec.name for spec in specs], opened_axes(specs), strict=True))
    words: dict[str, set[str]] = {}
    for spec in specs:
        for name, better in zip(spec.dims, proposed[spec.name].dims, strict=True):
            if name and _MEANINGLESS.fullmatch(name):
                words.setdefault(name, set()).add(better)
    # An axis that would be called differently in two inputs keeps its neutral name.
    agreed = {name: found.pop() for name, found in words.items() if len(found) == 1}
    return tuple(
        replace(spec, dims=tuple(agreed.get(name, name) for name in spec.dims)) for spec in specs
    )


def drawn(specs: Sequence[TensorSpec]) -> Feeds:
    """One set of inputs at the sizes that stand beside the axes' names."""
    return sampling.feeds_for(specs, tensors.size_hints(specs), (0, 0), {})


def explored(
    run: axes.Run, specs: Sequence[TensorSpec], sample: Feeds | None, clock: Clock
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...], list[str]]:
    """Inputs with the axes that really are free, outputs as seen, and sentences on what is not.

    `Refused` when the model does not run at all on these inputs.
    """
    trial = axes.first_run(run, specs, sample)
    seen = tuple(
        TensorSpec(label, axes.kserve_dtype(array), tuple(array.shape), ("",) * array.ndim)
        for label, array in trial.outputs
    )
    bounded = clock.bounded(run)
    try:
        found = axes.explore(bounded, bounded, specs, trial)
    except Refused as refused:
        if refused.refusal.code != "propose_time":
            raise
        fixed = axes.freeze(specs, trial.sizes)
        return fixed, seen, ["There was no time to try other sizes: name the axes that are free."]
    free = {name: sizes[0] for name, sizes in found.sizes.items() if name not in found.frozen}
    inputs = tuple(
        replace(spec, shape=tuple(-1 if name in free else size for size, name in _pairs(spec)))
        for spec in axes.freeze(specs, found.frozen)
    )
    batch = tensors.batch_name(specs)
    notes = [note for note in found.warnings if batch and batch in note]
    return inputs, found.outputs, notes


def _pairs(spec: TensorSpec) -> list[tuple[int, str]]:
    return list(zip(spec.shape, spec.dims, strict=True))
