"""Program `reference`: what the source framework answers to the seeded inputs.

Request: `protocol.ValidateRequest`; files: source, code (for a state dict).
Answer: {}; leaves reference.npz with array "<group>/<output>" for each
group of `groups` and each output in order, and "batches", the batch sizes of these groups. Runs
apart from the checks, so that a module's own code has no way to them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from models_registry.exporting import (
    axes,
    harness,
    measuring,
    protocol,
    recorded,
    samples,
    sampling,
    sources,
)
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.protocol import (
    ExportFacts,
    Json,
    Refused,
    TensorSpec,
    ValidateRequest,
)
from models_registry.exporting.sampling import Array, Feeds, Group
from models_registry.exporting.sources import Opening
from models_registry.rules import tensors

BATCHES: Final = "batches"
_ALWAYS_RUN: Final = 8


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = ValidateRequest.from_json(document)
    opening = Opening(
        request.source_format,
        harness.needed_file(protocol.SOURCE),
        _of_source(request),
        request.module,
        target=request.target,
        seconds=request.inference_seconds,
        apart=True,
    )
    reporter.progress(0.0, "Opening the source model")
    run = _as_taken(sources.open_source(opening).run, request.source_types)
    batches = _batches(request, run)
    kept: dict[str, Array] = {BATCHES: np.array(batches, dtype=np.int64)}
    for number, group in enumerate(groups(request, batches)):
        reporter.progress(
            min(1.0, 0.1 + 0.9 * group.samples[0] / request.samples), "Running the source model"
        )
        for index, (_, array) in enumerate(_answers(run, group)):
            kept[f"{number}/{index}"] = sampling.storable(array)
    with (WORK / protocol.REFERENCE).open("wb") as stream:
        np.savez(stream, allow_pickle=False, **kept)
    return {}


def drawn(request: ValidateRequest) -> tuple[TensorSpec, ...]:
    """The exported model's inputs with the ranges of the request."""
    asked = {spec.name: spec for spec in request.inputs}
    return tuple(
        replace(spec, minimum=asked[spec.name].minimum, maximum=asked[spec.name].maximum)
        if spec.name in asked
        else spec
        for spec in request.facts.inputs
    )


def batch_of(facts: ExportFacts) -> str | None:
    """The batch axis' name where Triton may batch."""
    return tensors.batch_name(facts.inputs) if facts.batch_axis == 0 else None


def groups(request: ValidateRequest, batches: Sequence[int]) -> list[Group]:
    """The inputs of this request: drawn from the ranges, then what comes of a recorded sample.

    The checks make the same ones again for themselves.
    """
    specs, batch = drawn(request), batch_of(request.facts)
    found = list(
        sampling.groups(
            specs,
            batch=batch,
            sizes=request.facts.sizes,
            ranges=request.facts.ranges,
            samples=request.samples,
            seed=request.seed,
            batches=batches,
        )
    )
    given = harness.input_file(protocol.SAMPLE)
    if given is not None:
        found += recorded.groups(
            specs,
            samples.read(given, request.facts.inputs),
            batch=batch,
            start=request.samples,
            seed=request.seed,
            batches=batches,
        )
    return found


def sizes_at(request: ValidateRequest, rows: int) -> dict[str, int]:
    """A size for each free axis, with `rows` along the batch."""
    batch = batch_of(request.facts)
    known = {name: sizes[len(sizes) // 2] for name, sizes in request.facts.sizes.items() if sizes}
    return known | ({batch: rows} if batch is not None else {})


def _batches(request: ValidateRequest, run: axes.Run) -> tuple[int, ...]:
    """The batch sizes that were asked for, the largest halved until it can be run here."""
    largest = max(request.batches)
    if batch_of(request.facts) is None or largest <= _ALWAYS_RUN:
        return request.batches
    growth = measuring.Growth(request.inference_seconds)
    for rows in (_ALWAYS_RUN // 4, _ALWAYS_RUN):
        feeds = sampling.feeds_for(
            drawn(request), sizes_at(request, rows), (request.seed, 0, rows), request.facts.ranges
        )
        before, start = measuring.reset_peak(), time.perf_counter()
        _answers(run, Group(tuple(range(rows)), feeds, sizes_at(request, rows)))
        growth.saw(rows, time.perf_counter() - start, max(0, measuring.peak() - before))
    while largest > _ALWAYS_RUN and not growth.fits(largest):
        largest //= 2
    return tuple(dict.fromkeys(min(size, largest) for size in request.batches))


def _of_source(request: ValidateRequest) -> tuple[TensorSpec, ...]:
    """The inputs in the data types of the source, which a variant's own may not be."""
    return tuple(
        replace(spec, dtype=request.source_types.get(spec.name, spec.dtype))
        for spec in request.facts.inputs
    )


def _as_taken(run: axes.Run, types: Mapping[str, str]) -> axes.Run:
    """The run with inputs turned into the types that the source takes."""
    if not types:
        return run

    def turned(feeds: Feeds) -> list[tuple[str, Array]]:
        return run(
            {
                name: value.astype(tensors.DTYPES[types[name]][0]) if name in types else value
                for name, value in feeds.items()
            }
        )

    return turned


def _answers(run: axes.Run, group: Group) -> Sequence[tuple[str, Array]]:
    try:
        return run(group.feeds)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        if harness.is_memory_error(error):
            raise MemoryError(str(error)) from error
        first, last = group.samples[0], group.samples[-1]
        lines = str(error).strip().splitlines() or [""]
        raise Refused(
            "source_fails_on_valid_input",
            f"The source model fails on seeded inputs {first} to {last} "
            f"(sizes {group.sizes}): {type(error).__name__}: {lines[-1][:300]}",
            "Narrow the inputs' ranges (min, max) to what the model takes, and export again.",
            "/inputs",
        ) from error


if __name__ == "__main__":
    harness.run(program)
