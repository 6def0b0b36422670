"""The ONNX file around a model's own graph: described inputs before it, answers named after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.compose import add_prefix

from models_registry.exporting import sampling
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.exporting.sampling import Array, Feeds
from models_registry.exporting.sessions import Session
from models_registry.rules import tensors

if TYPE_CHECKING:
    from models_registry.exporting.tabular_source import TabularSource

NEWEST_OPSET: Final = 21
_PREFIX: Final = "model_"
_ONNX: Final = {name: number for name, (_, number) in tensors.DTYPES.items()}


def exporter(core: onnx.ModelProto) -> str:
    """Who wrote the inner graph."""
    return f"{core.producer_name} {core.producer_version}".strip() or "converter"


def observed(source: TabularSource) -> list[TensorSpec]:
    """The outputs as two drawn rows show them, in the type that the graph will give."""
    sizes = dict.fromkeys(tensors.free_names(source.inputs), 2)
    feeds = sampling.feeds_for(source.inputs, sizes, (0, 0), source.ranges)
    specs = []
    for name, array in source.run(feeds):
        kind = {"O": "BYTES", "i": "INT64"}.get(array.dtype.kind, "FP32")
        rest = tuple(array.shape[1:])
        specs.append(TensorSpec(name, kind, (-1, *rest), (tensors.BATCH, *("" for _ in rest))))
    return specs


def assemble(
    core: onnx.ModelProto,
    inputs: Sequence[TensorSpec],
    *,
    initial: Sequence[tuple[str, str, int]],
    order: Sequence[int],
    answers: Sequence[tuple[str, Array]],
    names: Sequence[str],
    feeds: Feeds,
    path: Path,
    ir_version: int,
) -> None:
    """Write `path`: from the described inputs to outputs of the shape that the framework gives.

    The graph is run once to see its own shapes: converters give [n, 1] where predict gives [n].
    """
    model = onnx.ModelProto()
    model.CopyFrom(add_prefix(core, _PREFIX))
    # From IR 4 on an initializer need not be an input as well; 8 belongs to opset 15 and later
    # (onnx, docs/IR.md and docs/Versioning.md).
    model.ir_version = min(max(model.ir_version, 8), ir_version)
    _use_known_locale(model)
    own = [output.name for output in model.graph.output]
    if len(own) < len(answers):
        raise Refused(
            "export_failed",
            f"The converter gives {len(own)} outputs where the framework answers {len(answers)}.",
            "Export the model to ONNX yourself and upload that.",
        )
    own = own[: len(answers)]
    nodes, graph_inputs = _before(inputs, initial, order, [i.name for i in model.graph.input])
    del model.graph.input[:]
    model.graph.input.extend(graph_inputs)
    kept = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *kept])
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in own)
    seen = _seen(model, own, feeds, path)
    del model.graph.output[:]
    keep_double = any(spec.dtype == "FP64" for spec in inputs)
    for name, wanted, (_, answer) in zip(names, own, answers, strict=True):
        _after(model, wanted, seen[wanted], answer, name, keep_double)
    onnx.save_model(model, str(path))


def _use_known_locale(model: onnx.ModelProto) -> None:
    """Lower case by C.UTF-8, which every glibc has: nodes seldom have the default, en_US.UTF-8."""
    for node in model.graph.node:
        if node.op_type == "StringNormalizer":
            kept = [attribute for attribute in node.attribute if attribute.name != "locale"]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute("locale", "C.UTF-8")])


def _before(
    inputs: Sequence[TensorSpec],
    initial: Sequence[tuple[str, str, int]],
    order: Sequence[int],
    core_inputs: Sequence[str],
) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """Nodes from the described inputs to the inner graph's inputs, each cast to its type."""
    values = [
        helper.make_tensor_value_info(
            spec.name, _ONNX[spec.dtype], [d or s for d, s in _axes(spec)]
        )
        for spec in inputs
    ]
    nodes: list[onnx.NodeProto] = []
    pieces: list[tuple[str, str]] = []  # one column each: name, dtype

    def add(operator: str, given: Sequence[str], **attributes: Any) -> str:
        name = f"input_{len(nodes)}"
        nodes.append(helper.make_node(operator, list(given), [name], name=name, **attributes))
        return name

    def constant(value: Sequence[int]) -> str:
        return add("Constant", [], value=numpy_helper.from_array(np.array(value, np.int64)))

    def cast(name: str, dtype: str, wanted: str) -> str:
        return name if dtype == wanted else add("Cast", [name], to=_ONNX[wanted])

    straight = list(order) == list(range(len(order)))
    if len(inputs) == len(initial) == 1 and straight and len(inputs[0].shape) == 2:
        given = cast(inputs[0].name, inputs[0].dtype, initial[0][1])
        nodes.append(helper.make_node("Identity", [given], [core_inputs[0]], name="input"))
        return nodes, values
    for spec in inputs:
        if len(spec.shape) == 1:
            pieces.append((add("Reshape", [spec.name, constant([-1, 1])]), spec.dtype))
        elif spec.shape[1] == 1:
            pieces.append((spec.name, spec.dtype))
        else:
            for index in range(spec.shape[1]):
                column = add("Gather", [spec.name, constant([index])], axis=1)
                pieces.append((column, spec.dtype))
    sorted_pieces = [pieces[place] for place in order]
    for (_, dtype, width), target in zip(initial, core_inputs, strict=True):
        mine, sorted_pieces = sorted_pieces[:width], sorted_pieces[width:]
        columns = [cast(name, given, dtype) for name, given in mine]
        joined = columns[0] if width == 1 else add("Concat", columns, axis=1)
        nodes.append(helper.make_node("Identity", [joined], [target], name=f"to_{target}"))
    return nodes, values


