"""Program `export`: a model file to one ONNX file that the target can load, and the facts about it.

Request: `protocol.ExportRequest`; files: source, code (for a state dict), sample (optional).
Answer: `protocol.ExportFacts`; leaves model.onnx. The same input gives the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import onnx

from models_registry.exporting import axes, harness, onnx_files, protocol, samples
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.module_source import code_of
from models_registry.exporting.protocol import ExportFacts, ExportRequest, Json, Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session
from models_registry.rules import opsets

_ONNX_FORMATS: Final = frozenset({"onnx", "onnx_archive"})


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = ExportRequest.from_json(document)
    _refuse_opset(request)
    source = harness.needed_file(protocol.SOURCE)
    reporter.progress(0.05, "Opening the file")
    if request.source_format in _ONNX_FORMATS:
        return _from_onnx(request, source, reporter).to_json()
    return _from_torch(request, source, reporter).to_json()


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


# PyTorch


def _from_torch(request: ExportRequest, source: Path, reporter: Reporter) -> ExportFacts:
    if not request.inputs:
        raise Refused(
            "inputs_missing",
            "The file does not say what its inputs are.",
            "Describe each input: name, data type and shape, for example features FP32 [-1, 10].",
            "/inputs",
        )
    code = code_of(request.source_format, request.module)
    from models_registry.exporting import torch_export, torch_sources  # torch takes two seconds

    if request.source_format not in torch_sources.FORMATS:
        raise Refused(
            "format_not_supported",
            f"Files of the format “{request.source_format}” cannot be exported.",
            "Upload TorchScript, a torch.export program, a state dict with its source, or ONNX.",
        )
    loaded = torch_sources.load(
        request.source_format,
        source,
        inputs=request.inputs,
        code=code,
    )
    reporter.progress(0.25, "Trying the model")
    trial = axes.first_run(loaded.run, request.inputs, _sample(request.inputs))
    names = _output_names(request.outputs, [name for name, _ in trial.outputs], request.inputs)
    path = WORK / protocol.MODEL
    reporter.progress(0.4, "Exporting to ONNX")
    exporter, warnings = torch_export.export(
        loaded,
        request.inputs,
        trial.feeds,
        names,
        path,
        opset=request.opset,
        target=request.target,
        reporter=reporter,
    )
    reporter.progress(0.7, "Running it at other sizes")
    model = onnx_files.checked(path, request.target)
    run = _runner(Session(path, seconds=request.inference_seconds), request.inputs, model)
    found = axes.explore(loaded.run, run, request.inputs, trial)
    given = axes.freeze(request.inputs, found.frozen)
    onnx_files.declare(model, path, given, found.outputs, always=True)
    return _facts(path, given, found, trial, exporter, warnings)


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


# ONNX as it is


def _from_onnx(request: ExportRequest, source: Path, reporter: Reporter) -> ExportFacts:
    origin = source
    if request.source_format == "onnx_archive":
        origin = onnx_files.unpack(source, WORK / "unpacked")
    model = onnx_files.load(origin)
    refusal = opsets.refusal(request.target, onnx_files.opsets(model), model.ir_version)
    if refusal is not None:
        raise Refused(refusal.code, refusal.message, refusal.hint, refusal.pointer)
    own = onnx_files.inputs(model)
    specs = _described(own, request.inputs, onnx_files.without_shape(model))
    path = WORK / protocol.MODEL
    if request.source_format == "onnx":
        shutil.copyfile(origin, path)
    else:
        onnx.save_model(model, str(path))
        shutil.rmtree(WORK / "unpacked")
    reporter.progress(0.3, "Checking the graph")
    model = onnx_files.checked(path, request.target)
    session = Session(path, seconds=request.inference_seconds)
    run = _runner(session, specs, model)
    reporter.progress(0.5, "Trying the model")
    trial = axes.first_run(run, specs, _sample(specs))
    reporter.progress(0.7, "Running it at other sizes")
    found = axes.explore(run, run, specs, trial)
    given = axes.freeze(specs, found.frozen)
    changed = onnx_files.declare(model, path, given, found.outputs, always=False)
    if request.outputs and list(request.outputs) != [spec.name for spec in found.outputs]:
        found.warnings.append(
            "Outputs of an ONNX file keep their own names; the given ones were not used."
        )
    return _facts(path, given, found, trial, "the ONNX file as it is", changed)


def _described(
    own: Sequence[TensorSpec], wanted: Sequence[TensorSpec], shapeless: set[str]
) -> tuple[TensorSpec, ...]:
    """The file's inputs with the names, sizes and ranges that the person gave for them."""
    described = {spec.name: spec for spec in wanted}
    if described and set(described) != {spec.name for spec in own}:
        there = ", ".join(f"{spec.name} {spec.dtype} {list(spec.shape)}" for spec in own)
        raise Refused(
            "inputs_do_not_fit",
            f"The described inputs ({', '.join(described)}) are not those of the file: {there}."[
                :600
            ],
            "Use the file's names, or leave the inputs out to take them from the file.",
            "/inputs",
        )
    result = []
    for spec in own:
        person = described.get(spec.name)
        if person is None:
            if spec.name in shapeless:
                raise Refused(
                    "input_shape_unknown",
                    f"The file does not say which shape the input “{spec.name}” has.",
                    "Describe the input with its shape.",
                    "/inputs",
                )
            result.append(spec)
            continue
        if person.dtype != spec.dtype:
            raise Refused(
                "dtype_does_not_fit",
                f"The input “{spec.name}” is {spec.dtype} in the file and {person.dtype} "
                "as described.",
                f"Describe it as {spec.dtype}.",
                "/inputs",
            )
        if spec.name not in shapeless:
            _refuse_other_shape(spec, person)
        result.append(person)
    return tuple(result)


def _refuse_other_shape(spec: TensorSpec, person: TensorSpec) -> None:
    same = len(spec.shape) == len(person.shape) and all(
        name or (size == other)
        for size, name, other in zip(spec.shape, spec.dims, person.shape, strict=True)
    )
    if not same:
        raise Refused(
            "shape_does_not_fit",
            f"The input “{spec.name}” has shape {list(spec.shape)} in the file and "
            f"{list(person.shape)} "
            "as described.",
            "Use the file's shape; -1 stands for a free size.",
            "/inputs",
        )


# Both


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
) -> ExportFacts:
    model = onnx_files.load(path)
    size = path.stat().st_size
    if size > onnx_files.MAX_MODEL_BYTES:
        raise Refused(
            "onnx_too_large",
            "The exported model is larger than 2 GB.",
            "Store its weights in FP16.",
        )
    for spec in given:
        if spec.name in trial.ranges and spec.maximum is None:
            low, high = trial.ranges[spec.name]
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
        size_bytes=size,
        sha256=onnx_files.sha256(path),
        exporter=exporter,
        producer=f"{model.producer_name} {model.producer_version}".strip()[:200],
        sizes=found.sizes,
        ranges=trial.ranges,
        warnings=(*warnings, *found.warnings),
    )


if __name__ == "__main__":
    harness.run(program)
