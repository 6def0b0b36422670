"""Files to ONNX through the real sandbox: what is taken, with which facts, and what is refused."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto

from models_registry.adapters import formats, sandbox
from models_registry.adapters.sandbox import Limits, SandboxResult
from models_registry.exporting import module_code, module_source, propose
from models_registry.exporting.protocol import (
    ExportFacts,
    ExportRequest,
    ModuleSource,
    ProposeRequest,
    Refused,
)
from models_registry.rules import tensors
from tests.models_registry import model_files
from tests.models_registry.model_files import graph, layers, node, plain, save, value


def export(
    source: Path, box: Path, *, inputs: list[dict[str, Any]] | None = None, **options: Any
) -> SandboxResult:
    """Sniff and export, as a job does; files beside the source by keyword."""
    files = {name: options.pop(name) for name in ("code", "sample") if name in options}
    detected = formats.sniff(source)
    assert detected.accepted, detected
    request = ExportRequest(detected.format, tensors.parse(inputs or []), **options)
    return sandbox.run(
        "export",
        request.to_json(),
        workdir=box,
        files={"source": source, **files},
        limits=Limits(wall_seconds=90),
    )


def facts_of(result: SandboxResult) -> ExportFacts:
    """The facts of a run that must have ended well."""
    assert result.ending == "ok", (result.refusal, result.stderr_tail)
    return ExportFacts.from_json(result.answer)


def answers(result: SandboxResult, **feeds: Any) -> list[Any]:
    """What the exported file gives in ONNX Runtime."""
    session = onnxruntime.InferenceSession(
        str(result.outputs["model.onnx"]), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


def axes(specs: Any) -> list[tuple[str, str, tuple[int, ...], tuple[str, ...]]]:
    """Inputs or outputs in short."""
    return [(spec.name, spec.dtype, spec.shape, spec.dims) for spec in specs]


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
        (lambda folder: save(_stranger(), folder), "onnx_not_loadable", "WarpDrive"),
        (lambda folder: save(_huge(), folder), "tensor_too_large", "w1"),
        (lambda folder: save(_memory_bomb(), folder), "memory_limit", "memory"),
        (lambda folder: save(_sequence(), folder), "output_not_a_tensor", "“s” is a"),
        (lambda folder: save(plain(opset=99), folder), "opset_too_new", "7 to 21"),
        (lambda folder: save(plain(ir=11), folder), "ir_version_too_new", "up to IR version 10"),
        (model_files.outside, "external_data_unsafe", "etc/hostname"),
        (model_files.evil_tar, "archive_unsafe", "PWNED"),
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


# PyTorch


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module of model_files.NET with statistics of its own, and its folder with net.py."""
    folder = tmp_path_factory.mktemp("net")
    (folder / "net.py").write_text(model_files.NET)
    names: dict[str, Any] = {}
    exec(compile(model_files.NET, "net.py", "exec"), names)
    torch.manual_seed(1)
    net = names["Scorer"]()
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(32, 6) * 2 + 1)
    return net.eval(), folder


FEATURES = [{"name": "features", "dtype": "FP32", "shape": [-1, 6], "dims": ["batch", 6]}]


def test_a_checkpoint_with_its_source_is_exported_and_again_to_the_same_bytes(
    tmp_path: Path, scorer: Any
) -> None:
    net, folder = scorer
    source = tmp_path / "last.ckpt"
    wrapped = {f"module.{key}": tensor for key, tensor in net.state_dict().items()}
    torch.save({"state_dict": wrapped, "epoch": 2, "best": np.float64(0.5)}, source)
    options: dict[str, Any] = {"inputs": FEATURES, "code": folder / "net.py"}

    result = export(source, tmp_path / "1", **options, module=ModuleSource("net.py:Scorer"))
    again = export(source, tmp_path / "2", **options)  # the class is found by its weights

    facts = facts_of(result)
    assert axes(facts.inputs) == [("features", "FP32", (-1, 6), ("batch", ""))]
    assert axes(facts.outputs) == [("risk_score", "FP32", (-1, 1), ("batch", ""))]
    assert (facts.opset, facts.ir_version, facts.batch_axis) == (17, 8, 0)
    assert facts.parameters > 0
    assert "Dropout" not in facts.operators
    assert facts_of(again).sha256 == facts.sha256
    x = np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)
    with torch.no_grad():
        expected = net(torch.from_numpy(x))["risk_score"].numpy()
    assert np.allclose(answers(result, features=x)[0], expected, rtol=1e-4, atol=1e-5)


