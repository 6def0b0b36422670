"""Program `validate`: is the exported model the same model, and good enough to serve?

Request: `protocol.ValidateRequest`; files: model.onnx, reference.npz (of `reference`), sample.
Answer, the report (docs/validation.md says what each field and check means):
    {"schema_version": 1,
     "verdict": "passed" | "warning" | "failed",
     "checks": [Check, …],
     "equivalence": {"compared_with", "samples", "recorded", "varied", "seed", "atol", "rtol",
                     "tolerance", "batches",
                     "outputs": [{"name", "dtype", "verdict", "atol", "rtol", "max_abs", "max_rel",
                                  "mean_abs", "p50_abs", "p95_abs", "p99_abs", "different",
                                  "errors": [one per sample], "answers": {"min", "max", "sums"},
                                  "worst": {"sample", "seed": [seed, sample], "sizes", "origin",
                                            "index", "expected", "answered"}}]},
     "latency": [{"batch", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "rows_per_second",
                  "peak_bytes", "runs"}],
     "memory": {"loaded_bytes", "peak_bytes"},
     "model": {"sha256", "size_bytes", "data_sha256", "data_size", "opset", "ir_version",
               "parameters", "operators", "flops", "flops_by_operator", "flops_left_out"},
     "graph": see `graph_picture.picture`,
     "environment": {"python", "numpy", "onnx", "onnxruntime", "torch", "target", "machine"},
     "seconds"}
Leaves sample.json, one request with the answers to expect, for warm-up and smoke test:
    {"request": {"inputs": [{"name", "datatype", "shape", "data"}], "outputs": [{"name"}]},
     "expected": {"outputs": [{"name", "datatype", "shape", "data"}]}, "atol", "rtol", "origin"}
in KServe v2 JSON form, data row by row; NaN and infinities are the words "NaN", "Infinity".
Leaves replay.json as well, the worst inputs with both answers: see `replay`.
"""

from __future__ import annotations

import json
import platform
import resource
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime

from models_registry.exporting import (
    answer_checks,
    batch_runs,
    checks,
    graph_picture,
    graph_shapes,
    harness,
    measuring,
    onnx_files,
    protocol,
    reference,
    replay,
    samples,
    sampling,
    source_answers,
    sources,
)
from models_registry.exporting.comparing import Column
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.protocol import Check, Json, Refused, ValidateRequest
from models_registry.exporting.sampling import Array, Feeds, Group
from models_registry.exporting.sessions import Session
from models_registry.rules import equivalence, flops
from models_registry.rules.equivalence import Tolerance

SCHEMA_VERSION: Final = 1


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    started = time.monotonic()
    request = ValidateRequest.from_json(document)
    path = harness.needed_file(protocol.MODEL)
    _refuse_other_files(request.facts, path)
    reporter.progress(0.02, "Checking the graph")
    model = onnx_files.graph_of(path)
    lines = checks.format_checks(model, request.target, path) + checks.interface_checks(request)
    graph = _graph(model, request)
    # As it is served, unless the packed copy of large weights would not fit in here.
    session = Session(path, seconds=request.inference_seconds, lean=_is_cramped(request.facts))
    loaded = measuring.in_use()

    def run(feeds: Feeds, what: str) -> list[Array]:
        return source_answers.run(session, feeds, what)

    # Before anything else runs: what a larger batch has once taken the runtime keeps.
    reporter.progress(0.1, "Measuring latency and memory")
    batch_lines, latency = batch_runs.measure(request, session, run)
    within = equivalence.tolerance(
        [spec.dtype for spec in (*request.facts.inputs, *request.facts.outputs)],
        request.atol,
        request.rtol,
        request.optimisation,
    )
    with np.load(harness.needed_file(protocol.REFERENCE), allow_pickle=False) as archive:
        batches = source_answers.batches_of(request, archive)
        groups = reference.groups(request, batches)
        columns = source_answers.compare(request, session, groups, within, archive, reporter)
        compared_with = sources.framework(request.source_format)
        replay.write(WORK / protocol.REPLAY, request, groups, columns, archive, run, compared_with)
    lines += _answer_lines(request, columns, within, compared_with)
    lines.append(source_answers.determinism(session, groups[0]))
    lines += batch_lines + checks.latency_checks(latency, request.p95_ms)
    lines += checks.memory_checks(latency)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines.append(checks.size_check(request.facts.size_bytes + request.facts.data_size, peak))
    _write_sample(run, request, groups[0], within)
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": equivalence.overall(line.verdict for line in lines),
        "checks": [line.to_json() for line in lines],
        "equivalence": {
            **_equivalence(request, columns, groups, within, compared_with),
            "batches": sorted(set(batches)) if reference.batch_of(request.facts) else [],
        },
        "latency": latency,
        "memory": {"loaded_bytes": loaded, "peak_bytes": peak},
        **graph,
        "environment": _environment(request),
        "seconds": round(time.monotonic() - started, 3),
    }


