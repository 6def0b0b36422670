"""Program `validate`: is the exported model the same model, and good enough to serve?

Request: `protocol.ValidateRequest`; files: model.onnx, reference.npz (of `reference`), sample.
Answer, the report:
    {"verdict": "passed" | "warning" | "failed",
     "checks": [Check, …],
     "equivalence": {"compared_with", "samples", "seed", "atol", "rtol", "tolerance", "batches",
                     "outputs": [{"name", "dtype", "verdict", "max_abs", "max_rel", "mean_abs",
                                  "p99_abs", "different", "errors": [one per sample],
                                  "worst": {"sample", "seed": [seed, sample], "sizes"}}]},
     "latency": [{"batch", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "runs"}],
     "memory": {"peak_bytes"},
     "model": {"sha256", "size_bytes", "data_sha256", "data_size", "opset", "ir_version",
               "parameters"},
     "environment": {"python", "numpy", "onnx", "onnxruntime", "torch", "target", "machine"},
     "seconds"}
Leaves sample.json, one request with the answers to expect, for warm-up and smoke test:
    {"request": {"inputs": [{"name", "datatype", "shape", "data"}], "outputs": [{"name"}]},
     "expected": {"outputs": [{"name", "datatype", "shape", "data"}]}, "atol", "rtol", "origin"}
in KServe v2 JSON form, data row by row; NaN and infinities are the words "NaN", "Infinity".
"""

from __future__ import annotations

import json
import platform
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

from models_registry.exporting import (
    answer_checks,
    checks,
    comparing,
    harness,
    onnx_files,
    protocol,
    reference,
    samples,
    sampling,
    sources,
)
from models_registry.exporting.comparing import Column
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.protocol import Check, Json, Refused, TensorSpec, ValidateRequest
from models_registry.exporting.sampling import Array, Feeds, Group
from models_registry.exporting.sessions import RunFailed, Session
from models_registry.rules import equivalence
from models_registry.rules.equivalence import Tolerance

_SECONDS_PER_BATCH: Final = 5.0
_WARM_RUNS: Final = 3


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    started = time.monotonic()
    request = ValidateRequest.from_json(document)
    path = harness.needed_file(protocol.MODEL)
    _refuse_other_files(request.facts, path)
    reporter.progress(0.05, "Checking the graph")
    model = onnx_files.graph_of(path)
    lines = checks.format_checks(model, request.target, path) + checks.interface_checks(request)
    # As it is served, unless the packed copy of large weights would not fit in here.
    session = Session(path, seconds=request.inference_seconds, lean=_is_cramped(request.facts))
    groups = reference.groups(request)
    within = equivalence.tolerance(
        [spec.dtype for spec in (*request.facts.inputs, *request.facts.outputs)],
        request.atol,
        request.rtol,
    )
    compared_with = _compared_with(request)
    columns = _compare(request, session, groups, within, reporter)
    differences = [column.difference() for column in columns]
    lines += [
        answer_checks.equivalence_check(
            index, found, within, compared_with, same_file=_is_onnx(request)
        )
        for index, found in enumerate(differences)
    ]
    lines += answer_checks.output_checks(columns)
    lines.append(_determinism(session, groups[0]))
    reporter.progress(0.6, "Measuring latency")
    batch_lines, latency = _batches(request, session)
    lines += batch_lines + checks.latency_checks(latency, request.p95_ms)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines.append(checks.size_check(request.facts.size_bytes + request.facts.data_size, peak))
    _write_sample(request, session, groups[0], within)
    return _report(
        request,
        lines,
        differences,
        groups,
        within,
        compared_with,
        latency,
        peak,
        time.monotonic() - started,
    )


def _refuse_other_files(facts: protocol.ExportFacts, path: Path) -> None:
    expected = {protocol.MODEL: facts.sha256}
    if facts.data_sha256:
        expected[protocol.MODEL_DATA] = facts.data_sha256
    for name, sha256 in expected.items():
        if onnx_files.sha256(harness.needed_file(name)) != sha256:
            raise Refused(
                "digest_mismatch", f"{name} is not the one that was exported.", "Export again."
            )


