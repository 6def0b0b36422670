"""The report on an exported model: equal to its source, sound, and the faults that it must find."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from models_registry.adapters import formats, sandbox
from models_registry.adapters.sandbox import SandboxResult
from models_registry.exporting.protocol import ExportFacts, ExportRequest, ValidateRequest
from models_registry.rules import tensors
from tests.models_registry import model_files
from tests.models_registry.model_files import graph, layers, node, plain, save, value

X = [{"name": "x", "dtype": "FP32", "shape": ["N", 5]}]


def run(
    source: Path,
    folder: Path,
    *,
    inputs: list[dict[str, Any]] | None = None,
    files: dict[str, Path] | None = None,
    **asked: Any,
) -> SandboxResult:
    """Export and validate as two jobs do; `asked` are fields of ValidateRequest."""
    specs = tensors.parse(inputs or [])
    detected = formats.sniff(source)
    given = {"source": source, **(files or {})}
    exported = sandbox.run(
        "export",
        ExportRequest(detected.format, specs).to_json(),
        workdir=folder / "export",
        files=given,
    )
    assert exported.ending == "ok", exported.refusal
    facts = ExportFacts.from_json(exported.answer)
    request = ValidateRequest(detected.format, facts, specs or facts.inputs)
    request = replace(request, timed_runs=10, **asked)
    return sandbox.run(
        "validate", request.to_json(), workdir=folder / "validate", files=given | exported.outputs
    )


def verdicts(result: SandboxResult) -> dict[str, str]:
    """Check id -> verdict of a report that must be there."""
    assert result.ending == "ok", (result.refusal, result.stderr_tail)
    return {check["id"]: check["verdict"] for check in result.answer["checks"]}


@pytest.fixture(scope="module")
def torch_report(tmp_path_factory: pytest.TempPathFactory) -> SandboxResult:
    """A sound state dict with a contract, all samples at batch sizes 1, 2 and 8."""
    folder = tmp_path_factory.mktemp("report")
    names: dict[str, Any] = {}
    exec(compile(model_files.NET, "net.py", "exec"), names)
    torch.manual_seed(1)
    torch.save(names["Scorer"]().state_dict(), folder / "weights.pt")
    (folder / "net.py").write_text(model_files.NET)
    inputs = [{"name": "features", "dtype": "FP32", "shape": [-1, 6], "min": -3, "max": 3}]
    outputs = [{"name": "risk_score", "dtype": "FP32", "shape": [-1, 1], "min": 0, "max": 1}]
    return run(
        folder / "weights.pt",
        folder,
        inputs=inputs,
        files={"code": folder / "net.py"},
        outputs=tensors.parse(outputs),
        p95_ms=10_000.0,
    )


def test_a_sound_model_passes_every_check(torch_report: SandboxResult) -> None:
    found = verdicts(torch_report)

    assert torch_report.answer["verdict"] == "passed", torch_report.answer["checks"]
    assert set(found.values()) <= {"passed", "skipped"}
    assert {
        "onnx_checker",
        "shape_inference",
        "target_versions",
        "interface_inputs",
        "interface_outputs",
        "batching",
        "batch_sizes",
        "equivalence.0",
        "finite",
        "varies",
        "deterministic",
        "output_range",
        "latency.1",
    } <= {name for name, verdict in found.items() if verdict == "passed"}


def test_the_report_tells_each_sample(torch_report: SandboxResult) -> None:
    told = torch_report.answer["equivalence"]
    (output,) = told["outputs"]

    assert (told["samples"], told["seed"], told["batches"]) == (100, 0, [1, 2, 8])
    assert (told["atol"], told["rtol"]) == (1e-5, 1e-4)
    assert "PyTorch" in told["compared_with"]
    assert len(output["errors"]) == 100
    assert max(output["errors"]) == output["max_abs"] <= 1e-5
    assert output["errors"][output["worst"]["sample"]] == output["max_abs"]
    rows = torch_report.answer["latency"]
    assert [row["batch"] for row in rows] == [1, 2, 4, 8]
    assert all(row["peak_bytes"] >= 0 and row["rows_per_second"] > 0 for row in rows)
    assert all(0 < row["p50_ms"] <= row["p95_ms"] for row in rows)
    assert torch_report.answer["environment"]["target"] == "24.10"


def test_the_recorded_sample_is_a_request_with_its_answer(torch_report: SandboxResult) -> None:
    sample = json.loads(torch_report.outputs["sample.json"].read_text())

    (given,) = sample["request"]["inputs"]
    (expected,) = sample["expected"]["outputs"]
    assert (given["name"], given["datatype"], given["shape"]) == ("features", "FP32", [1, 6])
    assert len(set(given["data"])) == 6
    assert (expected["name"], expected["shape"]) == ("risk_score", [1, 1])
    assert 0 < expected["data"][0] < 1


def _with(nodes: list[Any], weights: dict[str, Any]) -> onnx.ModelProto:
    first, inner = layers()
    first[-1] = node("MatMul", ["t", "w2"], ["y0"])
    inputs, outputs = [value("x", ["N", 5])], [value("y", ["N", 2])]
    return graph([*first, *nodes], inputs, outputs, inner | weights)


NAN = _with([node("Add", ["y0", "bad"], ["y"])], {"bad": np.array([np.nan, 0], np.float32)})
DEAD = _with(
    [
        node("Div", ["one", "z"], ["i"]),
        node("Mul", ["y0", "z"], ["zero"]),
        node("Add", ["zero", "i"], ["y"]),
    ],
    {"one": np.ones(2, np.float32), "z": np.zeros(2, np.float32)},
)
RANDOM = _with([node("RandomUniformLike", ["y0"], ["r"]), node("Add", ["y0", "r"], ["y"])], {})


@pytest.mark.parametrize(
    ("model", "overall", "found"),
    [
        (NAN, "failed", {"finite": "failed"}),
        (DEAD, "warning", {"finite": "warning", "varies": "warning"}),
    ],
)
def test_a_model_that_must_not_serve_is_found(
    tmp_path: Path, model: onnx.ModelProto, overall: str, found: dict[str, str]
) -> None:
    result = run(save(model, tmp_path), tmp_path, samples=20)

    seen = verdicts(result)
    assert result.answer["verdict"] == overall, result.answer["checks"]
    assert {name: seen[name] for name in found} == found
    faults = [c for c in result.answer["checks"] if c["verdict"] in {"failed", "warning"}]
    assert all(check["detail"] and check["fix"] for check in faults)


def test_a_file_that_draws_random_numbers_is_found_whoever_exported_it(tmp_path: Path) -> None:
    """The export refuses such a file; a lighter variant is made by other programs."""
    exported = sandbox.run(
        "export",
        ExportRequest("onnx", ()).to_json(),
        workdir=tmp_path / "export",
        files={"source": save(plain(), tmp_path)},
    )
    other = save(RANDOM, tmp_path, "other.onnx")
    digest = hashlib.sha256(other.read_bytes()).hexdigest()
    facts = replace(ExportFacts.from_json(exported.answer), sha256=digest)

    result = sandbox.run(
        "validate",
        ValidateRequest("onnx", facts, facts.inputs, samples=20).to_json(),
        workdir=tmp_path / "validate",
        files={"source": other, "model.onnx": other},
    )

    seen = verdicts(result)
    assert (seen["deterministic"], seen["equivalence.0"]) == ("failed", "failed")


def test_promises_that_the_model_breaks_are_found(tmp_path: Path) -> None:
    outputs = tensors.parse(
        [
            {"name": "y", "dtype": "FP64", "shape": [-1, 2], "min": -0.01, "max": 0.01},
            {"name": "label", "dtype": "INT64", "shape": [-1]},
        ]
    )

    result = run(
        save(plain(), tmp_path), tmp_path, inputs=X, outputs=outputs, p95_ms=1e-6, samples=20
    )

    seen = verdicts(result)
    assert result.answer["verdict"] == "failed"
    assert seen["interface_outputs"] == "failed"
    assert seen["output_range"] == "failed"
    assert seen["latency.1"] == "failed"
    details = {check["id"]: check["detail"] for check in result.answer["checks"]}
    assert "“y” is FP32 instead of FP64" in details["interface_outputs"]
    assert "“label” is missing" in details["interface_outputs"]


FROZEN = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(5, 2)
    def forward(self, x):
        return self.a(x) if x.sum() > 0 else -self.a(x)
"""


