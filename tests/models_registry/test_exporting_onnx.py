"""ONNX files as they are, through the real sandbox: what is taken, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from models_registry.adapters import sandbox
from models_registry.exporting import onnx_files
from models_registry.exporting.protocol import ProposeRequest, Refused
from models_registry.rules import tensors
from tests.models_registry import model_files
from tests.models_registry.exporting_runs import answers, axes, export, facts_of
from tests.models_registry.model_files import graph, layers, node, plain, save, value

# ONNX as it is: accepted


def _weights_as_inputs() -> onnx.ModelProto:
    nodes, weights = layers()
    listed = [value(name, array.shape) for name, array in weights.items()]
    inputs = [value("x", ["N", 5]), *listed]
    return graph(nodes, inputs, [value("y", ["N", 2])], weights, opset=9, ir=3)


def _half() -> onnx.ModelProto:
    nodes, weights = layers(np.float16)
    kind = TensorProto.FLOAT16
    return graph(nodes, [value("x", ["N", 5], kind)], [value("y", ["N", 2], kind)], weights)


def _text() -> onnx.ModelProto:
    kind = TensorProto.STRING
    return graph(
        [node("StringConcat", ["a", "text"], ["y"])],
        [value("text", ["N"], kind)],
        [value("y", ["N"], kind)],
        {"a": np.array(["x:"], object)},
        opset=20,
        ir=9,
    )


def _flat() -> onnx.ModelProto:
    weights = {"w": np.ones((6, 2), np.float32)}
    return graph([node("MatMul", ["x", "w"], ["y"])], [value("x", [6])], [value("y", [2])], weights)


def _odd_names() -> onnx.ModelProto:
    model = plain()
    model.graph.input[0].name = model.graph.node[0].input[0] = "in/put tensor:0"
    model.graph.output[0].name = model.graph.node[-1].output[0] = "out put/BiasAdd:0"
    return model


def _frozen_batch() -> onnx.ModelProto:
    return graph(
        [node("Reshape", ["x", "four"], ["y"])],
        [value("x", ["N", 6])],
        [value("y", [4, 2, 3])],
        {"four": np.array([4, 2, 3])},
    )


def _free(name: str, dtype: str = "FP32", *fixed: int) -> tuple[Any, ...]:
    """A tensor with a free first axis N."""
    return name, dtype, (-1, *fixed), ("N", *("" for _ in fixed))


def _fixed(name: str, dtype: str = "FP32", *sizes: int) -> tuple[Any, ...]:
    """A tensor without a free axis."""
    return name, dtype, sizes, tuple("" for _ in sizes)


X, Y = _free("x", "FP32", 5), _free("y", "FP32", 2)
HALF_X, HALF_Y = _free("x", "FP16", 5), _free("y", "FP16", 2)
ODD = ("in/put tensor:0", *X[1:]), ("out put/BiasAdd:0", *Y[1:])
LOOP = [_free("x", "FP32", 3), _fixed("n", "INT64")]


@pytest.mark.parametrize(
    ("model", "name", "inputs", "outputs", "batch"),
    [
        (plain(), "модель-🚀.onnx", [X], [Y], 0),
        (_weights_as_inputs(), "model.onnx", [X], [Y], 0),
        (_half(), "model.onnx", [HALF_X], [HALF_Y], 0),
        (_text(), "model.onnx", [_free("text", "BYTES")], [_free("y", "BYTES")], 0),
        (_odd_names(), "model.pt", [ODD[0]], [ODD[1]], 0),
        (_flat(), "m.onnx", [_fixed("x", "FP32", 6)], [_fixed("y", "FP32", 2)], None),
        (
            _frozen_batch(),
            "m.onnx",
            [_fixed("x", "FP32", 4, 6)],
            [_fixed("y", "FP32", 4, 2, 3)],
            None,
        ),
        (model_files.loop(forever=False), "m.onnx", LOOP, [_free("y", "FP32", 3)], None),
    ],
)
def test_an_onnx_file_is_taken_as_it_is(
    tmp_path: Path,
    model: onnx.ModelProto,
    name: str,
    inputs: Any,
    outputs: Any,
    batch: int | None,
) -> None:
    source = save(model, tmp_path, name)

    result = export(source, tmp_path / "box")

    facts = facts_of(result)
    assert (axes(facts.inputs), axes(facts.outputs), facts.batch_axis) == (inputs, outputs, batch)
    assert result.outputs["model.onnx"].read_bytes() == source.read_bytes()


def test_a_false_declaration_is_corrected_and_said(tmp_path: Path) -> None:
    nodes, weights = layers()
    nodes[-1] = node("MatMul", ["t", "w2"], ["y0"])
    nodes += [node("Cast", ["shape"], ["s"], to=7), node("Reshape", ["y0", "s"], ["y"])]
    weights["shape"] = np.array([-1, 2], np.float32)
    model = graph(nodes, [value("x", ["N", 5])], [value("y", ["N", 7])], weights)

    result = export(save(model, tmp_path), tmp_path / "box")

    facts = facts_of(result)
    assert axes(facts.outputs) == [("y", "FP32", (-1, 2), ("N", ""))]
    assert "[-1, 7]" in facts.warnings[0]
    written = onnx.load(result.outputs["model.onnx"])
    assert written.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 2


def test_a_size_that_depends_on_values_is_free(tmp_path: Path) -> None:
    nodes = [node("Range", ["zero", "n", "one"], ["y"])]
    weights = {"zero": np.int64(0), "one": np.int64(1)}
    integer = TensorProto.INT64
    model = graph(nodes, [value("n", [], integer)], [value("y", [5], integer)], weights)

    facts = facts_of(export(save(model, tmp_path), tmp_path / "box"))

    assert axes(facts.outputs) == [("y", "INT64", (-1,), ("y_dim_0",))]


def test_a_recurrent_model_is_taken_without_a_description(tmp_path: Path) -> None:
    branch = [
        helper.make_graph(
            [node("Identity", ["sum"], [f"{name}_y"])], name, [], [value(f"{name}_y", None)]
        )
        for name in ("then", "else")
    ]
    branch[1].node[0].CopyFrom(node("Reshape", ["sum", "impossible"], ["else_y"]))
    model = graph(
        [
            node("ReduceMean", ["x"], ["mean"], axes=[1]),
            node("Add", ["mean", "state"], ["sum"]),
            node("Equal", ["rate", "known"], ["same"]),
            node("If", ["same"], ["y"], then_branch=branch[0], else_branch=branch[1]),
        ],
        [
            value("x", [None, None]),
            value("state", [2, None, 1]),
            value("rate", [], TensorProto.INT64),
        ],
        [value("y", [2, None, None])],
        {"known": np.int64(16_000), "impossible": np.array([7, 7, 7, 7], np.int64)},
    )

    facts = facts_of(export(save(model, tmp_path), tmp_path / "box"))

    assert facts.ranges["rate"] == [16_000, 16_000]
    assert [spec.dims for spec in facts.inputs] == [("batch", "dim_1"), ("", "batch", ""), ()]


def test_external_data_is_merged(tmp_path: Path) -> None:
    bundle, alone = model_files.external(tmp_path)
    x = np.ones((2, 5), np.float32)
    expected = onnxruntime.InferenceSession(str(alone)).run(None, {"x": x})

    merged = export(bundle, tmp_path / "merged")
    lonely = tmp_path / "lonely.onnx"
    lonely.write_bytes(alone.read_bytes())
    missing = export(lonely, tmp_path / "missing")

    assert np.array_equal(answers(merged, x=x)[0], expected[0])
    assert missing.refusal is not None
    assert missing.refusal.code == "external_data_missing"
    assert "model.onnx.data" in missing.refusal.message


# ONNX as it is: refused


def _cycle() -> onnx.ModelProto:
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]
    return graph(nodes, [value("x", ["N", 4])], [value("b", ["N", 4])])


def _stranger() -> onnx.ModelProto:
    warp = node("WarpDrive", ["x"], ["y"], domain="com.example.secret")
    inputs, outputs = [value("x", ["N", 4])], [value("y", ["N", 4])]
    return graph([warp], inputs, outputs, domains=[("com.example.secret", 1)])


def _mismatch() -> onnx.ModelProto:
    nodes, weights = layers()
    return graph(nodes, [value("x", ["N", 6])], [value("y", ["N", 7])], weights)


def _huge() -> onnx.ModelProto:
    model = plain()
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([2**31, 2**31])
    return model


def _memory_bomb() -> onnx.ModelProto:
    nodes = [
        node("ConstantOfShape", ["shape"], ["big"]),
        node("ReduceMax", ["big"], ["m"], keepdims=0),
        node("Add", ["x", "m"], ["y"]),
    ]
    weights = {"shape": np.array([2**20, 2**20])}
    return graph(nodes, [value("x", ["N", 3])], [value("y", ["N", 3])], weights)


def _sequence() -> onnx.ModelProto:
    model = plain()
    model.graph.node.append(node("SequenceConstruct", ["y"], ["s"]))
    del model.graph.output[:]
    kind = onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 2])
    listed = onnx.helper.make_sequence_type_proto(kind)
    model.graph.output.append(onnx.helper.make_value_info("s", listed))
    return model


@pytest.mark.parametrize(
    ("make", "code", "names"),
    [
        (lambda folder: save(_cycle(), folder), "onnx_invalid", "checker"),
        (lambda folder: save(_mismatch(), folder), "onnx_invalid", "MatMul"),
        (lambda folder: save(_stranger(), folder), "operator_unknown", "WarpDrive"),
        (lambda folder: save(_huge(), folder), "tensor_too_large", "w1"),
        (lambda folder: save(_memory_bomb(), folder), "memory_limit", "memory"),
        (lambda folder: save(_sequence(), folder), "output_not_a_tensor", "“s” is a"),
        (lambda folder: save(plain(opset=99), folder), "opset_too_new", "7 to 21"),
        (model_files.outside, "external_data_unsafe", "etc/hostname"),
    ],
)
def test_a_bad_onnx_file_is_refused_with_a_reason(
    tmp_path: Path, make: Callable[[Path], Path], code: str, names: str
) -> None:
    result = export(make(tmp_path), tmp_path / "box")

    assert result.refusal is not None, result
    assert result.refusal.code == code
    assert names in result.refusal.message
    assert result.refusal.hint
    assert "/box/" not in result.refusal.message
    assert not model_files.MARKER.exists()


def _crowded() -> onnx.ModelProto:
    names = [f"y{number}" for number in range(2_000)]
    nodes = [node("Relu", ["x"], [name]) for name in names]
    return graph(nodes, [value("x", ["N", 5])], [value(name, ["N", 5]) for name in names])


def _called(name: str, rank: int = 1) -> onnx.ModelProto:
    shape = [f"a{axis}" for axis in range(rank)]
    return graph([node("Relu", [name], ["y"])], [value(name, shape)], [value("y", shape)])


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        (_crowded(), "too_many_tensors", "2,001 inputs and outputs"),
        (_called("x" * 257), "tensor_name_unusable", "257 characters"),
        (_called("x\0y"), "tensor_name_unusable", "cannot be seen"),
        (_called("x\u202ey"), "tensor_name_unusable", "cannot be seen"),
        (_called("x", 17), "too_many_axes", "17 axes"),
        (graph([node("R" * 257, ["x"], ["y"])], [value("x", [1])], [value("y", [1])]),
         "operator_name_too_long", "257 characters"),
    ],
)  # fmt: skip
def test_what_nobody_could_call_or_show_is_refused_before_anything_is_run(
    tmp_path: Path, model: onnx.ModelProto, code: str, words: str
) -> None:
    with pytest.raises(Refused) as refused:
        onnx_files.graph_of(save(model, tmp_path))
    assert refused.value.refusal.code == code
    assert words in refused.value.refusal.message
    assert len(refused.value.refusal.message) < 300


def test_the_longest_name_is_taken(tmp_path: Path) -> None:
    found = onnx_files.inputs(onnx_files.graph_of(save(_called("x" * 256, 16), tmp_path)))
    assert [len(spec.name) for spec in found] == [256]
    odd = _called("x")
    odd.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "b\u202e" * 500
    assert onnx_files.inputs(odd)[0].dims == ("batch",)


def test_an_inference_without_end_is_stopped(tmp_path: Path) -> None:
    source = save(model_files.loop(forever=True), tmp_path)

    result = export(source, tmp_path / "box", inference_seconds=1.0)

    assert result.ending == "refused"
    assert result.refusal is not None
    assert result.refusal.code == "inference_time_limit"


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ([{"name": "z", "dtype": "FP32", "shape": [-1, 5]}], "inputs_do_not_fit"),
        ([{"name": "x", "dtype": "FP64", "shape": [-1, 5]}], "dtype_does_not_fit"),
        ([{"name": "x", "dtype": "FP32", "shape": [-1, 4]}], "shape_does_not_fit"),
    ],
)
def test_inputs_that_are_not_the_files_are_refused(
    tmp_path: Path, inputs: list[dict[str, Any]], code: str
) -> None:
    result = export(save(plain(), tmp_path), tmp_path / "box", inputs=inputs)

    assert result.refusal is not None
    assert (result.refusal.code, result.refusal.pointer) == (code, "/inputs")


def test_the_form_is_filled_from_an_onnx_file(tmp_path: Path) -> None:
    result = sandbox.run(
        "propose",
        ProposeRequest("onnx").to_json(),
        workdir=tmp_path / "box",
        files={"source": save(plain(), tmp_path)},
    )

    assert axes(tensors.parse(result.answer["inputs"])) == [X]
    assert axes(tensors.parse(result.answer["outputs"])) == [Y]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"opset": 22}, "opset_not_supported"),
        ({"opset": 6}, "opset_not_supported"),
        ({"target": "31.01"}, "target_unknown"),
    ],
)
def test_the_target_bounds_the_opset(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    result = export(save(plain(), tmp_path), tmp_path / "box", **change)

    assert result.refusal is not None
    assert result.refusal.code == code
