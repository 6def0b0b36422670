"""PyTorch to ONNX by the exporter path that really gives the opset that was asked for.

Measured with torch 2.13: the TorchScript-based exporter (dynamo=False) writes the opset it is asked
for (17 -> opset 17, IR 8); the newer one writes opset 18 at least, and IR 10, which ONNX Runtime
1.17 refuses. So the first is the way, and the second the way out when the first cannot do it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import onnx
import torch

from models_registry.exporting import graph_findings, onnx_files, torch_sources, torch_twin
from models_registry.exporting.harness import Reporter, is_memory_error
from models_registry.exporting.module_source import Code
from models_registry.exporting.protocol import INLINE_BYTES, Refused, TensorSpec
from models_registry.exporting.sampling import Feeds
from models_registry.exporting.torch_outputs import Flat
from models_registry.exporting.torch_sources import TORCH_EXPORT, TORCHSCRIPT, TorchSource
from models_registry.rules import opsets, tensors

FALLBACK_OPSET: Final = 18
FALLBACK_IR: Final = 8

_NOT_TWICE: Final = (
    f"The file has more than {torch_twin.MAX_BYTES // 1_000_000} MB: it was exported once, and not "
    "a second time to see that nothing in it is drawn at random."
)


def open_file(
    kind: str, path: Path, *, inputs: Sequence[TensorSpec], code: Code | None
) -> TorchSource:
    """`torch_sources.load`, and a second process that will do the same export on its own.

    See `torch_twin`; a large file is exported once.
    """
    if path.stat().st_size > torch_twin.MAX_BYTES:
        loaded = torch_sources.load(kind, path, inputs=inputs, code=code)
        return replace(loaded, notes=(*loaded.notes, _NOT_TWICE))

    def opened() -> torch_twin.Export:
        again = torch_sources.load(kind, path, inputs=inputs, code=code, seed=torch_twin.SEED)
        silent = Reporter(os.open(os.devnull, os.O_WRONLY))

        def write(feeds: Feeds, question: dict[str, Any], into: Path) -> None:
            _write(again, inputs, feeds, path=into, reporter=silent, **question)

        return write

    twin = torch_twin.prepare(opened)
    return replace(torch_sources.load(kind, path, inputs=inputs, code=code), twin=twin)


def export(
    source: TorchSource,
    specs: Sequence[TensorSpec],
    feeds: Feeds,
    outputs: Sequence[str],
    path: Path,
    *,
    opset: int,
    target: str,
    reporter: Reporter,
) -> tuple[str, list[str]]:
    """Write `path`; returns the exporter path used, in words, and warnings for people.

    `Refused` with the exporter's complaint when no path works within the target's opset limit, and
    when a second export (`open_file`) gives another file.
    """
    question: dict[str, Any] = {"outputs": list(outputs), "opset": opset, "target": target}
    if source.twin is not None:
        source.twin.begin(feeds, question)
    words, notes = _write(source, specs, feeds, path=path, reporter=reporter, **question)
    # A model that trains itself while it runs would differ below for that reason alone.
    graph_findings.refuse_training(onnx_files.graph_of(path))
    if source.twin is not None:
        reporter.progress(0.6, "Exporting once more, to compare")
        notes = [*notes, *source.twin.compare(path)]
    return words, [*source.notes, *notes]


def _write(
    source: TorchSource,
    specs: Sequence[TensorSpec],
    feeds: Feeds,
    *,
    outputs: Sequence[str],
    path: Path,
    opset: int,
    target: str,
    reporter: Reporter,
) -> tuple[str, list[str]]:
    given = {spec.name: spec for spec in specs}
    ordered = [given[name] for name in source.order]
    arguments = tuple(torch.from_numpy(feeds[name].copy()) for name in source.order)
    try:
        notes = _by_torchscript(source, ordered, arguments, outputs, path, opset)
        _check_versions(path, opset)
        return f"torch {torch.__version__} torch.onnx.export(dynamo=False), opset {opset}", notes
    except (MemoryError, Refused):
        raise
    except Exception as error:
        if is_memory_error(error):
            raise MemoryError(str(error)) from error
        first = _complaint(error)
        reporter.log(f"The TorchScript-based exporter gave up: {first}", "warning")
        later = re.search(r"(?:added in|since) (?:opset )?version (\d+)", str(error))
        if later and opset < int(later.group(1)) <= opsets.runtime(target).opset:
            words, notes = _write(
                source,
                specs,
                feeds,
                outputs=outputs,
                path=path,
                opset=int(later.group(1)),
                target=target,
                reporter=reporter,
            )
            said = f"Opset {opset} has no form for an operator of the model ({first}); "
            return words, [f"{said}opset {later.group(1)} was used."[:600], *notes]
        possible = opsets.runtime(target).opset >= FALLBACK_OPSET
        if source.kind == TORCHSCRIPT or not possible:
            raise _export_failed(first) from error
    return _by_dynamo(source, ordered, arguments, outputs, path, first)


def _axes(specs: Sequence[TensorSpec]) -> dict[str, dict[int, str]]:
    return {
        spec.name: {axis: name for axis, name in enumerate(spec.dims) if name}
        for spec in specs
        if any(spec.dims)
    }


def _by_torchscript(
    source: TorchSource,
    specs: Sequence[TensorSpec],
    arguments: tuple[torch.Tensor, ...],
    outputs: Sequence[str],
    path: Path,
    opset: int,
) -> list[str]:
    module: Any = source.module
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if source.kind == TORCH_EXPORT:
            # An unlifted program knows no eval(): it is in the mode that it was exported in.
            module = torch.jit.trace(  # type: ignore[no-untyped-call]
                Flat(source.module), arguments, check_trace=False, strict=False
            )
        elif source.kind != TORCHSCRIPT or not _returns_tensors(module, arguments):
            # The exporter puts back the mode that it found: a wrapper left in training mode would
            # take the inner module along.
            module = Flat(source.module).eval()
        torch.onnx.export(
            module,
            arguments,
            str(path),
            dynamo=False,
            opset_version=opset,
            input_names=[spec.name for spec in specs],
            output_names=list(outputs),
            dynamic_axes=_axes(specs),
            do_constant_folding=True,
            training=torch.onnx.TrainingMode.EVAL,
        )
    return _frozen_decisions(caught)


def _returns_tensors(module: Any, arguments: tuple[torch.Tensor, ...]) -> bool:
    """Whether a script module can go to the exporter without a wrapper: tensors, not structures."""
    answer = module(*arguments)
    if isinstance(answer, torch.Tensor):
        return True
    return type(answer) is tuple and all(isinstance(item, torch.Tensor) for item in answer)


def _frozen_decisions(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """One sentence for what tracing may have frozen, with the places in the user's file."""
    places = [
        f"{Path(warning.filename).name} line {warning.lineno}"
        for warning in caught
        if warning.category.__name__ == "TracerWarning" and "/code/" in warning.filename
    ]
    if not places:
        return []
    listed = ", ".join(dict.fromkeys(places[:5]))
    return [
        "Python decisions or sizes in the module's source were recorded as constants while tracing "
        f"({listed}); other inputs take the same way. Use torch.jit.script where that matters."
    ]