def test_a_decision_frozen_by_tracing_is_found(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FROZEN)
    weights = {f"a.{k}": v for k, v in torch.nn.Linear(5, 2).state_dict().items()}
    torch.save(weights, tmp_path / "w.pt")

    result = run(
        tmp_path / "w.pt", tmp_path, inputs=X, files={"code": tmp_path / "net.py"}, samples=20
    )

    assert verdicts(result)["equivalence.0"] == "failed"
    assert result.answer["verdict"] == "failed"


FORGER = """
import json, torch
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(5, 2)
        json.dump({"outcome": "ok", "answer": {"verdict": "passed"}}, open("result.json", "w"))
    def forward(self, x):
        return super().forward(x) * float("nan")
"""


def test_module_code_cannot_write_its_own_report(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(FORGER)
    torch.save(torch.nn.Linear(5, 2).state_dict(), tmp_path / "w.pt")

    result = run(
        tmp_path / "w.pt", tmp_path, inputs=X, files={"code": tmp_path / "net.py"}, samples=20
    )

    assert result.answer["verdict"] == "failed"
    assert verdicts(result)["finite"] == "failed"


def test_a_changed_model_file_is_not_validated(tmp_path: Path) -> None:
    source = save(plain(), tmp_path)
    exported = sandbox.run(
        "export",
        ExportRequest("onnx", ()).to_json(),
        workdir=tmp_path / "export",
        files={"source": source},
    )
    facts = ExportFacts.from_json(exported.answer)
    other = save(plain(ir=9), tmp_path, "other.onnx")

    result = sandbox.run(
        "validate",
        ValidateRequest("onnx", facts, facts.inputs, samples=5).to_json(),
        workdir=tmp_path / "validate",
        files={"source": source, "model.onnx": other},
    )

    assert result.refusal is not None
    assert result.refusal.code == "digest_mismatch"


def test_a_given_sample_is_the_recorded_one(tmp_path: Path) -> None:
    sample = tmp_path / "sample.json"
    sample.write_text(json.dumps({"x": [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]]}))

    result = run(save(plain(), tmp_path), tmp_path, inputs=X, files={"sample": sample}, samples=20)

    assert verdicts(result)["equivalence.0"] == "passed"
    recorded = json.loads(result.outputs["sample.json"].read_text())
    assert recorded["request"]["inputs"][0]["shape"] == [2, 5]
    assert recorded["request"]["inputs"][0]["data"][:5] == [1, 2, 3, 4, 5]
    assert recorded["expected"]["outputs"][0]["shape"] == [2, 2]


