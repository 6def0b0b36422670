"""Weights beside an ONNX graph: kept there above a limit, and what is said of them not believed."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from models_registry.adapters import sandbox
from models_registry.exporting import onnx_files, onnx_weights
from models_registry.exporting.protocol import (
    ExportRequest,
    ProposeRequest,
    Refused,
    ValidateRequest,
)
from models_registry.rules import tensors
from tests.models_registry.exporting_runs import answers, export, facts_of
from tests.models_registry.model_files import NET, graph, node, save, value

WIDE = 600  # floats of one row: two such tensors are more than a page each
X = {"x": np.ones((3, WIDE), np.float32)}


def wide() -> onnx.ModelProto:
    """x FP32 [N, 600] -> y FP32 [N, 4]; the shape of the Reshape is a tensor of 16 bytes."""
    rng = np.random.default_rng(0)
    return graph(
        [
            node("MatMul", ["x", "w1"], ["m"]),
            node("Tanh", ["m"], ["t"]),
            node("MatMul", ["t", "w2"], ["h"]),
            node("Reshape", ["h", "shape"], ["y"]),
        ],
        [value("x", ["N", WIDE])],
        [value("y", ["N", 4])],
        {
            "w1": rng.standard_normal((WIDE, 8)).astype(np.float32),
            "w2": rng.standard_normal((8, 4)).astype(np.float32),
            "shape": np.array([-1, 4]),
        },
    )


def parted(folder: Path, name: str = "weights.bin") -> Path:
    """`wide` with every tensor in `name`, as onnx writes it."""
    folder.mkdir(exist_ok=True)
    path = folder / "net.onnx"
    onnx.save_model(wide(), str(path), save_as_external_data=True, location=name, size_threshold=0)
    return path


def run_export(
    source: Path, box: Path, beside: dict[str, Path], *, inline_bytes: int = 10_000
) -> sandbox.SandboxResult:
    request = ExportRequest("onnx", (), inline_bytes=inline_bytes)
    files = {"source": source, **{f"beside/{name}": path for name, path in beside.items()}}
    return sandbox.run("export", request.to_json(), workdir=box, files=files)


def test_a_large_model_is_served_as_a_graph_and_its_weights_and_passes_validation(
    tmp_path: Path,
) -> None:
    source = parted(tmp_path / "up")
    weights = {"weights.bin": tmp_path / "up" / "weights.bin", "notes.txt": source}

    result = run_export(source, tmp_path / "box", weights)

    facts = facts_of(result)
    data = result.outputs["model.onnx.data"]
    assert (facts.data_sha256, facts.data_size) == (onnx_files.sha256(data), data.stat().st_size)
    assert facts.parameters == WIDE * 8 + 8 * 4 + 2
    assert "does not refer to notes.txt" in " ".join(facts.warnings)
    kept = onnx_files.load(result.outputs["model.onnx"], keep_above=0)
    places = {t.name: {e.key: e.value for e in t.external_data} for t in kept.graph.initializer}
    # What is small stays in the graph, where inference reads it; the rest begins at a page.
    assert places == {
        "w1": {"location": "model.onnx.data", "offset": "0", "length": str(WIDE * 8 * 4)},
        "w2": {},
        "shape": {},
    }
    expected = ReferenceEvaluator(wide()).run(None, X)[0]
    np.testing.assert_allclose(answers(result, **X)[0], expected, atol=1e-4)

    request = ValidateRequest("onnx", facts, facts.inputs, samples=8, timed_runs=3)
    files = {"source": source, "beside/weights.bin": weights["weights.bin"], **result.outputs}
    report = sandbox.run("validate", request.to_json(), workdir=tmp_path / "v", files=files)

    assert report.ending == "ok", (report.refusal, report.stderr_tail)
    verdicts = {check["id"]: check["verdict"] for check in report.answer["checks"]}
    assert (verdicts["onnx_checker"], verdicts["shape_inference"]) == ("passed", "passed")
    assert verdicts["equivalence.0"] == "passed"
    assert report.answer["model"]["data_sha256"] == facts.data_sha256

    data.write_bytes(data.read_bytes()[:-4] + b"0000")
    other = sandbox.run("validate", request.to_json(), workdir=tmp_path / "w", files=files)
    assert (other.ending, other.refusal and other.refusal.code) == ("refused", "digest_mismatch")


def test_the_same_weights_give_the_same_two_files_however_they_came(tmp_path: Path) -> None:
    source, several = parted(tmp_path / "one"), parted(tmp_path / "two", "other.data")
    archive = tmp_path / "both.tar"
    with tarfile.open(archive, "w") as tar:
        for path in (several, several.with_name("other.data")):
            tar.add(path, f"models/{path.name}")
    found = [
        facts_of(
            run_export(source, tmp_path / "1", {"weights.bin": source.with_name("weights.bin")})
        ),
        facts_of(run_export(save(wide(), tmp_path), tmp_path / "2", {})),
        facts_of(export(archive, tmp_path / "3", inline_bytes=10_000)),
    ]
    assert len({(facts.sha256, facts.data_sha256) for facts in found}) == 1
    together = facts_of(export(archive, tmp_path / "4"))
    assert (together.data_sha256, together.parameters) == ("", found[0].parameters)


def test_a_torch_module_above_the_limit_has_its_weights_beside_it(tmp_path: Path) -> None:
    import torch

    code = tmp_path / "net.py"
    code.write_text(NET.replace("width=8", "width=500"), encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(code.read_text(encoding="utf-8"), "net.py", "exec"), scope)
    source = tmp_path / "weights.pt"
    torch.save(scope["Scorer"]().state_dict(), source)
    inputs = [{"name": "features", "dtype": "FP32", "dims": ["batch", 6]}]

    result = export(source, tmp_path / "box", inputs=inputs, code=code, inline_bytes=5_000)

    facts = facts_of(result)
    assert facts.data_size > 12_000
    assert facts.data_sha256 == onnx_files.sha256(result.outputs["model.onnx.data"])
    assert answers(result, features=np.ones((2, 6), np.float32))[0].shape == (2, 1)


def test_a_graph_alone_says_which_files_it_needs(tmp_path: Path) -> None:
    source = parted(tmp_path / "up")
    result = run_export(source, tmp_path / "box", {})
    assert result.refusal is not None
    assert (result.refusal.code, result.refusal.pointer) == (
        "external_data_missing",
        "/data_uploads",
    )
    assert "weights.bin" in result.refusal.message
    said = sandbox.run(
        "propose",
        ProposeRequest("onnx").to_json(),
        workdir=tmp_path / "p",
        files={"source": source},
    )
    assert said.answer["beside"] == ["weights.bin"]
    assert [spec["name"] for spec in said.answer["inputs"]] == ["x"]


def _change(number: int, key: str, text: str) -> Callable[[onnx.ModelProto, Path], None]:
    def change(model: onnx.ModelProto, data: Path) -> None:
        for entry in model.graph.initializer[number].external_data:
            if entry.key == key:
                entry.value = text

    return change


def _cut(model: onnx.ModelProto, data: Path) -> None:
    data.write_bytes(data.read_bytes()[:5_000])


def _link(model: onnx.ModelProto, data: Path) -> None:
    kept = data.rename(data.with_name("kept"))
    data.symlink_to(kept)


def _sparse(model: onnx.ModelProto, data: Path) -> None:
    sparse = model.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(model.graph.initializer[0])
    _point_outside(sparse.values)


def _in_function(model: onnx.ModelProto, data: Path) -> None:
    tensor = TensorProto(name="c", data_type=TensorProto.UINT8, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    _point_outside(tensor)
    body = [node("Constant", [], ["o"], value=tensor)]
    opsets = [onnx.helper.make_opsetid("", 17)]
    model.functions.append(onnx.helper.make_function("local", "F", [], ["o"], body, opsets))


def _point_outside(tensor: TensorProto) -> None:
    del tensor.external_data[:]
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../../../etc/hostname"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (_cut, "external_data_damaged", "beyond the end of"),
        (_change(0, "length", "8"), "external_data_damaged", "has 8 bytes"),
        (_change(0, "length", "many"), "external_data_damaged", "beyond the end"),
        (_change(1, "offset", "999999"), "external_data_damaged", "beyond the end of"),
        (_change(1, "offset", "-4"), "external_data_damaged", "beyond the end of"),
        (_change(1, "offset", "64"), "external_data_damaged", "overlap in"),
        (_change(0, "location", "../weights.bin"), "external_data_unsafe", "outside"),
        (_change(0, "location", "/etc/hostname"), "external_data_unsafe", "outside"),
        (_change(0, "location", "C:\\weights"), "external_data_unsafe", "outside"),
        (_change(0, "location", ""), "external_data_unsafe", "outside"),
        (_change(0, "location", "w" * 300), "external_data_unsafe", "outside"),
        (_change(0, "location", "*/_ORT_MEM_ADDR_/*"), "external_data_missing", "is not here"),
        (_link, "external_data_unsafe", "outside"),
        (_sparse, "external_data_unsafe", "outside"),
        (_in_function, "external_data_unsafe", "outside"),
    ],
)
@pytest.mark.parametrize("keep_above", [0, 10**9])
def test_places_that_a_graph_lies_about_are_refused(
    tmp_path: Path,
    change: Callable[[onnx.ModelProto, Path], None],
    code: str,
    words: str,
    keep_above: int,
) -> None:
    source = parted(tmp_path / "up")
    model = onnx.load_model(str(source), load_external_data=False)
    change(model, source.with_name("weights.bin"))
    source.write_bytes(model.SerializeToString())
    with pytest.raises(Refused) as refused:
        onnx_files.load(source, keep_above=keep_above)
    assert (refused.value.refusal.code, words in refused.value.refusal.message) == (code, True)


def test_tied_weights_share_their_place_and_constants_come_into_the_graph(tmp_path: Path) -> None:
    source = parted(tmp_path / "up")
    model = onnx.load_model(str(source), load_external_data=False)
    twin = model.graph.initializer.add()
    twin.CopyFrom(model.graph.initializer[0])
    twin.name = "w1_again"
    constant = TensorProto()
    constant.CopyFrom(model.graph.initializer[0])
    model.graph.node.append(node("Constant", [], ["c"], value=constant))

    onnx_weights.write(model, source.parent, tmp_path / "model.onnx", keep_above=1_000)

    assert (tmp_path / "model.onnx.data").stat().st_size == WIDE * 8 * 4
    written = onnx_files.checked(tmp_path / "model.onnx", "24.10")
    first, *_, last = written.graph.initializer
    assert list(first.external_data) == list(last.external_data)
    assert len(written.graph.node[-1].attribute[0].t.raw_data) == WIDE * 8 * 4


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar"
    with tarfile.open(archive, "w") as tar:
        data = wide().SerializeToString()
        info = tarfile.TarInfo("model.onnx")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("model.onnx.data")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    request = ExportRequest("onnx_archive", ())
    result = sandbox.run(
        "export", request.to_json(), workdir=tmp_path / "box", files={"source": archive}
    )
    assert result.refusal is not None
    assert result.refusal.code == "archive_unsafe"


def test_weights_that_may_not_be_written_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    source = parted(tmp_path / "up")
    request = ExportRequest("onnx", (), inline_bytes=10_000)
    files = {"source": source, "beside/weights.bin": source.with_name("weights.bin")}
    result = sandbox.run(
        "export",
        request.to_json(),
        workdir=tmp_path / "box",
        files=files,
        limits=replace(sandbox.DEFAULT_LIMITS, file_bytes=8_000),
    )
    assert result.refusal is not None
    assert (result.refusal.code, result.outputs) == ("disk_full", {})


def test_names_beside_a_source_cannot_hide_the_programs_own_files(tmp_path: Path) -> None:
    path = save(wide(), tmp_path)
    for name in ("beside/source", "beside/../code", "beside/"):
        with pytest.raises(ValueError, match="takes no file"):
            sandbox.run(
                "export",
                ExportRequest("onnx", tensors.parse([])).to_json(),
                workdir=tmp_path / "box",
                files={"source": path, name: path},
            )