def _by_dynamo(
    source: TorchSource,
    specs: Sequence[TensorSpec],
    arguments: tuple[torch.Tensor, ...],
    outputs: Sequence[str],
    path: Path,
    first: str,
) -> tuple[str, list[str]]:
    dims: dict[str, Any] = dict.fromkeys(tensors.free_names(specs), torch.export.Dim.DYNAMIC)
    shapes = tuple(
        {axis: dims[name] for axis, name in enumerate(spec.dims) if name} for spec in specs
    )
    module = source.program if source.kind == TORCH_EXPORT else Flat(source.module).eval()
    try:
        with torch.no_grad():
            torch.onnx.export(
                module,
                arguments,
                str(path),
                dynamo=True,
                opset_version=FALLBACK_OPSET,
                input_names=[spec.name for spec in specs],
                output_names=list(outputs),
                dynamic_shapes=None if source.kind == TORCH_EXPORT else (shapes,),
                external_data=_weight_bytes(module) > INLINE_BYTES,
                optimize=True,
            )
    except Exception as error:
        if is_memory_error(error):
            raise MemoryError(str(error)) from error
        raise _export_failed(f"{first}; and: {_complaint(error)}") from error
    model = onnx_files.graph_of(path)
    model.ir_version = min(model.ir_version, FALLBACK_IR)
    onnx.save_model(model, str(path))
    _check_versions(path, FALLBACK_OPSET)
    note = (
        f"The model was exported with opset {FALLBACK_OPSET} by the torch.export-based "
        "exporter, because "
        f"the other one could not: {first}"
    )
    return f"torch {torch.__version__} torch.onnx.export(dynamo=True), opset {FALLBACK_OPSET}", [
        note[:600]
    ]


def _weight_bytes(module: Any) -> int:
    state = module.state_dict() if callable(module.state_dict) else module.state_dict
    weights = (one for one in state.values() if torch.is_tensor(one))
    return sum(one.numel() * one.element_size() for one in weights)


def _check_versions(path: Path, opset: int) -> None:
    """The exporter's word is not enough: read back what it wrote."""
    model = onnx.load_model(str(path), load_external_data=False)
    written = onnx_files.opsets(model).get("", 0)
    if written != opset:
        raise RuntimeError(f"the exporter wrote opset {written} where {opset} was asked for")


_TELLING: Final = ("Exporting the operator", "Unsupported", "PythonOp", "No ONNX function")


def _complaint(error: Exception) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    for line in text.splitlines():
        if any(words in line for words in _TELLING):
            return line.strip()[:400]
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"[:400]


def _export_failed(complaint: str) -> Refused:
    return Refused(
        "export_failed",
        f"PyTorch cannot express the model in ONNX: {complaint}"[:900],
        "Replace the named operator by standard ones, or say how it is written in ONNX: a "
        "symbolic() method, or SYMBOLICS in the uploaded source (“Custom operators” in "
        "docs/export.md). "
        "torch.onnx.export on your machine shows the same message.",
    )
