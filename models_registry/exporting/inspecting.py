"""Program `inspect`: what an ONNX file is, and what checker and ONNX Runtime object to.

Request: {"beside": {name: bytes}}, the files that lie beside model.onnx. Files: model.onnx, and
model.onnx.data where there is one. Answer, whatever the file is like:

    damaged     why there is no graph to speak of, "" where there is one; the rest is empty then
    checker, loading   in the words of onnx.checker and of ONNX Runtime (`runtime`), "" for nothing
    opsets, ir_version, nodes, inputs, outputs, optional (inputs with a value of their own)
    foreign     [domain, operator] of what is not ONNX's own
    data        [{location, needed, present (null when missing), outside}] of external data
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import onnx
import onnxruntime
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from models_registry.exporting import (
    archives,
    harness,
    onnx_files,
    onnx_weights,
    operators,
    protocol,
)
from models_registry.exporting.harness import Reporter
from models_registry.exporting.protocol import Json, Refused, TensorSpec
from models_registry.exporting.sessions import Session

MOST_NAMED: Final = 50
LOAD_SECONDS: Final = 60.0


def program(document: Json, reporter: Reporter) -> Json:
    """See the module."""
    path = harness.needed_file(protocol.MODEL)
    answer: Json = {
        "damaged": "",
        "checker": "",
        "loading": "",
        "runtime": onnxruntime.__version__,
        "opsets": {},
        "ir_version": 0,
        "nodes": 0,
        "inputs": [],
        "outputs": [],
        "optional": [],
        "foreign": [],
        "data": [],
    }
    reporter.progress(0.1, "Reading the file")
    try:
        model = onnx_files.graph_of(path)
    except Refused as refused:
        return {**answer, "damaged": refused.refusal.message}
    weights = {tensor.name for tensor in model.graph.initializer}
    answer |= {
        "opsets": onnx_files.opsets(model),
        "ir_version": int(model.ir_version),
        "nodes": sum(len(part.node) for part in onnx_files.graphs(model.graph)),
        "inputs": _tensors(onnx_files.inputs, model),
        "outputs": _tensors(onnx_files.outputs, model),
        "optional": sorted(v.name for v in model.graph.input if v.name in weights)[:MOST_NAMED],
        "foreign": [list(pair) for pair in operators.foreign(model)][:MOST_NAMED],
        "data": _data(model, document.get("beside", {})),
    }
    if any(one["outside"] or one["present"] is None for one in answer["data"]):
        return answer  # the checker would say the same in more words, or follow the path
    reporter.progress(0.4, "Checking the graph")
    answer["checker"] = _checker(path)
    reporter.progress(0.7, "Loading it")
    answer["loading"] = _loading(path)
    return answer


def _tensors(read: Any, model: onnx.ModelProto) -> list[Json]:
    """Inputs or outputs; nothing where one is no tensor at all, which the runtime will say."""
    try:
        specs: tuple[TensorSpec, ...] = read(model)
    except Refused:
        return []
    return [spec.to_json() for spec in specs]


def _data(model: onnx.ModelProto, beside: dict[str, int]) -> list[Json]:
    needed: dict[str, int] = {}
    for tensor, _ in onnx_weights.tensors(model):
        if not onnx_weights.is_external(tensor):
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        needed[location] = max(needed.get(location, 0), _end(entries))
    return [
        {
            "location": location[:300],
            "needed": size,
            "present": beside.get(location),
            "outside": not archives.is_safe(location),
        }
        for location, size in sorted(needed.items())[:MOST_NAMED]
    ]


def _end(entries: dict[str, str]) -> int:
    return _number(entries, "offset") + _number(entries, "length")


def _number(entries: dict[str, str], key: str) -> int:
    value = entries.get(key, "0")
    return int(value) if value.isdecimal() and len(value) < 20 else 0


def _checker(path: Path) -> str:
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (ValidationError, InferenceError) as error:
        return " ".join(str(error).split())[:2000]
    return ""


def _loading(path: Path) -> str:
    try:
        Session(path, seconds=LOAD_SECONDS, lean=True)
    except Refused as refused:
        return refused.refusal.message
    return ""


if __name__ == "__main__":
    harness.run(program)
