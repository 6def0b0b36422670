"""Bring an ONNX file to versions that its target loads, where nothing of the model is lost by it.

A mend is never silent: each gives a sentence for people, and the comparison with the file as it was
uploaded (`reference`) decides whether the model is still the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import onnx
from onnx import AttributeProto, TensorProto, version_converter

from models_registry.exporting import onnx_files, onnx_weights
from models_registry.exporting.protocol import Refusal, Refused
from models_registry.rules import opsets

RAISED_OPSET: Final = 17
_ML: Final = "ai.onnx.ml"

# What a later IR version brought that no earlier one can say (onnx.proto, comments of `Version`).
_TYPES_SINCE: Final[dict[int, tuple[str, ...]]] = {
    9: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
    10: ("UINT4", "INT4"),
    11: ("FLOAT4E2M1",),
    12: ("FLOAT8E8M0",),
    13: ("UINT2", "INT2"),
}
_TYPE_IR: Final = {
    TensorProto.DataType.Value(name): version
    for version, names in _TYPES_SINCE.items()
    for name in names
    if hasattr(TensorProto, name)
}


def fit(model: onnx.ModelProto, target: str) -> tuple[onnx.ModelProto, list[str]]:
    """The model in versions that `target` loads, and what was changed, in sentences.

    The model itself comes back, unchanged, when the target loads it. `Refused` when it can only be
    loaded by a newer release.
    """
    refusal = opsets.refusal(target, onnx_files.opsets(model), model.ir_version)
    if refusal is None:
        return model, []
    said: list[str] = []
    model = _converted(model, target, refusal, said)
    _lower_ml(model, target, said)
    _lower_ir(model, target, said)
    left = opsets.refusal(target, onnx_files.opsets(model), model.ir_version)
    if left is not None:
        raise _refused(left)
    return model, said


def _refused(refusal: Refusal, why: str = "") -> Refused:
    message = f"{refusal.message} {why}".strip()[:900]
    return Refused(refusal.code, message, refusal.hint, refusal.pointer)


def _converted(
    model: onnx.ModelProto, target: str, refusal: Refusal, said: list[str]
) -> onnx.ModelProto:
    """The opset of ONNX's own operators, down to the target's highest or up from below 7."""
    limits = opsets.runtime(target)
    had = onnx_files.opsets(model).get("", 0)
    if not had or opsets.MIN_OPSET <= had <= limits.opset:
        return model
    wanted = limits.opset if had > limits.opset else min(RAISED_OPSET, limits.opset)
    if had > onnx.defs.onnx_opset_version():
        raise _refused(refusal)  # from the future: nobody here knows what its operators mean
    if onnx_weights.beside(model):
        raise _refused(refusal, "A model with weights in other files is not converted here.")
    draft = onnx.ModelProto()
    draft.CopyFrom(model)
    draft.ir_version = max(draft.ir_version, 4)  # weights need not be inputs any more
    try:
        converted: onnx.ModelProto = version_converter.convert_version(draft, wanted)
        onnx.checker.check_model(converted, full_check=True)
    except Exception as error:
        # The converter's own complaint without the place in its C++ that raised it.
        reason = re.sub(r"^/\S+ \S+ Assertion .* failed: ", "", " ".join(str(error).split()))[:300]
        raise _refused(refusal, f"It cannot be converted to opset {wanted}: {reason}.") from error
    said.append(
        f"The file was converted from opset {had} to {wanted}, "
        + (
            f"the highest that Triton {target} loads"
            if wanted < had
            else "because ONNX Runtime loads opsets from 7 on"
        )
        + "; validation compares it with the file as it was uploaded."
    )
    return converted


def _lower_ml(model: onnx.ModelProto, target: str, said: list[str]) -> None:
    """ai.onnx.ml has no converter: its number is lowered where every operator was there before."""
    limit = opsets.runtime(target).ml_opset
    entry = next((item for item in model.opset_import if item.domain == _ML), None)
    if entry is None or entry.version <= limit:
        return
    used = {
        node.op_type
        for graph in onnx_files.graphs(model.graph)
        for node in graph.node
        if node.domain == _ML
    }
    newer = sorted(name for name in used if _since(name, entry.version) > limit)
    if newer:
        refusal = opsets.refusal(target, onnx_files.opsets(model), model.ir_version)
        if refusal is not None:
            raise _refused(refusal, f"It needs that opset for {', '.join(newer)[:200]}.")
    said.append(
        f"The opset of {_ML} was lowered from {entry.version} to {limit}: none of the file's "
        "operators changed between the two."
    )
    entry.version = limit


def _since(operator: str, opset: int) -> int:
    try:
        return int(onnx.defs.get_schema(operator, opset, _ML).since_version)
    except onnx.defs.SchemaError:
        return opset


def _lower_ir(model: onnx.ModelProto, target: str, said: list[str]) -> None:
    limit = opsets.runtime(target).ir_version
    if model.ir_version <= limit:
        return
    needed = dict(_needs(model))
    held = [what for what, version in needed.items() if version > limit]
    if held:
        refusal = opsets.refusal(target, {}, model.ir_version)
        if refusal is not None:
            raise _refused(refusal, f"It cannot be lowered: the file has {', '.join(held)[:200]}.")
    said.append(
        f"The IR version was lowered from {model.ir_version} to {limit}, which Triton {target} "
        "loads; nothing in the file needs the newer one."
    )
    model.ir_version = limit


def _needs(model: onnx.ModelProto) -> Iterator[tuple[str, int]]:
    """What in the file only a later IR version can say, with that version."""
    for kind in _types(model):
        if kind in _TYPE_IR:
            yield f"tensors of the type {TensorProto.DataType.Name(kind)}", _TYPE_IR[kind]
    if any(function.overload for function in model.functions):
        yield "overloaded functions", 10
    if len(getattr(model, "configuration", ())):
        yield "a multi-device configuration", 11


def _types(model: onnx.ModelProto) -> set[int]:
    found: set[int] = set()
    for graph in onnx_files.graphs(model.graph):
        found.update(tensor.data_type for tensor in graph.initializer)
        for value in (*graph.input, *graph.output, *graph.value_info):
            found.add(value.type.tensor_type.elem_type)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    found.add(attribute.t.data_type)
                elif attribute.type == AttributeProto.INT and attribute.name in {"to", "dtype"}:
                    found.add(attribute.i)
    return found