def _softmax() -> onnx.ModelProto:
    """x FP32 [N, 5], kind INT64 [N, 1] -> shares FP32 [N, 2], label INT64 [N]."""
    nodes, weights = layers()
    nodes = [
        *nodes[:-1],
        node("MatMul", ["t", "w2"], ["z"]),
        node("Cast", ["kind"], ["k"], to=onnx.TensorProto.FLOAT),
        node("Add", ["z", "k"], ["zk"]),
        node("Softmax", ["zk"], ["shares"], axis=-1),
        node("ArgMax", ["zk"], ["label"], axis=-1, keepdims=0),
    ]
    inputs = [value("x", ["N", 5]), value("kind", ["N", 1], onnx.TensorProto.INT64)]
    outputs = [value("shares", ["N", 2]), value("label", ["N"], onnx.TensorProto.INT64)]
    return graph(nodes, inputs, outputs, weights)


def test_recorded_rows_are_compared_and_the_worst_input_is_kept(tmp_path: Path) -> None:
    sample = tmp_path / "sample.json"
    rows = {"x": [[0.1, 0.2, 0.3, 0.4, 2.0], [-2.0, 0, 1, 0, 0]], "kind": [[7], [3]]}
    sample.write_text(json.dumps(rows))
    inputs = [
        {"name": "x", "dtype": "FP32", "shape": ["N", 5], "min": -2, "max": 2},
        {"name": "kind", "dtype": "INT64", "shape": ["N", 1], "min": 0, "max": 9},
    ]
    shares = tensors.parse([{"name": "shares", "dtype": "FP32", "shape": [-1, 2]}])

    result = run(
        save(_softmax(), tmp_path),
        tmp_path,
        inputs=inputs,
        files={"sample": sample},
        outputs=tuple(replace(spec, sums_to=1.0) for spec in shares),
        samples=20,
        batches=(1, 2, 16),
    )

    seen = verdicts(result)
    assert (seen["output_sums"], seen["equivalence.1"]) == ("passed", "passed")
    told = result.answer["equivalence"]
    assert (told["samples"], told["recorded"], told["varied"]) == (20, 2, 24)
    assert told["batches"] == [1, 2, 16]
    output = told["outputs"][0]
    assert len(output["errors"]) == 46
    assert output["p50_abs"] <= output["p95_abs"] <= output["p99_abs"] <= output["max_abs"]
    assert output["answers"]["sums"] == pytest.approx([1, 1], abs=1e-5)
    worst = output["worst"]
    assert abs(worst["expected"] - worst["answered"]) == pytest.approx(output["max_abs"], rel=1e-3)
    replay = json.loads(result.outputs["replay.json"].read_text())
    case = next(one for one in replay["cases"] if "shares" in one["outputs"])
    assert case["sample"] == worst["sample"]
    assert [one["name"] for one in case["request"]["inputs"]] == ["x", "kind"]
    given = {one["name"]: one for one in case["request"]["inputs"]}
    assert all(-2 <= number <= 2 for number in given["x"]["data"])
    assert replay["model"]["sha256"] == result.answer["model"]["sha256"]
    for answers in (case["expected"], case["answered"]):
        assert [one["name"] for one in answers["outputs"]] == ["shares", "label"]
    picture = result.answer["graph"]
    assert picture["operators"] == 7
    assert [one["label"] for one in picture["blocks"] if one["kind"] == "input"] == ["x", "kind"]
    assert result.answer["model"]["flops"] == 90 + 9 + 36 + 2 + 10 + 2


