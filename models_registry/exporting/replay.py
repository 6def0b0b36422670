"""The worst inputs that validation met, kept so that anybody can send them again.

The file, replay.json:
    {"schema_version": 1, "model": {"sha256"}, "compared_with", "seed",
     "cases": [{"outputs": [names for which this is the worst input], "sample", "origin", "rows",
                "atol", "rtol", "request": {"inputs": [v2 tensors], "outputs": [{"name"}]},
                "expected": {"outputs": [v2 tensors]}, "answered": {"outputs": [v2 tensors]}}],
     "left_out": [{"outputs", "sample", "reason"}]}
`request` is a KServe v2 inference request; `expected` is what the source gave, `answered` what the
exported model gave. It holds one sample alone where that shows the same difference, else the whole
batch (`rows`) in which it was met.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from models_registry.exporting import comparing, harness, reference, samples, sampling
from models_registry.exporting.comparing import Column
from models_registry.exporting.protocol import Json, ValidateRequest
from models_registry.exporting.sampling import Array, Feeds, Group

MOST_NUMBERS: Final = 500_000
SCHEMA_VERSION: Final = 1


def write(
    path: Path,
    request: ValidateRequest,
    groups: Sequence[Group],
    columns: Sequence[Column],
    archive: Mapping[str, Any],
    run: Callable[[Feeds, str], list[Array]],
    compared_with: str,
) -> None:
    """Leave replay.json; at most 500,000 numbers, what is larger is named with its seed."""
    cases: list[Json] = []
    left_out: list[Json] = []
    left = MOST_NUMBERS
    for sample, names in _by_sample(columns).items():
        worst = next(c.worst for c in columns if c.worst and c.worst.sample == sample)
        group = groups[worst.group]
        theirs = comparing.reference_of(archive, worst.group, len(columns)) or ()
        case, size = _case(request, group, sample, columns, theirs, run)
        if size > left:
            reason = (
                f"It holds {size:,} numbers; draw it again from the seed "
                f"[{request.seed}, {sample}]."
            )
            left_out.append({"outputs": names, "sample": sample, "reason": reason})
            continue
        left -= size
        cases.append({"outputs": names, **case})
    document = {
        "schema_version": SCHEMA_VERSION,
        "model": {"sha256": request.facts.sha256},
        "compared_with": compared_with,
        "seed": request.seed,
        "cases": cases,
        "left_out": left_out,
    }
    text = json.dumps(harness.finite(document), allow_nan=False)
    path.write_text(text, encoding="utf-8")


def _by_sample(columns: Sequence[Column]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for column in columns:
        if column.worst is not None:
            found.setdefault(column.worst.sample, []).append(column.spec.name)
    return found


def _case(
    request: ValidateRequest,
    group: Group,
    sample: int,
    columns: Sequence[Column],
    theirs: Sequence[Array],
    run: Callable[[Feeds, str], list[Array]],
) -> tuple[Json, int]:
    batch = reference.batch_of(request.facts)
    row = group.samples.index(sample)
    ours = run(group.feeds, "the worst input again")
    feeds, expected, answered, rows = group.feeds, list(theirs), ours, len(group.samples)
    if rows > 1:
        specs = [column.spec for column in columns]
        alone = _take(group.feeds, sampling.batch_axes(request.facts.inputs, batch), row)
        out = [spec.dims.index(batch) if batch in spec.dims else None for spec in specs]
        one = run(alone, "the worst input alone")
        kept = [_row(value, axis, row) for value, axis in zip(ours, out, strict=True)]
        if all(_near(a, b, c) for a, b, c in zip(one, kept, columns, strict=True)):
            feeds, answered, rows = alone, one, 1
            expected = [_row(value, axis, row) for value, axis in zip(theirs, out, strict=True)]
    batched = request.facts.batch_axis == 0
    case = {
        "sample": sample,
        "origin": group.origin,
        "rows": rows,
        "atol": columns[0].within.atol,
        "rtol": columns[0].within.rtol,
        "request": {
            "inputs": [
                samples.v2_tensor(spec.name, spec.dtype, feeds[spec.name], batched=batched)
                for spec in request.facts.inputs
            ],
            "outputs": [{"name": column.spec.name} for column in columns],
        },
        "expected": {"outputs": _told(columns, expected, batched)},
        "answered": {"outputs": _told(columns, answered, batched)},
    }
    size = sum(int(value.size) for value in (*feeds.values(), *expected, *answered))
    return case, size


def _told(columns: Sequence[Column], values: Sequence[Array], batched: bool) -> list[Json]:
    return [
        samples.v2_tensor(column.spec.name, column.spec.dtype, value, batched=batched)
        for column, value in zip(columns, values, strict=True)
    ]


def _take(feeds: Feeds, axes: Mapping[str, int], row: int) -> Feeds:
    return {name: _row(value, axes.get(name), row) for name, value in feeds.items()}


def _row(value: Array, axis: int | None, row: int) -> Array:
    return value if axis is None else np.take(value, [row], axis=axis)


def _near(one: Array, other: Array, column: Column) -> bool:
    """Whether an answer given alone is that given in the batch, within the tolerance."""
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    within = column.within
    return bool(np.allclose(one, other, within.rtol, within.atol, equal_nan=True))
