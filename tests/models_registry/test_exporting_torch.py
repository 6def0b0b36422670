"""PyTorch files to ONNX through the real sandbox: scripts, programs, weights with source."""

from __future__ import annotations

import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models_registry.adapters import formats
from models_registry.exporting import module_code, module_source, torch_propose, torch_sources
from models_registry.exporting.protocol import ModuleSource, Refused
from tests.models_registry import model_files
from tests.models_registry.exporting_runs import answers, axes, export, facts_of


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
    read = torch_propose.program_inputs(torch_sources.exported_program(source))

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


def test_weights_are_read_from_among_objects_of_classes_that_are_not_there(
    tmp_path: Path, scorer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, _ = scorer
    trainer = types.ModuleType("trainer_not_installed")
    trainer.Options = type("Options", (dict,), {"__module__": trainer.__name__})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, trainer.__name__, trainer)
    source = tmp_path / "last.ckpt"
    state = {f"model.{key}": tensor for key, tensor in net.state_dict().items()}
    options = trainer.Options(rate=0.1)
    torch.save({"state_dict": state, "hyper_parameters": options, "epoch": 3}, source)
    alone = tmp_path / "options.ckpt"
    torch.save(options, alone)
    monkeypatch.delitem(sys.modules, trainer.__name__)

    found = torch_sources.tensors_of("torch_state_dict", source)

    assert formats.sniff(source).format == "torch_state_dict"
    assert set(found) == set(state)
    assert all(torch.equal(found[key], tensor) for key, tensor in state.items())
    with pytest.raises(Refused, match="no weights in the file; it holds: a Python object"):
        torch_sources.tensors_of("torch_state_dict", alone)