def test_torchscript_left_in_training_mode_is_put_into_evaluation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    source = tmp_path / "model.pt"
    torch.jit.script(net.train()).save(str(source))
    inputs = [{"name": "x", "dtype": "FP32", "shape": ["batch", 4]}]

    result = export(source, tmp_path / "box", inputs=inputs, outputs=("scores",))

    facts = facts_of(result)
    assert axes(facts.outputs) == [("scores", "FP32", (-1, 2), ("batch", ""))]
    x = np.ones((3, 4), np.float32)
    with torch.no_grad():
        expected = net.eval()(torch.from_numpy(x)).numpy()
    assert np.allclose(answers(result, x=x)[0], expected, atol=1e-5)


class _Halver(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.abs().mean() > 1.0):
            x = x * 0.5
        return x


def test_scripted_control_flow_is_kept_and_dependent_rows_are_seen(tmp_path: Path) -> None:
    source = tmp_path / "model.pt"
    torch.jit.script(_Halver()).save(str(source))
    inputs = [{"name": "x", "dtype": "FP32", "shape": ["batch", 4]}]

    result = export(source, tmp_path / "box", inputs=inputs)

    facts = facts_of(result)
    assert facts.batch_axis is None
    assert "other rows" in facts.warnings[0]
    x = np.full((2, 4), 37.0, np.float32)
    assert np.allclose(answers(result, x=x)[0], _Halver()(torch.from_numpy(x)).numpy())


def test_a_program_with_named_outputs_and_a_free_batch(tmp_path: Path, scorer: Any) -> None:
    net, _ = scorer
    source = tmp_path / "model.pt2"
    batch = torch.export.Dim("batch", min=1, max=64)
    torch.export.save(
        torch.export.export(net, (torch.randn(3, 6),), dynamic_shapes=({0: batch},)), source
    )
    read = propose.torch_export(source)

    result = export(source, tmp_path / "box", inputs=read["inputs"])

    facts = facts_of(result)
    assert axes(facts.inputs) == [("features", "FP32", (-1, 6), ("batch", ""))]
    assert axes(facts.outputs) == [("risk_score", "FP32", (-1, 1), ("batch", ""))]
    assert (facts.opset, facts.ir_version, facts.batch_axis) == (17, 8, 0)


NORM = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(6, 4)
    def forward(self, x):
        return torch.nn.functional.rms_norm(self.a(x), (4,))
"""


def test_what_the_first_exporter_cannot_do_the_second_does_where_the_target_allows(
    tmp_path: Path,
) -> None:
    code, source = tmp_path / "net.py", tmp_path / "w.pt"
    code.write_text(NORM)
    torch.save({f"a.{k}": v for k, v in torch.nn.Linear(6, 4).state_dict().items()}, source)
    inputs = [{"name": "x", "dtype": "FP32", "shape": ["batch", 6]}]

    result = export(source, tmp_path / "box", inputs=inputs, code=code, target="24.04")

    facts = facts_of(result)
    assert (facts.opset, facts.ir_version, facts.batch_axis) == (18, 8, 0)
    assert axes(facts.outputs) == [("output_0", "FP32", (-1, 4), ("batch", ""))]
    assert "aten::rms_norm" in facts.warnings[0]


FROZEN = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(6, 2)
    def forward(self, x, ids):
        x = self.a(x)
        if x.sum() > 1e9:
            x = x * 2
        return x + ids.sum(1, keepdim=True).to(x.dtype), x.reshape(4, 2, 1)
"""


