"""Program `export`: a model file to one ONNX file that the target can load, and the facts about it.

Request: `protocol.ExportRequest`; files: source, code (for a state dict), sample (optional).
Answer: `protocol.ExportFacts`; leaves model.onnx, and model.onnx.data where it is large. The same
input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from models_registry.exporting import (
    axes,
    graph_findings,
    harness,
    onnx_files,
    operators,
    protocol,
    samples,
    sources,
)
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.protocol import ExportFacts, ExportRequest, Json, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session
from models_registry.exporting.sources import Opening, Source, Wanted
from models_registry.rules import opsets, tensors


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = ExportRequest.from_json(document)
    _refuse_opset(request)
    opening = Opening(
        request.source_format,
        harness.needed_file(protocol.SOURCE),
        request.inputs,
        request.module,
        target=request.target,
        seconds=request.inference_seconds,
        inline_bytes=request.inline_bytes,
    )
    reporter.progress(0.05, "Opening the file")
    return _exported(sources.open_source(opening), request, reporter).to_json()


def _exported(source: Source, request: ExportRequest, reporter: Reporter) -> ExportFacts:
    reporter.progress(0.25, "Trying the model")
    trial = axes.first_run(source.run, source.inputs, _sample(source.inputs), source.ranges)
    own = [name for name, _ in trial.outputs]
    names = own if source.keeps_names else _output_names(request.outputs, own, source.inputs)
    path = WORK / protocol.MODEL
    reporter.progress(0.4, "Exporting to ONNX")
    exporter, warnings = source.export(
        path, Wanted(trial.feeds, names, request.opset, request.target, reporter)
    )
    reporter.progress(0.7, "Running it at other sizes")
    run: axes.Run = source.run
    if source.keeps_names:  # it has been checked and loaded already: a large one is not held twice
        model = onnx_files.graph_of(path)
    else:
        onnx_files.settle(path, keep_above=request.inline_bytes)
        model = onnx_files.checked(path, request.target)
        operators.check(model, request.target)
        graph_findings.refuse_training(model)
        run = _runner(Session(path, seconds=request.inference_seconds), source.inputs, model)
    warnings += graph_findings.random_answers(model, run, trial.feeds)
    _refuse_memory(source, trial)
    found = axes.explore(source.run, run, source.inputs, trial)
    given = axes.freeze(source.inputs, found.frozen)
    warnings += onnx_files.declare(model, path, given, found.outputs, always=not source.keeps_names)
    if source.keeps_names and request.outputs and list(request.outputs) != names:
        found.warnings.append(
            "Outputs of an ONNX file keep their own names; the given ones were not used."
        )
    return _facts(path, given, found, trial, exporter, warnings, request.target)


def _refuse_memory(source: Source, trial: axes.Trial) -> None:
    """`Refused` when the source answers the same input differently the second time."""
    again = source.run(trial.feeds)
    changed = [
        name
        for (name, one), (_, other) in zip(trial.outputs, again, strict=True)
        if not axes.same(one, other)
    ]
    if changed:
        raise Refused(
            "source_not_repeatable",
            "The model gives another answer when the same input comes again "
            f"({', '.join(changed)[:200]}): it keeps state between calls, or draws random numbers.",
            "Take the state as an input and return it as an output; replace F.dropout(…) by "
            "torch.nn.Dropout, which evaluation mode switches off.",
        )


def _refuse_opset(request: ExportRequest) -> None:
    try:
        limits = opsets.runtime(request.target)
    except ValueError as error:
        raise Refused(
            "target_unknown", f"{error}.", "Choose one of the releases listed.", "/target"
        ) from error
    if not opsets.MIN_OPSET <= request.opset <= limits.opset:
        raise Refused(
            "opset_not_supported",
            f"Opset {request.opset} cannot be served: Triton {request.target} (ONNX Runtime "
            f"{limits.version}) loads opsets {opsets.MIN_OPSET} to {limits.opset}.",
            "Use opset 17, the default.",
            "/opset",
        )


def _output_names(wanted: Sequence[str], own: list[str], inputs: Sequence[TensorSpec]) -> list[str]:
    if wanted and len(wanted) != len(own):
        raise Refused(
            "outputs_do_not_fit",
            f"{len(wanted)} outputs are named where the model gives {len(own)}: "
            f"{', '.join(own)[:300]}.",
            "Name all of them, in the model's order, or none.",
            "/outputs",
        )
    names = list(wanted) or own
    taken = {spec.name for spec in inputs}
    if len(set(names)) != len(names) or taken & set(names):
        # One name cannot stand for two tensors of a graph; a model may well call both "x".
        names = [
            f"{name}_out" if name in taken or names.count(name) > 1 else name for name in names
        ]
        names = [f"{name}_{i}" if names.count(name) > 1 else name for i, name in enumerate(names)]
    return names


def _sample(specs: Sequence[TensorSpec]) -> Feeds | None:
    path = harness.input_file(protocol.SAMPLE)
    return samples.read(path, specs) if path is not None else None


def _runner(session: Session, specs: Sequence[TensorSpec], model: onnx.ModelProto) -> axes.Run:
    missing = (
        set(session.inputs)
        - {spec.name for spec in specs}
        - {t.name for t in model.graph.initializer}
    )
    if missing:
        raise Refused(
            "inputs_do_not_fit",
            "The exported graph has inputs that nobody described: "
            f"{', '.join(sorted(missing))[:200]}.",
            "Describe each argument of forward, in its order.",
            "/inputs",
        )
    used = set(session.inputs)

    def run(feeds: Feeds) -> list[tuple[str, Array]]:
        answers = session.run({name: value for name, value in feeds.items() if name in used})
        return list(zip(session.outputs, answers, strict=True))

    return run


def _facts(
    path: Path,
    given: tuple[TensorSpec, ...],
    found: axes.Findings,
    trial: axes.Trial,
    exporter: str,
    warnings: list[str],
    target: str,
) -> ExportFacts:
    model = onnx_files.graph_of(path)
    data = path.with_name(protocol.MODEL_DATA)
    for spec in given:
        known = trial.ranges.get(spec.name)
        if spec.dtype in tensors.INTEGERS and isinstance(known, list) and spec.maximum is None:
            low, high = known[:2]
            warnings.append(
                f"No range is given for the integer input “{spec.name}”; validation draws "
                f"{low:.0f} to {high:.0f}."
            )
    return ExportFacts(
        inputs=tuple(replace(spec, shape=spec.shape) for spec in given),
        outputs=found.outputs,
        batch_axis=0 if found.batch is not None else None,
        opset=onnx_files.opsets(model).get("", 0),
        ir_version=model.ir_version,
        operators=onnx_files.operators(model),
        parameters=onnx_files.parameters(model),
        size_bytes=path.stat().st_size,
        sha256=onnx_files.sha256(path),
        data_size=data.stat().st_size if data.exists() else 0,
        data_sha256=onnx_files.sha256(data) if data.exists() else "",
        exporter=exporter,
        producer=f"{model.producer_name} {model.producer_version}".strip()[:200],
        sizes=found.sizes,
        ranges=trial.ranges,
        warnings=(*warnings, *graph_findings.silent_casts(model, given), *found.warnings),
        libraries=operators.check(model, target),
    )


if __name__ == "__main__":
    harness.run(program)
