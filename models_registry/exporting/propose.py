"""Program `propose`: what a file itself says of its inputs and outputs, to fill in the form.

Request: `protocol.ProposeRequest`; file: source.
Answer: {"inputs": [TensorSpec], "outputs": [TensorSpec], "notes": [str]}; an empty shape with a
note means: not in the file, the person has to say. For an ONNX file that is not in an archive also
"beside": the names of the files that hold its weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from models_registry.exporting import harness, onnx_files, onnx_weights, protocol
from models_registry.exporting.harness import WORK, Reporter
from models_registry.exporting.protocol import Json, ProposeRequest, Refused, TensorSpec
from models_registry.rules import tensors


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    request = ProposeRequest.from_json(document)
    source = harness.needed_file(protocol.SOURCE)
    reporter.progress(0.1, "Reading the file")
    if request.source_format in {"onnx", "onnx_archive"}:
        return _onnx(request.source_format, source)
    if request.source_format == "torchscript":
        return _torchscript(source)
    if request.source_format == "torch_export":
        return torch_export(source)
    return _answer([], [], ["A state dict does not say what its inputs are: describe them."])


def _answer(inputs: list[TensorSpec], outputs: list[TensorSpec], notes: list[str]) -> Json:
    return {
        "inputs": [spec.to_json() for spec in inputs],
        "outputs": [spec.to_json() for spec in outputs],
        "notes": notes,
    }


def _onnx(source_format: str, source: Path) -> Json:
    archive = source_format == "onnx_archive"
    path = onnx_files.unpack(source, WORK / "unpacked", graph_only=True) if archive else source
    model = onnx_files.graph_of(path)
    missing = onnx_files.without_shape(model)
    notes = [f"The file does not say the shape of “{name}”." for name in sorted(missing)]
    said = _answer(list(onnx_files.inputs(model)), list(onnx_files.outputs(model)), notes)
    return said | ({} if archive else {"beside": list(onnx_weights.beside(model))})


def _torchscript(source: Path) -> Json:
    from models_registry.exporting import torch_sources  # torch takes two seconds

    script = torch_sources.script(source)
    inputs, notes = [], []
    for argument in script.forward.schema.arguments[1:]:
        kind = str(argument.type)
        if kind != "Tensor":
            notes.append(f"The argument “{argument.name}” of forward is a {kind}, not a tensor.")
            continue
        inputs.append(TensorSpec(argument.name, "FP32"))
    if inputs:
        notes.append(
            "TorchScript keeps the names of inputs, not their shapes and data types: fill them in."
        )
    return _answer(inputs, [], notes)


def torch_export(source: Path) -> Json:
    """The answer for a torch.export program, which knows its shapes and data types."""
    from models_registry.exporting import torch_sources  # torch takes two seconds

    program_ = torch_sources.exported_program(source)
    values = {node.name: node.meta.get("val") for node in program_.graph.nodes}
    inputs = [
        _spec(str(name), values.get(str(name))) for name in program_.graph_signature.user_inputs
    ]
    outputs = [
        _spec(f"output_{index}", values.get(str(name)))
        for index, name in enumerate(program_.graph_signature.user_outputs)
    ]
    return _answer(
        [spec for spec in inputs if spec is not None],
        [spec for spec in outputs if spec is not None],
        [],
    )


def _spec(name: str, value: Any) -> TensorSpec | None:
    """From the fake tensor that torch.export keeps for each value; symbolic sizes are free."""
    if value is None or not hasattr(value, "shape"):
        return None
    shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    dims = tuple(
        "" if size != -1 else tensors.BATCH if axis == 0 else f"dim_{axis}"
        for axis, size in enumerate(shape)
    )
    try:
        dtype = tensors.dtype(str(value.dtype))
    except ValueError as error:
        raise Refused(
            "dtype_not_supported",
            f"“{name}”: {error}.",
            "Cast it to FP32 or FP16 inside the model.",
            "/inputs",
        ) from error
    return TensorSpec(name, dtype, shape, dims)


if __name__ == "__main__":
    harness.run(program)