def test_a_frozen_batch_is_a_limit_that_is_said(tmp_path: Path) -> None:
    code, source = tmp_path / "net.py", tmp_path / "w.pt"
    code.write_text(FROZEN)
    torch.save({f"a.{k}": v for k, v in torch.nn.Linear(6, 2).state_dict().items()}, source)
    inputs = [
        {"name": "x", "dtype": "FP32", "shape": [-1, 6]},
        {"name": "ids", "dtype": "INT64", "shape": [-1, 3]},
    ]

    result = export(source, tmp_path / "box", inputs=inputs, code=code)

    facts = facts_of(result)
    assert axes(facts.inputs)[0] == ("x", "FP32", (4, 6), ("", ""))
    assert [spec.shape for spec in facts.outputs] == [(4, 2), (4, 2, 1)]
    assert facts.batch_axis is None
    said = " ".join(facts.warnings)
    assert "net.py line" in said or "module_source.py line 9" in said
    assert "fixed at 4" in said
    assert "integer input “ids”" in said


@pytest.mark.parametrize(
    ("code", "entry", "refusal", "names"),
    [
        (None, "", "module_source_missing", "weights only"),
        ("def broken(:", "", "module_source_invalid", "line 1"),
        (model_files.NET, "os.system('x')", "module_entry_invalid", "os.system"),
    ],
)
def test_a_state_dict_asks_for_its_source(
    tmp_path: Path, scorer: Any, code: str | None, entry: str, refusal: str, names: str
) -> None:
    source = tmp_path / "weights.pth"
    torch.save(scorer[0].state_dict(), source)
    options: dict[str, Any] = {}
    if code is not None:
        options["code"] = tmp_path / "upload"
        options["code"].write_text(code)

    result = export(
        source, tmp_path / "box", inputs=FEATURES, module=ModuleSource(entry), **options
    )

    assert result.refusal is not None
    assert result.refusal.code == refusal
    assert names in result.refusal.message
    assert result.refusal.hint


@pytest.mark.parametrize(
    ("code", "entry", "refusal", "names"),
    [
        ("import not_there", "net_a.py:Scorer", "module_source_incomplete", "not_there"),
        (model_files.NET, "net_b.py:Other", "module_entry_not_found", "Scorer"),
        (model_files.NET, "net_c.py:Scorer(width=4)", "weights_do_not_fit", "(4, 6)"),
        (model_files.NET, "net_d.py:Scorer(height=4)", "module_source_failed", "height"),
        (model_files.NET, "net_e.py:torch", "module_entry_not_found", "Scorer"),
        ("from torch import nn", "net_f.py", "module_entry_missing", "0 classes"),
    ],
)
def test_source_that_does_not_fit_is_explained(
    tmp_path: Path,
    scorer: Any,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    entry: str,
    refusal: str,
    names: str,
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    upload = tmp_path / "upload"
    upload.write_text(code)
    prepared = module_source.prepare(upload, ModuleSource(entry), tmp_path / "code")

    with pytest.raises(Refused) as caught:
        module_code.build(prepared, scorer[0].state_dict())

    assert caught.value.refusal.code == refusal
    assert names in caught.value.refusal.message
    assert caught.value.refusal.hint


@pytest.mark.parametrize("entry", ["models/net_p.py:Scorer(width=8)", "Scorer", ""])
def test_a_project_may_come_as_a_zip(
    tmp_path: Path, scorer: Any, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    upload = tmp_path / "project.zip"
    with zipfile.ZipFile(upload, "w") as archive:
        archive.writestr("project/models/net_p.py", "from width_p import *\n" + model_files.NET)
        archive.writestr("project/models/width_p.py", "WIDTH = 8\n")

    prepared = module_source.prepare(upload, ModuleSource(entry), tmp_path / "code")
    module = module_code.build(prepared, scorer[0].state_dict())

    assert type(module).__name__ == "Scorer"
    assert not module.training


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