def test_shares_that_do_not_add_up_break_the_promise(tmp_path: Path) -> None:
    outputs = tensors.parse([{"name": "y", "dtype": "FP32", "shape": [-1, 2]}])

    result = run(
        save(plain(), tmp_path),
        tmp_path,
        inputs=X,
        outputs=(replace(outputs[0], sums_to=1.0),),
        samples=5,
    )

    (check,) = [one for one in result.answer["checks"] if one["id"] == "output_sums"]
    assert check["verdict"] == "failed"
    assert "where 1 is promised" in check["detail"]
    assert "softmax" in check["fix"]


@pytest.mark.parametrize(("optimisation", "verdict"), [("", "failed"), ("int8", "passed")])
def test_a_version_of_lower_precision_is_judged_by_its_own_tolerance(
    optimisation: str, verdict: str, tmp_path: Path
) -> None:
    """The file is one whose first weights are a little off, as quantised ones are."""
    source = save(plain(), tmp_path)
    nodes, weights = layers()
    weights["w1"] = np.round(weights["w1"] * 32) / np.float32(32)
    other = graph(nodes, [value("x", ["N", 5])], [value("y", ["N", 2])], weights)
    exported = sandbox.run(
        "export",
        ExportRequest("onnx", ()).to_json(),
        workdir=tmp_path / "export",
        files={"source": save(other, tmp_path, "other.onnx")},
    )
    facts = ExportFacts.from_json(exported.answer)

    result = sandbox.run(
        "validate",
        ValidateRequest(
            "onnx", facts, facts.inputs, samples=20, optimisation=optimisation
        ).to_json(),
        workdir=tmp_path / "validate",
        files={"source": source, "model.onnx": exported.outputs["model.onnx"]},
    )

    assert verdicts(result)["equivalence.0"] == verdict
    told = result.answer["equivalence"]
    largest = max(abs(told["outputs"][0]["answers"][end]) for end in ("min", "max"))
    expected = 0.05 * largest if optimisation else 1e-5
    assert told["outputs"][0]["atol"] == pytest.approx(expected, rel=0.05)
