"""Boosted trees and labels as nodes of an ONNX graph, wherever the graph is being built."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models_registry.exporting.tabular_trees import Ensemble

Node = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Graph:
    """Where nodes go: `node(operator, inputs, outputs, domain, **attributes)`, and constants.

    `constant(name, array)` keeps an array and gives the name to use; `fresh(name)` makes names.
    """

    node: Node
    constant: Callable[[str, np.ndarray[Any, Any]], str]
    fresh: Callable[[str], str]

    def do(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; gives the output's name."""
        name = self.fresh(operator.lower())
        self.node(operator, list(inputs), [name], domain, **attributes)
        return name


def write(
    graph: Graph, found: Ensemble, features: str, missing: float = math.nan
) -> tuple[str, str]:
    """Nodes from `features` FP32 [batch, n] to answers; names of (classes' index or "", answers).

    Answers are [batch, classes] where the model classifies, else [batch, groups]. `missing` is the
    number that stands for a missing value.
    """
    if not math.isnan(missing):
        marked = graph.do("Equal", features, _number(graph, missing))
        features = graph.do("Where", marked, _number(graph, math.nan), features)
    if found.categorical:
        mask = np.array([index in found.categorical for index in range(found.features)])
        whole = graph.do(
            "Mul", graph.do("Sign", features), graph.do("Floor", graph.do("Abs", features))
        )
        features = graph.do("Where", graph.constant("categorical", mask), whole, features)
    margins = graph.do("TreeEnsembleRegressor", features, domain="ai.onnx.ml", **_attributes(found))
    if found.divisor != 1.0:
        margins = graph.do("Div", margins, _number(graph, found.divisor))
    answers = _linked(graph, found, margins)
    if not found.classes:
        return "", answers
    if found.groups == 1:
        other = graph.do("Sub", _number(graph, 1.0), answers)
        above = graph.do("Greater", answers, _number(graph, 0.5))
        index = graph.do("Cast", above, to=7)
        flat = graph.do("Reshape", index, graph.constant("flat", np.array([-1], np.int64)))
        return flat, graph.do("Concat", other, answers, axis=1)
    return graph.do("ArgMax", answers, axis=1, keepdims=0), answers


def _number(graph: Graph, value: float) -> str:
    return graph.constant("number", np.array([value], np.float32))


def _linked(graph: Graph, found: Ensemble, margins: str) -> str:
    if found.link == "sigmoid":
        scaled = graph.do("Mul", margins, _number(graph, found.slope))
        return graph.do("Sigmoid", scaled)
    if found.link == "exp":
        return graph.do("Exp", margins)
    if found.link == "softmax":
        return graph.do("Softmax", margins, axis=1)
    if found.link == "log1pexp":
        return graph.do("Softplus", margins)
    if found.link == "step":
        return graph.do("Cast", graph.do("Greater", margins, _number(graph, 0.0)), to=1)
    if found.square:
        return graph.do("Mul", graph.do("Sign", margins), graph.do("Mul", margins, margins))
    return margins


def _attributes(found: Ensemble) -> dict[str, Any]:
    return {
        "n_targets": found.groups,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "base_values": found.base,
        "nodes_treeids": found.tree,
        "nodes_nodeids": found.node,
        "nodes_featureids": found.feature,
        "nodes_modes": found.mode,
        "nodes_values": found.value,
        "nodes_truenodeids": found.true,
        "nodes_falsenodeids": found.false,
        "nodes_missing_value_tracks_true": found.missing,
        "target_treeids": [tree for tree, _, _, _ in found.leaf],
        "target_nodeids": [node for _, node, _, _ in found.leaf],
        "target_ids": [group for _, _, group, _ in found.leaf],
        "target_weights": [weight for _, _, _, weight in found.leaf],
    }


def names_of(classes: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Labels as a graph can hold them: whole numbers as INT64, everything else as text."""
    array = np.asarray(classes)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "f" and np.all(array == np.floor(array)):
        return array.astype(np.int64)
    return array.astype(str).astype(object)
