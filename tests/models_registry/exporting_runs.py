"""Export a file as a job does, and look at what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime

from models_registry.adapters import formats, sandbox
from models_registry.adapters.sandbox import Limits, SandboxResult
from models_registry.exporting.protocol import ExportFacts, ExportRequest
from models_registry.rules import tensors


def export(
    source: Path, box: Path, *, inputs: list[dict[str, Any]] | None = None, **options: Any
) -> SandboxResult:
    """Sniff and export, as a job does; files beside the source by keyword."""
    files = {name: options.pop(name) for name in ("code", "sample") if name in options}
    files |= options.pop("beside", {})
    detected = formats.sniff(source)
    assert detected.accepted, detected
    request = ExportRequest(detected.format, tensors.parse(inputs or []), **options)
    return sandbox.run(
        "export",
        request.to_json(),
        workdir=box,
        files={"source": source, **files},
        limits=Limits(wall_seconds=90),
    )


def facts_of(result: SandboxResult) -> ExportFacts:
    """The facts of a run that must have ended well."""
    assert result.ending == "ok", (result.refusal, result.stderr_tail)
    return ExportFacts.from_json(result.answer)


def answers(result: SandboxResult, **feeds: Any) -> list[Any]:
    """What the exported file gives in ONNX Runtime."""
    session = onnxruntime.InferenceSession(
        str(result.outputs["model.onnx"]), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


def axes(specs: Any) -> list[tuple[str, str, tuple[int, ...], tuple[str, ...]]]:
    """Inputs or outputs in short."""
    return [(spec.name, spec.dtype, spec.shape, spec.dims) for spec in specs]