def _axes(spec: TensorSpec) -> list[tuple[str, int]]:
    return list(zip(spec.dims, spec.shape, strict=True))


def _seen(model: onnx.ModelProto, own: Sequence[str], feeds: Feeds, path: Path) -> dict[str, Array]:
    """What the inner graph gives for the trial rows."""
    onnx.save_model(model, str(path))
    session = Session(path, seconds=60.0)
    used = {name: value for name, value in feeds.items() if name in session.inputs}
    return dict(zip(own, session.run(used), strict=True))


def _after(
    model: onnx.ModelProto, own: str, given: Array, answer: Array, name: str, keep_double: bool
) -> None:
    """Nodes from one inner output to the outer one, in the framework's shape and kind."""
    graph = model.graph
    current = own

    def add(operator: str, *more: str, **attributes: Any) -> None:
        nonlocal current
        label = f"output_{len(graph.node)}"
        node = helper.make_node(operator, [current, *more], [label], name=label, **attributes)
        graph.node.append(node)
        current = label

    def whole(values: Sequence[int]) -> str:
        label = f"output_shape_{len(graph.initializer)}"
        array = np.array(values, np.int64)
        graph.initializer.append(numpy_helper.from_array(array, label))
        return label

    rest = answer.shape[1:]
    if given.shape != answer.shape:
        if given.size == answer.size:
            add("Reshape", whole([-1, *rest]))
        elif answer.ndim == 1 and given.shape == (len(answer), 2):
            _one_of_two(add, whole, given, answer)
        else:
            raise Refused(
                "export_failed",
                f"The converter gives “{name}” the shape {list(given.shape)} where the framework "
                f"answers {list(answer.shape)}.",
                "Export the model to ONNX yourself and upload that.",
            )
    kind = answer.dtype.kind
    if kind == "i" and given.dtype != np.int64:
        add("Cast", to=TensorProto.INT64)
    elif kind == "f" and given.dtype.kind != "f":
        add("Cast", to=TensorProto.FLOAT)
    if (kind == "O") != (given.dtype.kind in "OUS"):
        raise Refused(
            "export_failed",
            f"The converter gives “{name}” as {given.dtype} where the framework answers text.",
            "Train the classifier with labels that are whole numbers or text, all of one kind.",
        )
    wide = given.dtype == np.float64 and keep_double
    if given.dtype == np.float64 and kind == "f" and not wide:
        add("Cast", to=TensorProto.FLOAT)
    graph.node.append(helper.make_node("Identity", [current], [name], name=f"to_{name}"))
    element = {"i": TensorProto.INT64, "O": TensorProto.STRING}.get(
        kind, TensorProto.DOUBLE if wide else TensorProto.FLOAT
    )
    graph.output.append(
        helper.make_tensor_value_info(name, element, [tensors.BATCH, *(int(size) for size in rest)])
    )


def _one_of_two(add: Any, whole: Any, given: Array, answer: Array) -> None:
    """A binary classifier has one score; converters give two columns, in their own signs."""
    candidates = {(1, 1): given[:, 1], (0, 1): given[:, 0], (1, -1): -given[:, 1],
                  (0, -1): -given[:, 0]}  # fmt: skip
    column, sign = min(
        candidates, key=lambda key: float(np.abs(candidates[key] - answer).max(initial=0.0))
    )
    add("Gather", whole([column]), axis=1)
    add("Reshape", whole([-1]))
    if sign < 0:
        add("Neg")
