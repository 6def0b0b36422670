"""What a graph gives away about how it was made: training mode, random numbers, silent casts.

Each finding comes with the mend; what cannot be served is refused before a session complains in
words that only a runtime's author understands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import onnx
from onnx import numpy_helper

from models_registry.exporting import axes, onnx_files
from models_registry.exporting.protocol import Refused, TensorSpec
from models_registry.exporting.sampling import Feeds
from models_registry.rules import tensors

_RANDOM: Final = frozenset(
    {
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
    }
)
_TRAINING_BATCH_NORM_OUTPUTS: Final = 5  # opset 7 to 13: the running statistics are given back
_KIND: Final = {"FP": "float", "IN": "int", "UI": "int"}


def refuse_training(model: onnx.ModelProto) -> None:
    """`Refused` for batch norm that computes with the statistics of the batch it is given."""
    for node in _nodes(model):
        if node.op_type == "BatchNormalization" and _trains(node):
            raise Refused(
                "training_mode",
                f"The batch norm {_called(node)} is in training mode: it normalises with the "
                "statistics of each batch, so that an answer would depend on the other requests.",
                "Call model.eval() before tracing, scripting or torch.export; a layer with "
                "track_running_stats=False has no stored statistics and cannot be served: train "
                "it with them, or use GroupNorm or InstanceNorm.",
            )


def _trains(node: onnx.NodeProto) -> bool:
    if any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute):
        return True
    given_back = [name for name in node.output if name]
    return len(given_back) == _TRAINING_BATCH_NORM_OUTPUTS


def compared_numbers(model: onnx.ModelProto) -> dict[str, list[float]]:
    """The range worth drawing for lone integer inputs that the graph compares with a constant.

    A sampling rate or a mode is such an input: most other numbers lead into a branch that fails.
    """
    lone = {
        spec.name
        for spec in onnx_files.inputs(model)
        if spec.dtype in tensors.INTEGERS and all(size == 1 for size in spec.shape)
    }
    constants = {tensor.name: tensor for tensor in model.graph.initializer} | {
        node.output[0]: attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.HasField("t")
    }
    found: dict[str, list[float]] = {}
    for node in model.graph.node:
        if node.op_type != "Equal":
            continue
        for name, other in (tuple(node.input), tuple(reversed(node.input))):
            if name in lone and other in constants and name not in found:
                value = numpy_helper.to_array(constants[other])
                if value.size == 1:
                    found[name] = [float(value.item())] * 2
    return found


def random_answers(model: onnx.ModelProto, run: axes.Run, feeds: Feeds) -> list[str]:
    """A sentence when the graph draws random numbers that no answer shows.

    `Refused`, naming the operators, when two runs on the same inputs differ.
    """
    drawing = sorted({_word(node, model) for node in _nodes(model) if _draws(node, model)})
    if not drawing:
        return []
    words = ", ".join(drawing)[:300]
    first, second = run(feeds), run(feeds)
    changed = [
        name
        for (name, one), (_, other) in zip(first, second, strict=True)
        if not axes.same(one, other)
    ]
    if not changed:
        return [
            f"The graph draws random numbers ({words}), but its answers do not change with them."
        ]
    dropout = any("Dropout" in word for word in drawing)
    raise Refused(
        "random_answers",
        f"The same input gives another answer each time ({', '.join(changed)[:200]}): the graph "
        f"draws random numbers in {words}.",
        "Dropout was left on: use torch.nn.Dropout, or F.dropout(…, training=self.training), and "
        "call model.eval() before tracing or torch.export."
        if dropout
        else "Take the sampling out of the model: return the distribution's parameters, or give "
        "the noise as an input.",
    )


def _draws(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    if node.op_type in _RANDOM:
        return True
    return node.op_type == "Dropout" and len(node.input) > 2 and _is_true(node.input[2], model)


def _is_true(name: str, model: onnx.ModelProto) -> bool:
    """Whether a flag may be set: a constant that is false is the only one that is not."""
    for graph in onnx_files.graphs(model.graph):
        for tensor in graph.initializer:
            if tensor.name == name:
                return bool(numpy_helper.to_array(tensor).any())
        for node in graph.node:
            if name in node.output and node.op_type == "Constant":
                return bool(numpy_helper.to_array(node.attribute[0].t).any())
    return bool(name)


def _word(node: onnx.NodeProto, model: onnx.ModelProto) -> str:
    return f"{node.op_type} {_called(node)}".strip()


def _called(node: onnx.NodeProto) -> str:
    name = node.name or next(iter(node.output), "")
    return f"“{name[:80]}”" if name else ""


def silent_casts(model: onnx.ModelProto, inputs: Sequence[TensorSpec]) -> list[str]:
    """A sentence for each input that the graph casts at once to a type that holds less or more.

    Turning whole numbers into floats is how images and counts come in, and not worth a word.
    """
    said = []
    for spec in inputs:
        users = [node for node in _nodes(model) if spec.name in node.input]
        if not users or any(node.op_type != "Cast" for node in users):
            continue
        targets = {_cast_to(node) for node in users} - {spec.dtype, ""}
        if len(targets) == 1 and (other := targets.pop()) and _tells(spec.dtype, other):
            said.append(_cast_sentence(spec, other))
    return said


def _cast_to(node: onnx.NodeProto) -> str:
    number = next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
    try:
        return tensors.from_onnx(number)
    except ValueError:
        return ""


def _tells(given: str, used: str) -> bool:
    one, other = _KIND.get(given[:2], ""), _KIND.get(used[:2], "")
    return bool(one) and (one == other or (one == "float" and other == "int"))


def _cast_sentence(spec: TensorSpec, used: str) -> str:
    loses = _bits(used) < _bits(spec.dtype) or (
        spec.dtype in tensors.FLOATS and used in tensors.INTEGERS
    )
    cost = "what does not fit into it is lost" if loses else "callers send it for nothing"
    return (
        f"The input “{spec.name}” is described as {spec.dtype}, but the model casts it to {used} "
        f"before anything else: {cost}. Describe it as {used} unless callers need {spec.dtype}."
    )


def _bits(dtype: str) -> int:
    return int("".join(filter(str.isdigit, dtype)) or 8)


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in onnx_files.graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from function.node
