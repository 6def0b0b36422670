"""Real ONNX graphs that are bad in one way each: the interface of the tests' model, and a fault."""

from __future__ import annotations

import numpy
from onnx import TensorProto, helper, numpy_helper

COLUMNS = 10


def failing() -> bytes:
    """Loads, and ends every run with an error: a shape that no request fits."""
    shape = numpy_helper.from_array(numpy.array([3, 7], numpy.int64), "shape")
    return _model(
        [
            helper.make_node("Reshape", ["features", "shape"], ["folded"]),
            helper.make_node("ReduceMean", ["folded"], ["risk_score"], axes=[1], keepdims=1),
        ],
        [shape],
    )


def slow(size: int = 900, times: int = 12) -> bytes:
    """Answers rightly after so many products of two square matrices."""
    weight = numpy_helper.from_array(numpy.full((size, size), 1e-6, numpy.float32), "weight")
    nodes = [
        helper.make_node("ReduceMean", ["features"], ["mean"], axes=[0, 1], keepdims=1),
        helper.make_node("Add", ["weight", "mean"], ["work_0"]),
    ]
    for number in range(times):
        nodes += [
            helper.make_node("MatMul", [f"work_{number}", "weight"], [f"product_{number}"]),
            helper.make_node("Add", [f"product_{number}", "mean"], [f"work_{number + 1}"]),
        ]
    nodes += [
        helper.make_node("ReduceMean", [f"work_{times}"], ["outcome"], axes=[0, 1], keepdims=1),
        helper.make_node("ReduceMean", ["features"], ["each"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["each", "nothing"], ["zeros"]),
        helper.make_node("Add", ["zeros", "outcome"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["risk_score"]),
    ]
    nothing = numpy_helper.from_array(numpy.array([0.0], numpy.float32), "nothing")
    return _model(nodes, [weight, nothing])


def not_a_number() -> bytes:
    """Answers every request with NaN: the square root of what is below zero."""
    one = numpy_helper.from_array(numpy.array([1.0], numpy.float32), "one")
    return _model(
        [
            helper.make_node("ReduceMean", ["features"], ["mean"], axes=[1], keepdims=1),
            helper.make_node("Abs", ["mean"], ["above"]),
            helper.make_node("Neg", ["above"], ["below"]),
            helper.make_node("Sub", ["below", "one"], ["negative"]),
            helper.make_node("Sqrt", ["negative"], ["risk_score"]),
        ],
        [one],
    )


def _model(nodes: list[object], initializers: list[object]) -> bytes:
    graph = helper.make_graph(
        nodes,
        "fraud_detector",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", COLUMNS])],
        [helper.make_tensor_value_info("risk_score", TensorProto.FLOAT, ["batch", 1])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())
