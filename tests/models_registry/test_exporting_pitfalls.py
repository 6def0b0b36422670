"""The five pitfalls of an export: each one's failure, and its mend, through the real sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_extensions
import pytest
import torch
from onnx import TensorProto, helper

from models_registry.adapters import formats, sandbox
from models_registry.adapters.sandbox import Limits, SandboxResult
from models_registry.exporting import lowering, operators
from models_registry.exporting.graph_findings import silent_casts
from models_registry.exporting.protocol import (
    ModuleSource,
    ProposeRequest,
    Refusal,
    Refused,
    TensorSpec,
    ValidateRequest,
)
from tests.models_registry.exporting_runs import axes, export, facts_of
from tests.models_registry.model_files import graph, node, plain, save, value

X = [{"name": "x", "dtype": "FP32", "dims": ["batch", 4]}]
LIBRARY = Path(onnxruntime_extensions.get_library_path())

NET = """
import torch
from torch import nn
import torch.nn.functional as F
{before}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)
        {build}
    def forward(self, x):
        return {answer}
"""


def written(folder: Path, *, build: str = "pass", answer: str, before: str = "") -> dict[str, Path]:
    """A state dict and its source: a linear layer, and what a test adds to it."""
    folder.mkdir(parents=True, exist_ok=True)
    code, source = folder / "net.py", folder / "weights.pt"
    code.write_text(NET.format(build=build, answer=answer, before=before))
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3).state_dict()
    torch.save({f"a.{key}": tensor for key, tensor in layer.items()}, source)
    return {"source": source, "code": code}


def exported(files: dict[str, Path], box: Path, **options: Any) -> SandboxResult:
    options = {"inputs": X, **options}
    return export(files["source"], box, code=files["code"], **options)


def refused(result: SandboxResult) -> Refusal:
    assert result.refusal is not None, result
    assert result.refusal.hint
    return result.refusal


def validated(source: Path, result: SandboxResult, box: Path, **files: Path) -> dict[str, Any]:
    """The checks of a validation of what was exported, by id."""
    facts = facts_of(result)
    done = sandbox.run(
        "validate",
        ValidateRequest(formats.sniff(source).format, facts, facts.inputs, samples=8).to_json(),
        workdir=box,
        files={"source": source, "model.onnx": result.outputs["model.onnx"], **files},
        limits=Limits(wall_seconds=90),
    )
    assert done.ending == "ok", (done.refusal, done.stderr_tail)
    return {check["id"]: check for check in done.answer["checks"]}


def proposed(source: Path, box: Path, entry: str = "", **files: Path) -> dict[str, Any]:
    result = sandbox.run(
        "propose",
        ProposeRequest(formats.sniff(source).format, ModuleSource(entry)).to_json(),
        workdir=box,
        files={"source": source, **files},
        limits=Limits(wall_seconds=90),
    )
    assert result.ending == "ok", (result.refusal, result.stderr_tail)
    return result.answer


# 1. Axes


class _Tokens(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = torch.nn.Embedding(40, 6)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (self.look(ids) * mask.unsqueeze(-1)).sum(1)


class _Frozen(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(4, 8).sum(1)


def test_axes_are_proposed_by_name_from_what_runs(tmp_path: Path) -> None:
    source = tmp_path / "tokens.pt"
    ids, mask = torch.zeros(2, 7, dtype=torch.int64), torch.ones(2, 7, dtype=torch.int64)
    torch.jit.trace(_Tokens().eval(), (ids, mask)).save(source)

    answer = proposed(source, tmp_path / "box")

    names = [(one["name"], one["dtype"], one["dims"]) for one in answer["inputs"]]
    assert names == [
        ("ids", "INT64", ["batch", "sequence"]),
        ("mask", "INT64", ["batch", "sequence"]),
    ]
    assert answer["inputs"][0]["max"] == 39
    assert answer["outputs"][0]["dims"] == ["batch", ""]
    assert "proposal" in answer["notes"][0]


def test_a_sample_shows_that_a_batch_is_frozen_and_the_export_takes_it_with_a_warning(
    tmp_path: Path,
) -> None:
    source, sample = tmp_path / "frozen.pt", tmp_path / "sample.npz"
    torch.jit.trace(_Frozen().eval(), torch.randn(4, 2, 4)).save(source)
    np.savez(sample, x=np.ones((4, 2, 4), np.float32))

    answer = proposed(source, tmp_path / "box", sample=sample)
    free = [{"name": "x", "dtype": "FP32", "dims": ["batch", 2, 4]}]
    result = export(source, tmp_path / "export", inputs=free)

    assert answer["inputs"][0]["shape"] == [4, 2, 4]
    assert "fixed at 4" in answer["notes"][0]
    facts = facts_of(result)
    assert axes(facts.inputs) == [("x", "FP32", (4, 2, 4), ("", "", ""))]
    assert facts.batch_axis is None
    assert "max_batch_size will be 0" in facts.warnings[0]


# 2. Custom operators

CLIP = """
@torch.library.custom_op("tests::clip", mutates_args=())
def clip(x: torch.Tensor, limit: float) -> torch.Tensor:
    return torch.tanh(x / limit) * limit

