"""Operators of a graph that are not ONNX's own: whether the serving node's backend has them.

A node has what its ONNX Runtime brings (`rules.contributed_operators`) and what the libraries bring
that the site offers; those lie, read-only, in `LIBRARIES`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import onnx
import onnxruntime
from onnx import TensorProto, helper

from models_registry.exporting import onnx_files
from models_registry.exporting.harness import INPUT
from models_registry.exporting.protocol import OPERATORS, Refused
from models_registry.rules import contributed_operators, opsets

LIBRARIES: Final = INPUT / OPERATORS
_ABSENT: Final = ("is not a registered function/op", "No opset import for domain")


def libraries() -> list[Path]:
    """The site's custom operator libraries, as this process sees them."""
    return sorted(LIBRARIES.iterdir()) if LIBRARIES.is_dir() else []


def are_missing(error: Exception) -> bool:
    """Whether ONNX Runtime's error means that it does not know an operator of the graph."""
    return any(words in str(error) for words in _ABSENT)


def foreign(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """(domain, operator) of the nodes that are neither ONNX's own nor functions of the file."""
    own = {(function.domain, function.name) for function in model.functions}
    nodes = [node for graph in onnx_files.graphs(model.graph) for node in graph.node]
    nodes += [node for function in model.functions for node in function.node]
    used = {(node.domain, node.op_type) for node in nodes}
    return sorted(pair for pair in used - own if pair[0] not in contributed_operators.STANDARD)


def check(model: onnx.ModelProto, target: str) -> tuple[str, ...]:
    """Names of the libraries that the graph needs, of those that the site offers.

    `Refused`, naming operator and domain, where neither the target nor a library has one.
    """
    runtime = opsets.runtime(target).version
    needed: set[str] = set()
    for domain, operator in foreign(model):
        if contributed_operators.has(runtime, domain, operator):
            continue
        having = [path.name for path in libraries() if _has(path, domain, operator)]
        if not having:
            raise _missing(domain, operator, target, runtime)
        needed.add(having[0])
    return tuple(sorted(needed))


@lru_cache(maxsize=256)
def _has(library: Path, domain: str, operator: str) -> bool:
    """Whether a library brings an operator, asked of ONNX Runtime with a graph of that one node.

    A library lists its operators to nobody; but a node that has no operator is refused in other
    words than one whose inputs do not fit.
    """
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node(operator, [], ["y"], domain=domain)], "probe", [], [value]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    probe = helper.make_model(graph, opset_imports=imports, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        options.register_custom_ops_library(str(library))
        onnxruntime.InferenceSession(
            probe.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # noqa: BLE001 - ONNX Runtime raises a dozen kinds
        return not are_missing(error)
    return True


def _missing(domain: str, operator: str, target: str, runtime: str) -> Refused:
    where = f"Triton {target} (ONNX Runtime {runtime})"
    offered = ", ".join(path.name for path in libraries())
    since = contributed_operators.since(operator)
    if domain == contributed_operators.DOMAIN and since is not None:
        return Refused(
            "operator_too_new",
            f"The operator {domain}:{operator} is in ONNX Runtime from {since} on; {where} does "
            "not have it.",
            "Choose a newer Triton release as target, or export without this operator (graph "
            "optimisations of a newer ONNX Runtime write such operators).",
            "/target",
        )
    has = f"ONNX's own operators and those of {contributed_operators.DOMAIN}"
    return Refused(
        "operator_unknown",
        f"The operator “{operator}” of the domain “{domain}” is not one that the target has: "
        f"{where} has {has}"
        + (f", and this site adds the libraries {offered}." if offered else " and no library."),
        "Replace it by standard operators, give it a symbolic function that writes standard ones "
        "(see “Custom operators” in docs/export.md), or ask the administrator to offer its "
        "library (COVENANT_CUSTOM_OP_LIBRARIES).",
    )
