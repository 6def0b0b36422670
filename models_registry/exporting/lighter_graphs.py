"""The four ways to a lighter graph. Each takes a model and gives another one; none looks at files.

Runs inside the sandbox: what the tools write of their own goes to `tempfile`'s folder.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

from models_registry.exporting import onnx_files, onnx_weights
from models_registry.exporting.protocol import Refused
from models_registry.rules import optimisations

_LARGEST_HALF: Final = float(np.finfo(np.float16).max)
_FOLDED_AT_MOST: Final = 10 << 20
_LAYER_NORM_OPSET: Final = 17
_INTEGER_OPERATORS: Final = ("ConvInteger", "MatMulInteger", "DequantizeLinear")


@dataclass(frozen=True, slots=True)
class Lighter:
    """The new model, and what a person should know of it."""

    model: onnx.ModelProto
    warnings: list[str] = field(default_factory=list)


def simplified(model: onnx.ModelProto, libraries: Sequence[Path]) -> Lighter:
    """onnxsim: constants folded (up to 10 MiB each), what has no use removed."""
    import onnxsim

    if len(libraries) > 1:
        raise Refused(
            "optimisation_failed",
            f"onnxsim can load one library of custom operators; this graph needs {len(libraries)}.",
            "Keep the original, or try the graph optimisation.",
        )
    made, sound = onnxsim.simplify(
        model,
        tensor_size_threshold=f"{_FOLDED_AT_MOST >> 10}KB",
        custom_lib=str(libraries[0]) if libraries else None,
    )
    if not sound:
        raise Refused(
            "optimisation_failed",
            "onnxsim says of its own result that it is not the same model.",
            "Keep the original, or try the graph optimisation.",
        )
    return Lighter(made)


def fused(model: onnx.ModelProto, libraries: Sequence[Path]) -> Lighter:
    """ONNX Runtime's offline optimisation at its level EXTENDED.

    The level above it lays tensors out for the processor at hand, which another node may not have.
    (onnxruntime.ai, "Graph Optimizations in ONNX Runtime")
    """
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    return Lighter(_by_runtime(model, level, libraries))


def halved(model: onnx.ModelProto, libraries: Sequence[Path], *, keep_io: bool) -> Lighter:
    """Weights and arithmetic in FP16; what has no FP16 form or overflows there stays FP32.

    Constants are folded first, while they are FP32: a batch norm's small variances are lost in FP16
    (a text detector answered 1.0 for 4e-6 before, and is right to 1.5e-7 since).
    """
    from onnxruntime.transformers import float16

    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    made = _by_runtime(model, level, libraries)
    _name_nodes(made)
    cut = _beyond_half(made)
    kept = [*float16.DEFAULT_OP_BLOCK_LIST, *optimisations.KEPT_IN_FP32, *_foreign(made)]
    before = _halves(made)
    converted = float16.convert_float_to_float16(made, keep_io_types=keep_io, op_block_list=kept)
    # The converter appends its casts at the end; ONNX wants nodes in the order of their use.
    for part in onnx_weights.graphs(converted.graph):
        _sort_nodes(part)
    if _halves(converted) <= before:
        refusal = optimisations.nothing_to_convert()
        raise Refused(refusal.code, refusal.message, refusal.hint)
    warnings = [
        "FP16 pays on a GPU. ONNX Runtime’s CPU build has few FP16 kernels: there the file is "
        "half as large, but it computes in FP32 and is no faster."
    ]
    if cut:
        warnings.append(
            f"{cut} weights lie beyond ±{_LARGEST_HALF:.0f}, the range of FP16, and were cut there."
        )
    return Lighter(converted, warnings)


def quantised(model: onnx.ModelProto, libraries: Sequence[Path]) -> Lighter:
    """Weights of matrix products, convolutions and embeddings as 8-bit integers.

    Unsigned ones: ONNX Runtime 1.17.3 and 1.19.2 have no ConvInteger with signed weights
    (measured), and signed ones saturate on processors without VNNI.
    (onnxruntime.ai, "Quantize ONNX models", "When and why do I need to try U8U8?")
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    prepared = onnx.shape_inference.infer_shapes(_by_runtime(model, level, libraries))
    _name_nodes(prepared)
    before = _integers(prepared)
    # Shape inference stops at a custom operator; what follows one that took FP32 is FP32 as well.
    options = {"DefaultTensorType": TensorProto.FLOAT} if _foreign(prepared) else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        quantize_dynamic(
            prepared,
            str(path),
            op_types_to_quantize=["Conv", "Gather", "MatMul"],
            weight_type=QuantType.QUInt8,
            extra_options=options,
        )
        made = onnx.load_model(str(path))
    if _integers(made) <= before:
        refusal = optimisations.nothing_constant_to_quantise()
        raise Refused(refusal.code, refusal.message, refusal.hint)
    warnings = []
    if "ConvInteger" in onnx_files.operators(made):
        warnings.append(
            "Convolutions in INT8 that are quantised while they run are mostly slower than in FP32 "
            "on a CPU: compare the latency with the original’s."
        )
    return Lighter(made, warnings)