@clip.register_fake
def _(x, limit):
    return torch.empty_like(x)
"""
SYMBOLIC = """
def clip_symbolic(g, x, limit):
    return g.op("Mul", g.op("Tanh", g.op("Div", x, limit)), limit)

SYMBOLICS = {"tests::clip": clip_symbolic}
"""


def test_a_custom_operator_needs_its_source_and_a_form_in_onnx(tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "clip", "torch": torch}
    exec(compile("import torch\n" + CLIP, "clip.py", "exec"), names)

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.tests.clip(x, 0.5)

    files = {"source": tmp_path / "model.pt", "code": tmp_path / "ops.py"}
    torch.jit.trace(Net(), torch.randn(2, 4), check_trace=False).save(files["source"])

    alone = refused(export(files["source"], tmp_path / "1", inputs=X))
    files["code"].write_text("import torch\n" + CLIP)
    formless = refused(exported(files, tmp_path / "2"))
    files["code"].write_text("import torch\n" + CLIP + SYMBOLIC)
    mended = exported(files, tmp_path / "3")

    assert (alone.code, "tests::clip" in alone.message) == ("operator_missing", True)
    assert (formless.code, "tests::clip" in formless.message) == ("export_failed", True)
    assert "SYMBOLICS" in formless.hint
    assert set(facts_of(mended).operators) == {"Constant", "Div", "Mul", "Tanh"}


def test_an_operator_is_one_that_the_target_or_a_library_of_the_site_has(tmp_path: Path) -> None:
    upper = graph(
        [node("StringUpper", ["x"], ["y"], domain="ai.onnx.contrib")],
        [value("x", ["N"], TensorProto.STRING)],
        [value("y", ["N"], TensorProto.STRING)],
        domains=[("ai.onnx.contrib", 1)],
    )
    source = save(upper, tmp_path)
    offered = {f"operators/{LIBRARY.name}": LIBRARY}

    without = refused(export(source, tmp_path / "1"))
    result = export(source, tmp_path / "2", beside=offered)
    checks = validated(source, result, tmp_path / "3", **offered)

    assert without.code == "operator_unknown"
    assert all(word in without.message for word in ("StringUpper", "ai.onnx.contrib", "1.19"))
    assert facts_of(result).libraries == (LIBRARY.name,)
    assert LIBRARY.name in checks["standard_operators"]["detail"]
    assert checks["equivalence.0"]["verdict"] == "passed"
    later = graph(
        [node("GatherBlockQuantized", ["x"], ["y"], domain="com.microsoft")],
        [value("x", ["N"])],
        [value("y", ["N"])],
        domains=[("com.microsoft", 1)],
    )
    with pytest.raises(Refused, match=r"from 1\.20 on"):
        operators.check(later, "24.10")
    assert operators.check(later, "24.12") == ()


# 3. Random weights, training mode

BATCH_NORM = "F.batch_norm(self.a(x), torch.zeros(3), torch.ones(3), training=True)"


def test_what_is_not_in_the_weights_is_found_by_exporting_twice(tmp_path: Path) -> None:
    loose = written(
        tmp_path / "a", build="self.mask = torch.rand(3)", answer="self.a(x) * self.mask"
    )
    kept = written(
        tmp_path / "b",
        build="self.register_buffer('mask', torch.rand(3))",
        answer="self.a(x) * self.mask",
    )
    state = torch.load(kept["source"])
    torch.save({**state, "mask": torch.tensor([0.1, 0.2, 0.3])}, kept["source"])

    found = refused(exported(loose, tmp_path / "1"))
    mended = exported(kept, tmp_path / "2")

    assert found.code == "export_not_repeatable"
    assert "Mul" in found.message
    assert "register_buffer" in found.hint
    assert facts_of(mended).warnings == ()


@pytest.mark.parametrize(
    ("answer", "code", "names"),
    [
        ("F.dropout(self.a(x), 0.5, training=True)", "random_answers", "Dropout"),
        (BATCH_NORM, "training_mode", "batch norm"),
    ],
)
def test_training_that_evaluation_mode_does_not_end_is_refused(
    tmp_path: Path, answer: str, code: str, names: str
) -> None:
    found = refused(exported(written(tmp_path, answer=answer), tmp_path / "1"))

    assert (found.code, names in found.message) == (code, True), found
    assert "eval()" in found.hint


# 4. Versions


def test_a_file_from_a_newer_onnx_is_lowered_and_compared_with_itself(tmp_path: Path) -> None:
    source = save(plain(opset=25, ir=13), tmp_path)

    result = export(source, tmp_path / "1")
    checks = validated(source, result, tmp_path / "2")

    facts = facts_of(result)
    assert (facts.opset, facts.ir_version) == (21, 10)
    assert [warning.split(",")[0] for warning in facts.warnings] == [
        "The file was converted from opset 25 to 21",
        "The IR version was lowered from 13 to 10",
    ]
    assert checks["equivalence.0"]["verdict"] == "passed"
    assert checks["target_versions"]["verdict"] == "passed"


def test_an_opset_before_seven_is_raised_and_compared_with_itself(tmp_path: Path) -> None:
    model = plain(opset=6, ir=3)
    model.graph.input.extend(value(tensor.name, tensor.dims) for tensor in model.graph.initializer)
    source = save(model, tmp_path)

    result = export(source, tmp_path / "1")
    checks = validated(source, result, tmp_path / "2")

    assert facts_of(result).opset == 17
    assert "opsets from 7 on" in facts_of(result).warnings[0]
    assert checks["equivalence.0"]["verdict"] == "passed"


def test_what_needs_the_newer_version_keeps_it_and_is_refused() -> None:
    packed = graph(
        [node("DequantizeLinear", ["q", "s"], ["w"]), node("MatMul", ["x", "w"], ["y"])],
        [value("x", ["N", 4])],
        [value("y", ["N", 2])],
        {"s": np.float32(0.1)},
        opset=21,
        ir=10,
    )
    packed.graph.initializer.append(helper.make_tensor("q", TensorProto.INT4, [4, 2], [1] * 8))
    trees = graph(
        [node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml")],
        [value("x", ["N", 4])],
        [value("y", ["N", 1])],
        domains=[("ai.onnx.ml", 5)],
    )
    with pytest.raises(Refused, match="cannot be converted to opset 20"):
        lowering.fit(packed, "24.04")
    with pytest.raises(Refused, match="needs that opset for TreeEnsemble"):
        lowering.fit(trees, "24.04")
    with pytest.raises(Refused, match="7 to 21"):
        lowering.fit(plain(opset=99), "24.10")
    same = plain()
    assert lowering.fit(same, "24.10") == (same, [])


# 5. Data types


def test_types_that_no_request_can_carry_are_refused_with_the_cast_to_make(tmp_path: Path) -> None:
    half = written(tmp_path / "a", answer="self.a(x).bfloat16()")
    parts = written(tmp_path / "b", answer="torch.fft.fft(self.a(x))")
    mended = written(tmp_path / "c", answer="self.a(x).bfloat16().float()")

    first = refused(exported(half, tmp_path / "1"))
    second = refused(exported(parts, tmp_path / "2"))
    result = exported(mended, tmp_path / "3")

    assert ("bfloat16" in first.message, ".float()" in first.hint) == (True, True)
    assert ("complex64" in second.message, "view_as_real" in second.hint) == (True, True)
    assert facts_of(result).outputs[0].dtype == "FP32"


def test_quantised_wide_and_silently_cast_inputs(tmp_path: Path) -> None:
    quantised = graph(
        [node("QLinearMatMul", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"])],
        [value("x", ["N", 4], TensorProto.INT8)],
        [value("y", ["N", 3], TensorProto.INT8)],
        {"s": np.float32(0.1), "z": np.int8(0), "w": np.ones((4, 3), np.int8)},
    )
    source = save(quantised, tmp_path)
    wide = written(tmp_path / "a", answer="self.a(x.float())")

    facts = facts_of(export(source, tmp_path / "1"))
    cast = facts_of(exported(wide, tmp_path / "2", inputs=[{**X[0], "dtype": "FP64"}]))

    assert (facts.inputs[0].dtype, facts.outputs[0].dtype) == ("INT8", "INT8")
    assert "described as FP64, but the model casts it to FP32" in cast.warnings[0]
    image = graph([node("Cast", ["x"], ["y"], to=1)], [value("x", ["N"], 2)], [value("y", ["N"])])
    assert silent_casts(image, [TensorSpec("x", "UINT8", (-1,), ("N",))]) == []
