"""Program `reference`: what the source framework answers to the seeded inputs.

Request: `protocol.ValidateRequest`; files: source, code (for a state dict).
Answer: {}; leaves reference.npz with array "<group>/<output>" for each
group of `sampling.groups` and each output in order. Runs apart from the checks, so that a module's
own code has no way to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models_registry.exporting import axes, harness, protocol, sampling, sources
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.protocol import (
    ExportFacts,
    Json,
    Refused,
    TensorSpec,
    ValidateRequest,
)
from models_registry.exporting.sampling import Array, Group
from models_registry.exporting.sources import Opening
from models_registry.rules import tensors


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = ValidateRequest.from_json(document)
    opening = Opening(
        request.source_format,
        harness.needed_file(protocol.SOURCE),
        request.facts.inputs,
        request.module,
        target=request.target,
        seconds=request.inference_seconds,
        apart=True,
    )
    reporter.progress(0.0, "Opening the source model")
    run = sources.open_source(opening).run
    kept: dict[str, Array] = {}
    for number, group in enumerate(groups(request)):
        reporter.progress(
            0.1 + 0.9 * group.samples[0] / request.samples, "Running the source model"
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


def groups(request: ValidateRequest) -> list[Group]:
    """The seeded inputs of this request; the checks draw the same ones again for themselves."""
    return list(
        sampling.groups(
            drawn(request),
            batch=batch_of(request.facts),
            sizes=request.facts.sizes,
            ranges=request.facts.ranges,
            samples=request.samples,
            seed=request.seed,
            batches=request.batches,
        )
    )


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
