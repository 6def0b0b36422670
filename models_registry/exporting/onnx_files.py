"""ONNX files: open them without following their paths outside, and say what is in them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import onnx
from google.protobuf.message import DecodeError
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from models_registry.exporting import archives
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.rules import opsets as target_limits
from models_registry.rules import tensors

MAX_MODEL_BYTES: Final = 2 * 1024**3 - 1  # one protobuf message (protobuf.dev, "Encoding")
_UNPACKED: Final = archives.Bounds(members=5_000, total_bytes=4 * 1024**3)


def unpack(source: Path, into: Path) -> Path:
    """The one ONNX file of an archive, unpacked beside its external data."""
    files = archives.extract(source, into, _UNPACKED)
    found = [path for path in files if path.suffix.lower() == ".onnx"]
    if len(found) != 1:
        raise Refused(
            "archive_without_model" if not found else "archive_with_many_models",
            f"The archive holds {len(found)} ONNX files; exactly one is needed.",
            "Pack one model.onnx and its external data files.",
        )
    return found[0]


def load(path: Path) -> onnx.ModelProto:
    """The model with its external data merged in; never reads a file outside `path`'s folder.

    `Refused` for what is not ONNX, for missing data, for paths that lead outside and above 2 GB.
    """
    if path.stat().st_size > MAX_MODEL_BYTES:
        raise Refused("onnx_too_large", "The ONNX file is larger than 2 GB.", "Use external data.")
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except DecodeError as error:
        raise Refused(
            "onnx_damaged",
            "The file is not a readable ONNX model: it is cut off or damaged.",
            "Save it again, compare its SHA-256, and upload it once more.",
        ) from error
    if not model.graph.node:
        raise Refused(
            "onnx_empty", "The ONNX model has no operator at all.", "Export the model again."
        )
    _merge_external(model, path.parent)
    return model


def _merge_external(model: onnx.ModelProto, folder: Path) -> None:
    total = 0
    missing: set[str] = set()
    for tensor in _tensors(model.graph):
        _refuse_huge(tensor)
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        target = (folder / location).resolve()
        if not archives.is_safe(location) or not target.is_relative_to(folder.resolve()):
            raise Refused(
                "external_data_unsafe",
                f"The tensor “{tensor.name[:80]}” wants its data from outside the model's folder: "
                f"{location[:120]!r}.",
                "Save the model again with onnx.save_model(…, save_as_external_data=True, "
                "location='model.onnx.data').",
            )
        if not target.is_file():
            missing.add(location)
            continue
        total += _read_external(tensor, target, entries)
        if total > MAX_MODEL_BYTES:
            raise Refused(
                "onnx_too_large",
                "The model is larger than 2 GB with its external data; one ONNX file "
                "cannot hold it.",
                "Split the model, or store its weights in FP16.",
            )
    if missing:
        raise Refused(
            "external_data_missing",
            "The model's weights are in another file that is not here: "
            f"{', '.join(sorted(missing))[:300]}.",
            "Upload a zip archive with the .onnx file and that file side by side.",
        )


def _read_external(tensor: onnx.TensorProto, target: Path, entries: dict[str, str]) -> int:
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
    except ValueError:
        offset, length = -1, -1
    size = target.stat().st_size
    if offset < 0 or offset > size or length > size - offset:
        raise Refused(
            "external_data_damaged",
            f"The tensor “{tensor.name[:80]}” lies beyond the end of {target.name[:120]!r}.",
            "The data file is cut off: upload it again.",
        )
    with target.open("rb") as stream:
        stream.seek(offset)
        tensor.raw_data = stream.read(length if length >= 0 else size - offset)
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]
    return len(tensor.raw_data)


def _refuse_huge(tensor: onnx.TensorProto) -> None:
    elements = 1
    for size in tensor.dims:
        elements *= size
    if elements < 0 or elements > MAX_MODEL_BYTES:
        raise Refused(
            "tensor_too_large",
            f"The tensor “{tensor.name[:80]}” claims {' x '.join(map(str, tensor.dims))} elements, "
            "more than an ONNX file can hold.",
            "The file is damaged or was made to do harm; export the model again.",
        )


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all graphs inside its nodes (If, Loop, Scan)."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from graphs(inner)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    for part in graphs(graph):
        yield from part.initializer
        for node in part.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Opset version by domain, "" for ONNX's own."""
    return {
        "" if entry.domain == "ai.onnx" else entry.domain: entry.version
        for entry in model.opset_import
    }


def operators(model: onnx.ModelProto) -> dict[str, int]:
    """How often each operator occurs, subgraphs included, as [domain:]operator."""
    counts: Counter[str] = Counter()
    for part in graphs(model.graph):
        for node in part.node:
            counts[f"{node.domain}:{node.op_type}" if node.domain else node.op_type] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def parameters(model: onnx.ModelProto) -> int:
    """Elements in all initializers."""
    total = 0
    for part in graphs(model.graph):
        for tensor in part.initializer:
            elements = 1
            for size in tensor.dims:
                elements *= size
            total += elements
    return total


