"""The graph's operators with the shapes that they see at batch 1, without its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx
from onnx import AttributeProto, helper

from models_registry.exporting.protocol import TensorSpec
from models_registry.rules.flops import Operation, Shape

_SMALL: Final = 1024


@dataclass(frozen=True, slots=True)
class ShapedNode:
    """One operator of the main graph; `weights` are the names of its constants."""

    operation: Operation
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parameters: int


def shaped(
    model: onnx.ModelProto, inputs: Sequence[TensorSpec], sizes: Mapping[str, int]
) -> list[ShapedNode]:
    """Operators in the graph's order; free axes have their size in `sizes`.

    Shapes are inferred on a copy in which large weights are only named, so that a model of many
    gigabytes costs nothing. A shape that cannot be inferred is None.
    """
    weights = _weights(model.graph)
    shapes = _shapes(_light(model, inputs, sizes, weights))
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Constant":
            continue
        own = sum(weights[name] for name in set(node.input) if name in weights)
        nodes.append(
            ShapedNode(
                Operation(
                    node.op_type,
                    tuple(shapes.get(name) if name else () for name in node.input),
                    tuple(shapes.get(name) for name in node.output if name),
                    _attributes(node),
                    node.domain,
                ),
                tuple(name for name in node.input if name),
                tuple(name for name in node.output if name),
                own,
            )
        )
    return nodes


def _weights(graph: onnx.GraphProto) -> dict[str, int]:
    """Elements of each constant by name."""
    found = {tensor.name: _elements(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            found[node.output[0]] = _elements(node.attribute[0].t.dims)
    return found


def _elements(dims: Sequence[int]) -> int:
    total = 1
    for size in dims:
        total *= size
    return total


def _light(
    model: onnx.ModelProto,
    inputs: Sequence[TensorSpec],
    sizes: Mapping[str, int],
    weights: Mapping[str, int],
) -> onnx.ModelProto:
    """The model with fixed sizes and without large weights and known shapes."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name or "graph"
    fixed = {spec.name: spec for spec in inputs}
    for value in model.graph.input:
        given = graph.input.add()
        given.CopyFrom(value)
        if value.name in fixed:
            spec = fixed[value.name]
            dims = [
                sizes.get(name, 1) if name else size
                for size, name in zip(spec.shape, spec.dims, strict=True)
            ]
            _set_dims(given, dims)
    for tensor in model.graph.initializer:
        _keep_or_name(graph, tensor, tensor.name)
    for node in model.graph.node:
        if node.op_type == "Constant" and weights.get(node.output[0], 0) > _SMALL:
            _keep_or_name(graph, node.attribute[0].t, node.output[0])
        else:
            graph.node.add().CopyFrom(node)
    for value in model.graph.output:
        result = graph.output.add()
        result.CopyFrom(value)
        result.type.tensor_type.ClearField("shape")
    return light


def _set_dims(value: onnx.ValueInfoProto, dims: Sequence[int]) -> None:
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size in dims:
        shape.dim.add().dim_value = size


def _keep_or_name(graph: onnx.GraphProto, tensor: onnx.TensorProto, name: str) -> None:
    inline = tensor.data_location != onnx.TensorProto.EXTERNAL
    if inline and _elements(tensor.dims) <= _SMALL:
        kept = graph.initializer.add()
        kept.CopyFrom(tensor)
        kept.name = name
        return
    if all(value.name != name for value in graph.input):
        graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))


def _shapes(light: onnx.ModelProto) -> dict[str, Shape]:
    try:
        inferred = onnx.shape_inference.infer_shapes(light, data_prop=True)
    except (RuntimeError, ValueError):
        inferred = light
    graph = inferred.graph
    found: dict[str, Shape] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            found[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return found


_PLAIN: Final = {
    AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS,
}  # fmt: skip


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes that the formulas may need: numbers, words, lists of whole numbers."""
    found = {}
    for attribute in node.attribute:
        if attribute.type in _PLAIN:
            value = helper.get_attribute_value(attribute)
            found[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return found