def _is_cramped(facts: protocol.ExportFacts) -> bool:
    """Whether large weights fit once, mapped, but not a packed copy of them as well."""
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return facts.data_size > 0 and 0 <= limit < 3 * facts.data_size


def _report(
    request: ValidateRequest,
    lines: Sequence[Check],
    differences: Sequence[equivalence.OutputDifference],
    groups: Sequence[Group],
    within: Tolerance,
    compared_with: str,
    latency: list[Json],
    peak: int,
    seconds: float,
) -> Json:
    """The report as the page, the API and the signature see it; all times in ms but `seconds`."""
    sizes = {number: group.sizes for group in groups for number in group.samples}
    batch = reference.batch_of(request.facts)
    return {
        "verdict": equivalence.overall(line.verdict for line in lines),
        "checks": [line.to_json() for line in lines],
        "equivalence": {
            "compared_with": compared_with,
            "samples": request.samples,
            "seed": request.seed,
            "atol": within.atol,
            "rtol": within.rtol,
            "tolerance": within.source,
            "batches": sorted({len(group.samples) for group in groups}) if batch else [],
            "outputs": [
                _told(found, request, sizes.get(found.worst_sample, {})) for found in differences
            ],
        },
        "latency": latency,
        "memory": {"peak_bytes": peak},
        "model": {
            "sha256": request.facts.sha256,
            "size_bytes": request.facts.size_bytes,
            "data_sha256": request.facts.data_sha256,
            "data_size": request.facts.data_size,
            "opset": request.facts.opset,
            "ir_version": request.facts.ir_version,
            "parameters": request.facts.parameters,
        },
        "environment": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "onnx": onnx.__version__,
            "onnxruntime": onnxruntime.__version__,
            "torch": metadata.version("torch"),
            "target": request.target,
            "machine": platform.machine(),
        },
        "seconds": round(seconds, 3),
    }


def _told(
    found: equivalence.OutputDifference, request: ValidateRequest, sizes: dict[str, int]
) -> Json:
    """One output's difference from the source, with the error of each sample."""
    return {
        "name": found.name,
        "dtype": found.dtype,
        "verdict": found.verdict(same_file=_is_onnx(request)),
        "max_abs": found.max_abs,
        "max_rel": found.max_rel,
        "mean_abs": found.mean_abs,
        "p99_abs": equivalence.percentile(found.errors, 99),
        "different": found.different,
        "errors": list(found.errors),
        "worst": {
            "sample": found.worst_sample,
            "seed": [request.seed, found.worst_sample],
            "sizes": sizes,
        },
    }


def _is_onnx(request: ValidateRequest) -> bool:
    return request.source_format in {"onnx", "onnx_archive"}


def _compared_with(request: ValidateRequest) -> str:
    return sources.framework(request.source_format)


def _compare(
    request: ValidateRequest,
    session: Session,
    groups: Sequence[Group],
    within: Tolerance,
    reporter: Reporter,
) -> list[Column]:
    promised = {spec.name: spec for spec in request.outputs}
    columns = [Column(_bounded(spec, promised)) for spec in request.facts.outputs]
    batch = reference.batch_of(request.facts)
    with np.load(harness.needed_file(protocol.REFERENCE), allow_pickle=False) as archive:
        for number, group in enumerate(groups):
            reporter.progress(0.1 + 0.5 * group.samples[0] / request.samples, "Comparing answers")
            theirs = comparing.reference_of(archive, number, len(columns))
            if theirs is None:
                raise Refused(
                    "outputs_do_not_fit",
                    f"The source model does not give {len(columns)} outputs on every input.",
                    "Export again; the source may have changed.",
                )
            ours = _run(
                session, group.feeds, f"seeded inputs {group.samples[0]} to {group.samples[-1]}"
            )
            for column, mine, other in zip(columns, ours, theirs, strict=True):
                comparing.add(column, mine, other, group, batch, within)
    return columns


def _bounded(spec: TensorSpec, promised: dict[str, TensorSpec]) -> TensorSpec:
    wanted = promised.get(spec.name)
    return spec if wanted is None else replace(spec, minimum=wanted.minimum, maximum=wanted.maximum)