def tidy(model: onnx.ModelProto) -> None:
    """Take out imports of domains without an operator: a runtime refuses versions it has not."""
    used = {node.domain for part in onnx_weights.graphs(model.graph) for node in part.node}
    used |= {node.domain for function in model.functions for node in function.node}
    kept = [entry for entry in model.opset_import if entry.domain in used | {"", "ai.onnx"}]
    del model.opset_import[:]
    model.opset_import.extend(sorted(kept, key=lambda entry: entry.domain))


def _by_runtime(
    model: onnx.ModelProto,
    level: onnxruntime.GraphOptimizationLevel,
    libraries: Sequence[Path],
) -> onnx.ModelProto:
    """What ONNX Runtime makes of the graph, as it writes it down before running it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = level
    for library in libraries:
        options.register_custom_ops_library(str(library))
    # Both write an operator into ONNX's own domain that the standard does not have there.
    without = ["SimplifiedLayerNormFusion"]
    if onnx_files.opsets(model).get("", 0) < _LAYER_NORM_OPSET:
        without.append("LayerNormFusion")
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "given.onnx"), Path(folder, "made.onnx")
        onnx.save_model(model, str(given))
        options.optimized_model_filepath = str(made)
        onnxruntime.InferenceSession(
            str(given), options, providers=["CPUExecutionProvider"], disabled_optimizers=without
        )
        return onnx.load_model(str(made))


def _sort_nodes(graph: onnx.GraphProto) -> None:
    """Every node after those whose outputs it reads, and else as it stood."""
    nodes = list(graph.node)
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    readers: dict[int, set[int]] = {index: set() for index in range(len(nodes))}
    waits = []
    for index, node in enumerate(nodes):
        needed = {makers[name] for name in _read_by(node) if name in makers} - {index}
        waits.append(len(needed))
        for maker in needed:
            readers[maker].add(index)
    ready = [index for index, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in readers[index]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, reader)
    del graph.node[:]
    graph.node.extend(order)


def _read_by(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, in its own inputs or in a graph inside it."""
    names = set(node.input)
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            for part in onnx_weights.graphs(inner):
                names |= {name for one in part.node for name in one.input}
                names |= {output.name for output in part.output}
    return names


def _name_nodes(model: onnx.ModelProto) -> None:
    """The tools tell nodes apart by name, and a file may leave names out or use one twice."""
    seen: set[str] = set()
    for number, part in enumerate(onnx_weights.graphs(model.graph)):
        for index, node in enumerate(part.node):
            if not node.name or node.name in seen:
                node.name = f"{node.op_type}_{number}_{index}"
            seen.add(node.name)


def _beyond_half(model: onnx.ModelProto) -> int:
    """How many weights FP16 cannot hold."""
    return sum(
        int((np.abs(numpy_helper.to_array(tensor)) > _LARGEST_HALF).sum())
        for part in onnx_weights.graphs(model.graph)
        for tensor in part.initializer
        if tensor.data_type == TensorProto.FLOAT
    )


def _foreign(model: onnx.ModelProto) -> set[str]:
    """Operators that are not ONNX's own: nobody says that they have an FP16 form."""
    return {
        node.op_type
        for part in onnx_weights.graphs(model.graph)
        for node in part.node
        if node.domain not in ("", "ai.onnx")
    }


def _halves(model: onnx.ModelProto) -> int:
    """Tensors of the file that are FP16."""
    total = 0
    for part in onnx_weights.graphs(model.graph):
        total += sum(tensor.data_type == TensorProto.FLOAT16 for tensor in part.initializer)
        total += sum(
            attribute.t.data_type == TensorProto.FLOAT16
            for node in part.node
            for attribute in node.attribute
            if attribute.HasField("t")
        )
    return total


def _integers(model: onnx.ModelProto) -> int:
    """Operators that work on 8-bit weights."""
    counts = onnx_files.operators(model)
    return sum(counts.get(name, 0) for name in _INTEGER_OPERATORS)