def inputs(model: onnx.ModelProto) -> tuple[TensorSpec, ...]:
    """The inputs that a caller gives: graph inputs that are not weights (IR 3 lists those too)."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return tuple(_spec(value, "input") for value in model.graph.input if value.name not in weights)


def outputs(model: onnx.ModelProto) -> tuple[TensorSpec, ...]:
    """The graph's outputs as declared."""
    return tuple(_spec(value, "output") for value in model.graph.output)


def _spec(value: onnx.ValueInfoProto, role: str) -> TensorSpec:
    if not value.type.HasField("tensor_type"):
        kind = value.type.WhichOneof("value") or "nothing"
        raise Refused(
            "output_not_a_tensor" if role == "output" else "input_not_a_tensor",
            f"The {role} “{value.name[:80]}” is a {kind.removesuffix('_type')}, not a "
            "tensor; Triton "
            "serves tensors only.",
            "Export without ZipMap (skl2onnx: options={'zipmap': False}) or without sequences.",
        )
    tensor = value.type.tensor_type
    try:
        dtype = tensors.from_onnx(tensor.elem_type)
    except ValueError as error:
        raise Refused(
            "dtype_not_supported",
            f"The {role} “{value.name[:80]}”: {error}.",
            "Cast it to FP32 or FP16 inside the model and export again.",
        ) from error
    if not tensor.HasField("shape"):
        return TensorSpec(value.name, dtype)
    shape: list[int] = []
    dims: list[str] = []
    for index, dim in enumerate(tensor.shape.dim):
        fixed = dim.HasField("dim_value") and dim.dim_value > 0
        shape.append(dim.dim_value if fixed else -1)
        named = dim.dim_param if dim.dim_param.strip("? ") else ""
        name = named or (tensors.BATCH if index == 0 else f"dim_{index}")
        dims.append("" if fixed else name)
    return TensorSpec(value.name, dtype, tuple(shape), tuple(dims))


def without_shape(model: onnx.ModelProto) -> set[str]:
    """Names of inputs and outputs whose rank the file does not say."""
    return {
        value.name
        for value in (*model.graph.input, *model.graph.output)
        if not value.type.tensor_type.HasField("shape")
    }


def set_shape(value: onnx.ValueInfoProto, spec: TensorSpec) -> None:
    """Write a spec's sizes and axis names into the graph."""
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size, name in zip(spec.shape, spec.dims, strict=True):
        dim = shape.dim.add()
        if name:
            dim.dim_param = name
        else:
            dim.dim_value = size


def declare(
    model: onnx.ModelProto,
    path: Path,
    given: Sequence[TensorSpec],
    seen: Sequence[TensorSpec],
    *,
    always: bool,
) -> list[str]:
    """Make the graph say what was seen; returns warnings.

    Unless `always`, only declarations that contradict what was seen are changed.
    """
    real = {spec.name: spec for spec in (*given, *seen)}
    declared = {spec.name: spec for spec in (*inputs(model), *outputs(model))}
    lies = [
        name
        for name, spec in declared.items()
        if name in real and _contradicts(spec, real[name], name in without_shape(model))
    ]
    if not always and not lies:
        return []
    warnings = []
    for value in (*model.graph.input, *model.graph.output):
        if value.name in real and (always or value.name in lies):
            set_shape(value, real[value.name])
            if not always:
                warnings.append(
                    f"The file declares {list(declared[value.name].shape)} for "
                    f"“{value.name}”; it really is "
                    f"{list(real[value.name].shape)}. The declaration was corrected, nothing else."
                )
    onnx.save_model(model, str(path))
    return warnings


def _contradicts(declared: TensorSpec, real: TensorSpec, shapeless: bool) -> bool:
    if shapeless or len(declared.shape) != len(real.shape):
        return True
    return any(
        size != -1 and size != other for size, other in zip(declared.shape, real.shape, strict=True)
    )


def checked(path: Path, target: str) -> onnx.ModelProto:
    """Load what lies there and put it through ONNX's own checker with strict shape inference."""
    model = load(path)
    refusal = target_limits.refusal(target, opsets(model), model.ir_version)
    if refusal is not None:
        raise Refused(refusal.code, refusal.message, refusal.hint, refusal.pointer)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (ValidationError, InferenceError) as error:
        text = " ".join(str(error).split())[:500]
        raise Refused(
            "onnx_invalid",
            f"onnx.checker refuses the model: {text}",
            "Run onnx.checker.check_model(path, full_check=True) on it, mend what it "
            "names and export again.",
        ) from error
    return model


def sha256(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
