"""The exported model's answers beside those of its source, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models_registry.exporting import checks, comparing, reference, samples
from models_registry.exporting.comparing import Column
from models_registry.exporting.harness import Reporter
from models_registry.exporting.protocol import Check, Json, Refused, TensorSpec, ValidateRequest
from models_registry.exporting.sampling import Array, Feeds, Group
from models_registry.exporting.sessions import RunFailed, Session
from models_registry.rules import equivalence
from models_registry.rules.equivalence import Tolerance


def same_file(request: ValidateRequest) -> bool:
    """Whether the reference is the very ONNX file, or one that only works in another order."""
    is_onnx = request.source_format in {"onnx", "onnx_archive"}
    return is_onnx and request.optimisation not in equivalence.LOSSY


def batches_of(request: ValidateRequest, archive: Mapping[str, Any]) -> tuple[int, ...]:
    """The batch sizes at which the source was run: those of the request, or smaller ones."""
    found = tuple(int(size) for size in archive[reference.BATCHES])
    if not found or not all(1 <= size <= max(request.batches) for size in found):
        raise Refused(
            "reference_damaged",
            "The source model's answers are not what was asked for.",
            "Retry the job; a module that writes into its work folder cannot be validated.",
        )
    return found


def compare(
    request: ValidateRequest,
    session: Session,
    groups: Sequence[Group],
    within: Tolerance,
    archive: Mapping[str, Any],
    reporter: Reporter,
) -> list[Column]:
    """Measure every group; one column for each output, in the model's order."""
    promised = {spec.name: spec for spec in request.outputs}
    columns = [
        Column(_bounded(spec, promised), within.of(comparing.largest(archive, index)))
        for index, spec in enumerate(request.facts.outputs)
    ]
    batch = reference.batch_of(request.facts)
    for number, group in enumerate(groups):
        done = min(1.0, group.samples[0] / request.samples)
        reporter.progress(0.3 + 0.6 * done, "Comparing answers")
        theirs = comparing.reference_of(archive, number, len(columns))
        if theirs is None:
            raise Refused(
                "outputs_do_not_fit",
                f"The source model does not give {len(columns)} outputs on every input.",
                "Export again; the source may have changed.",
            )
        what = f"{_ORIGINS[group.origin]} inputs {group.samples[0]} to {group.samples[-1]}"
        ours = run(session, group.feeds, what)
        for column, mine, other in zip(columns, ours, theirs, strict=True):
            comparing.add(column, mine, other, group, number, batch)
    return columns


_ORIGINS = {"ranges": "seeded", "recorded": "recorded", "varied": "varied"}


def _bounded(spec: TensorSpec, promised: dict[str, TensorSpec]) -> TensorSpec:
    wanted = promised.get(spec.name)
    if wanted is None:
        return spec
    return replace(spec, minimum=wanted.minimum, maximum=wanted.maximum, sums_to=wanted.sums_to)


def run(session: Session, feeds: Feeds, what: str) -> list[Array]:
    """The exported model's outputs; `Refused` where it fails on what the source takes."""
    try:
        return session.run({name: value for name, value in feeds.items() if name in session.inputs})
    except RunFailed as failure:
        raise Refused(
            "exported_model_fails",
            f"The exported model fails on {what}, which the source model takes: {failure}",
            "Some size or decision was frozen while exporting; describe free axes with a "
            "name and export again.",
        ) from failure


def determinism(session: Session, group: Group) -> Check:
    """Two runs of one input give the same bytes."""
    title = "Same input, same answer"
    first, second = (run(session, group.feeds, "the same input again") for _ in range(2))
    names = [
        name
        for name, one, other in zip(session.outputs, first, second, strict=True)
        if not np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    ]
    if names:
        return Check(
            "deterministic",
            title,
            checks.BEHAVIOUR,
            "failed",
            len(names),
            0,
            "outputs",
            f"Two runs differ in {', '.join(names)[:300]}.",
            "Look for dropout left on or a random operator (RandomNormal, Multinomial).",
        )
    return Check(
        "deterministic", title, checks.BEHAVIOUR, "passed", detail="Two runs give the same bytes."
    )


def told(
    column: Column, found: equivalence.OutputDifference, request: ValidateRequest, group: Group
) -> Json:
    """One output's part of the report; `group` is that of the worst sample."""
    worst = column.worst
    sums = column.sums
    return {
        "name": found.name,
        "dtype": found.dtype,
        "verdict": found.verdict(same_file=same_file(request)),
        "atol": column.within.atol,
        "rtol": column.within.rtol,
        "max_abs": found.max_abs,
        "max_rel": found.max_rel,
        "mean_abs": found.mean_abs,
        **{
            f"p{percent}_abs": equivalence.percentile(found.errors, percent)
            for percent in (50, 95, 99)
        },
        "different": found.different,
        "errors": list(found.errors),
        "answers": {
            "min": column.low if column.low <= column.high else None,
            "max": column.high if column.low <= column.high else None,
            "sums": list(sums) if sums else None,
        },
        "worst": {
            "sample": found.worst_sample,
            "seed": [request.seed, found.worst_sample],
            "sizes": group.sizes,
            "origin": group.origin,
            "index": list(worst.index) if worst and worst.index is not None else None,
            "expected": _plain(worst.theirs) if worst else None,
            "answered": _plain(worst.ours) if worst else None,
        },
    }


def _plain(value: Any) -> Any:
    if value is None:
        return None
    plain = samples.v2_tensor("", "BYTES" if isinstance(value, str) else "", np.asarray(value))
    return plain["data"][0]