def _answer_lines(
    request: ValidateRequest, columns: Sequence[Column], within: Tolerance, compared_with: str
) -> list[Check]:
    same = source_answers.same_file(request)
    lines = [
        answer_checks.equivalence_check(
            index, column.difference(), column.within, compared_with, same_file=same
        )
        for index, column in enumerate(columns)
    ]
    return lines + answer_checks.output_checks(columns, lossy=within.share > 0)


def _equivalence(
    request: ValidateRequest,
    columns: Sequence[Column],
    groups: Sequence[Group],
    within: Tolerance,
    compared_with: str,
) -> Json:
    group_of = {number: group for group in groups for number in group.samples}
    counts = {
        origin: sum(len(group.samples) for group in groups if group.origin == origin)
        for origin in ("recorded", "varied")
    }
    differences = [column.difference() for column in columns]
    return {
        "compared_with": compared_with,
        "samples": request.samples,
        **counts,
        "seed": request.seed,
        "atol": within.atol,
        "rtol": within.rtol,
        "tolerance": within.source,
        "outputs": [
            source_answers.told(column, found, request, group_of[found.worst_sample])
            for column, found in zip(columns, differences, strict=True)
        ],
    }


def _graph(model: onnx.ModelProto, request: ValidateRequest) -> Json:
    """What the file is: size, operators, arithmetic of one inference at batch 1, its picture."""
    facts = request.facts
    nodes = graph_shapes.shaped(model, facts.inputs, reference.sizes_at(request, 1))
    counted = flops.estimate(node.operation for node in nodes)
    return {
        "model": {
            "sha256": facts.sha256,
            "size_bytes": facts.size_bytes,
            "data_sha256": facts.data_sha256,
            "data_size": facts.data_size,
            "opset": facts.opset,
            "ir_version": facts.ir_version,
            "parameters": facts.parameters,
            "operators": sum(facts.operators.values()),
            "flops": counted.total,
            "flops_by_operator": dict(counted.by_kind),
            "flops_left_out": dict(counted.left_out),
        },
        "graph": graph_picture.picture(nodes, facts.inputs, facts.outputs),
    }


def _environment(request: ValidateRequest) -> Json:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
        "torch": metadata.version("torch"),
        "target": request.target,
        "machine": platform.machine(),
    }


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


def _write_sample(
    run: batch_runs.Run, request: ValidateRequest, group: Group, within: Tolerance
) -> None:
    """One request with its answers: the person's own sample, else the first seeded one."""
    given = harness.input_file(protocol.SAMPLE)
    feeds: Feeds = (
        samples.read(given, request.facts.inputs) if given is not None else _first(request, group)
    )
    answers = run(feeds, "the sample")
    batched = request.facts.batch_axis == 0
    document: dict[str, Any] = {
        "request": {
            "inputs": [
                samples.v2_tensor(spec.name, spec.dtype, feeds[spec.name], batched=batched)
                for spec in request.facts.inputs
            ],
            "outputs": [{"name": spec.name} for spec in request.facts.outputs],
        },
        "expected": {
            "outputs": [
                samples.v2_tensor(spec.name, spec.dtype, answer, batched=batched)
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
