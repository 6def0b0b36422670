"""Tiny real ONNX graphs whose answer says which version gave it."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime_extensions
from onnx import TensorProto, helper

from console.adapters.triton import TritonClient
from deployments.adapters import repository
from deployments.adapters.repository import FilePart
from models_registry.adapters import triton_config
from models_registry.rules.tuning import ConfigPlan, Tensor, TuningChoice, TuningFacts, plan

COLUMNS = 4
LIBRARY = str(onnxruntime_extensions.get_library_path())


def scaled(factor: float) -> bytes:
    """ONNX bytes of: features [batch, 4] -> score [batch, 4] = features × factor, all FP32."""
    shape = ["batch", COLUMNS]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["features", "factor"], ["score"])],
        "scaled",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, shape)],
        [helper.make_tensor("factor", TensorProto.FLOAT, [1], [factor])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def scaled_plan(model: str, queue_delay_us: int = 0) -> ConfigPlan:
    """The config's plan of `scaled`; by default without any wait for a fuller batch."""
    facts = TuningFacts(
        model=model,
        inputs=(Tensor("features", "FP32", ("batch", COLUMNS)),),
        outputs=(Tensor("score", "FP32", ("batch", COLUMNS)),),
        sample={"features": (1, COLUMNS)},
    )
    return plan(facts, TuningChoice(queue_delay_us=queue_delay_us))


def place_scaled(
    root: Path, model: str, version: int, *, triton_model: str = "", queue_delay_us: int = 0
) -> None:
    """Place `scaled(version)` as a version of a model, warm-up included."""
    config_plan = scaled_plan(model, queue_delay_us)
    text = triton_config.specialise(
        triton_config.render(config_plan), triton_model=triton_model or model
    )
    warmup = triton_config.warmup_files(config_plan, {"features": b"\x00\x00\x80\x3f" * COLUMNS})
    repository.place(
        root,
        triton_model=triton_model or model,
        version=version,
        config=[
            FilePart.of_bytes("config.pbtxt", text.encode()),
            *(FilePart.of_bytes(path, data) for path, data in warmup.items()),
        ],
        files=[FilePart.of_bytes("model.onnx", scaled(version))],
    )


def place_upper(root: Path, model: str, version: int, library: str) -> None:
    """Place words BYTES [batch, 1] -> upper, by an operator that `library` brings."""
    shape = ["batch", 1]
    graph = helper.make_graph(
        [helper.make_node("StringUpper", ["words"], ["upper"], domain="ai.onnx.contrib")],
        "upper",
        [helper.make_tensor_value_info("words", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info("upper", TensorProto.STRING, shape)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    file = helper.make_model(graph, opset_imports=imports, ir_version=8)
    facts = TuningFacts(
        model=model,
        inputs=(Tensor("words", "BYTES", ("batch", 1)),),
        outputs=(Tensor("upper", "BYTES", ("batch", 1)),),
    )
    config = triton_config.render(
        plan(facts, TuningChoice(warmup=False)), operator_libraries=[library]
    )
    text = triton_config.specialise(config, triton_model=model)
    repository.place(
        root,
        triton_model=model,
        version=version,
        config=[FilePart.of_bytes("config.pbtxt", text.encode())],
        files=[FilePart.of_bytes("model.onnx", file.SerializeToString())],
    )


def serve(
    client: TritonClient, root: Path, model: str, *versions: int, triton_model: str = ""
) -> None:
    """Place versions and load them."""
    for version in versions:
        place_scaled(root, model, version, triton_model=triton_model)
    client.load(triton_model or model)


def request(*rows: float) -> dict[str, object]:
    """A v2 request body with one row of four equal numbers for each argument."""
    data = [value for value in rows or (1.0,) for _ in range(COLUMNS)]
    shape = [len(rows) or 1, COLUMNS]
    return {"inputs": [{"name": "features", "datatype": "FP32", "shape": shape, "data": data}]}