def _run(session: Session, feeds: Feeds, what: str) -> list[Array]:
    try:
        return session.run({name: value for name, value in feeds.items() if name in session.inputs})
    except RunFailed as failure:
        raise Refused(
            "exported_model_fails",
            f"The exported model fails on {what}, which the source model takes: {failure}",
            "Some size or decision was frozen while exporting; describe free axes with a "
            "name and export again.",
        ) from failure


def _determinism(session: Session, group: Group) -> Check:
    title = "Same input, same answer"
    first, second = (_run(session, group.feeds, "the same input again") for _ in range(2))
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


def _batches(request: ValidateRequest, session: Session) -> tuple[list[Check], list[Json]]:
    """Run and time each batch size; without a batch axis one run of the model as it is."""
    batch = reference.batch_of(request.facts)
    specs = reference.drawn(request)
    sizes = {
        name: known[0] if name == batch else known[len(known) // 2]
        for name, known in request.facts.sizes.items()
    }
    if batch is None:
        feeds = sampling.feeds_for(specs, sizes, (request.seed, 0), request.facts.ranges)
        skipped = Check(
            "batch_sizes",
            "Runs at other batch sizes",
            checks.BEHAVIOUR,
            "skipped",
            detail="The model has no batch axis that Triton could use.",
        )
        return [skipped], [_timed(session, feeds, 1, request.timed_runs)]
    rows = []
    for count in sorted({1, *request.batches}):
        feeds = sampling.feeds_for(
            specs, sizes | {batch: count}, (request.seed, 0, count), request.facts.ranges
        )
        _run(session, feeds, f"a batch of {count}")
        rows.append(_timed(session, feeds, count, request.timed_runs))
    done = ", ".join(str(row["batch"]) for row in rows)
    return [
        Check(
            "batch_sizes",
            "Runs at other batch sizes",
            checks.BEHAVIOUR,
            "passed",
            done,
            detail=f"Ran at batch sizes {done}.",
        )
    ], rows


def _timed(session: Session, feeds: Feeds, batch: int, runs: int) -> Json:
    """Wall time of single runs in ms; fewer runs when the model is slow."""
    for _ in range(_WARM_RUNS):
        session.run(feeds)
    times: list[float] = []
    end = time.perf_counter() + _SECONDS_PER_BATCH
    while len(times) < runs and (len(times) < 5 or time.perf_counter() < end):
        start = time.perf_counter()
        session.run(feeds)
        times.append((time.perf_counter() - start) * 1000.0)
    return {
        "batch": batch,
        "mean_ms": sum(times) / len(times),
        "p50_ms": equivalence.percentile(times, 50),
        "p95_ms": equivalence.percentile(times, 95),
        "p99_ms": equivalence.percentile(times, 99),
        "runs": len(times),
    }


def _write_sample(
    request: ValidateRequest, session: Session, group: Group, within: Tolerance
) -> None:
    """One request with its answers: the person's own sample, else the first seeded one."""
    given = harness.input_file(protocol.SAMPLE)
    feeds: Feeds = (
        samples.read(given, request.facts.inputs) if given is not None else _first(request, group)
    )
    answers = _run(session, feeds, "the sample")
    document: dict[str, Any] = {
        "request": {
            "inputs": [
                samples.v2_tensor(spec.name, spec.dtype, feeds[spec.name])
                for spec in request.facts.inputs
            ],
            "outputs": [{"name": spec.name} for spec in request.facts.outputs],
        },
        "expected": {
            "outputs": [
                samples.v2_tensor(spec.name, spec.dtype, answer)
                for spec, answer in zip(request.facts.outputs, answers, strict=True)
            ]
        },
        "atol": within.atol,
        "rtol": within.rtol,
        "origin": "the uploader's sample"
        if given is not None
        else f"seed {request.seed}, sample 0",
    }
    text = json.dumps(harness.finite(document), allow_nan=False)
    Path(WORK / protocol.SAMPLE_REQUEST).write_text(text, encoding="utf-8")


def _first(request: ValidateRequest, group: Group) -> Feeds:
    axes = sampling.batch_axes(request.facts.inputs, reference.batch_of(request.facts))
    return {
        name: np.take(value, [0], axis=axes[name]) if name in axes else value
        for name, value in group.feeds.items()
    }


if __name__ == "__main__":
    harness.run(program)
