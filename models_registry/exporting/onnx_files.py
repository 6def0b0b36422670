"""ONNX files: open them without following their paths outside, and say what is in them."""

from __future__ import annotations

import hashlib
import resource
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import onnx
from google.protobuf.message import DecodeError
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from models_registry.exporting import archives, onnx_weights, protocol
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.rules import opsets as target_limits
from models_registry.rules import tensors

KEEP_BESIDE_ABOVE: Final = protocol.INLINE_BYTES
_MEMBERS: Final = 5_000
_TENSORS: Final = 2_000
_UNPACKED_BYTES: Final = 4 * 1024**3


def unpack(source: Path, into: Path, *, graph_only: bool = False) -> Path:
    """The one ONNX file of an archive, unpacked beside its external data (or alone).

    All together may have as many bytes as this process may write into one file.
    """
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    bounds = archives.Bounds(_MEMBERS, _UNPACKED_BYTES if most < 0 else most)
    files = archives.extract(source, into, bounds, _is_graph if graph_only else None)
    found = [path for path in files if _is_graph(path.name)]
    if len(found) != 1:
        raise Refused(
            "archive_without_model" if not found else "archive_with_many_models",
            f"The archive holds {len(found)} ONNX files; exactly one is needed.",
            "Pack one model.onnx and its external data files.",
        )
    return found[0]


def _is_graph(name: str) -> bool:
    return name.lower().endswith(".onnx")


def graph_of(path: Path) -> onnx.ModelProto:
    """The graph alone: what lies in other files is neither looked for nor read.

    `Refused` for what is not ONNX, and above 2 GB.
    """
    if path.stat().st_size > onnx_weights.MAX_MESSAGE_BYTES:
        raise Refused(
            "onnx_too_large",
            "The ONNX file is larger than 2 GB, which no protobuf message can be.",
            "Save it with external data (onnx.save_model(…, save_as_external_data=True)) and "
            "upload the .onnx file and its data file together.",
        )
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
    _refuse_unusable(model)
    return model


def _refuse_unusable(model: onnx.ModelProto) -> None:
    """`Refused` for more tensors, axes or letters than a caller, a page or Triton could use."""
    weights = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in weights]
    values += model.graph.output
    if len(values) > _TENSORS:
        raise Refused(
            "too_many_tensors",
            f"The model has {len(values):,} inputs and outputs; at most {_TENSORS:,} are served.",
            "Join those of one data type into one tensor with an axis more (torch.stack, Concat).",
        )
    for value in values:
        if not is_usable(value.name):
            shown = repr(value.name[:40])
            raise Refused(
                "tensor_name_unusable",
                f"An input or output is called {shown}: it has {len(value.name):,} characters or "
                "some that cannot be seen.",
                f"Give it a name of 1 to {tensors.MAX_NAME} printable characters.",
            )
        rank = len(value.type.tensor_type.shape.dim)
        if rank > tensors.MAX_RANK:
            raise Refused(
                "too_many_axes",
                f"“{value.name}” has {rank:,} axes; at most {tensors.MAX_RANK} can be served.",
                "Reshape it inside the model.",
            )
    longest = max(len(node.op_type) for part in graphs(model.graph) for node in part.node)
    if longest > tensors.MAX_NAME:
        raise Refused(
            "operator_name_too_long",
            f"An operator's name has {longest:,} characters; at most {tensors.MAX_NAME} are taken.",
            "Give the function a shorter name.",
        )


def is_usable(name: str) -> bool:
    """Whether a tensor or an axis can be called so: what `rules.tensors` takes from people."""
    return 0 < len(name) <= tensors.MAX_NAME and name.isprintable()


def load(path: Path, *, keep_above: int = KEEP_BESIDE_ABOVE) -> onnx.ModelProto:
    """The model with its external data merged in; never reads a file outside `path`'s folder.

    With more than `keep_above` bytes in all, weights that lie in other files stay there, checked.
    `Refused` for what is not ONNX, for missing or damaged data and for paths that lead outside.
    """
    model = graph_of(path)
    onnx_weights.attach(model, path.parent, keep_above=keep_above)
    return model


def settle(path: Path, *, keep_above: int = KEEP_BESIDE_ABOVE) -> None:
    """Bring what an exporter wrote into the form that is served: one file, or two above the limit.

    Exporters write one file for each tensor once a model has more than 2 GB.
    """
    model = graph_of(path)
    elsewhere = onnx_weights.beside(model)
    if not elsewhere and onnx_weights.total_bytes(model) <= keep_above:
        return
    drafts = path.with_name("exported")
    drafts.mkdir()
    for name in {path.name, *elsewhere}:
        if archives.is_safe(name) and (path.parent / name).is_file():
            (drafts / name).parent.mkdir(parents=True, exist_ok=True)
            (path.parent / name).rename(drafts / name)
    onnx_weights.write(model, drafts, path, keep_above=keep_above)
    shutil.rmtree(drafts)


graphs = onnx_weights.graphs


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
        named = dim.dim_param if dim.dim_param.strip("? ") and is_usable(dim.dim_param) else ""
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
    """The graph that lies there, once ONNX's checker and strict shape inference take it."""
    model = graph_of(path)
    refusal = target_limits.refusal(target, opsets(model), model.ir_version)
    if refusal is not None:
        raise Refused(refusal.code, refusal.message, refusal.hint, refusal.pointer)
    onnx_weights.attach(model, path.parent, keep_above=0)
    try:
        # By path: the checker reads the file itself, and leaves weights beside it where they are.
        onnx.checker.check_model(str(path), full_check=True)
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
