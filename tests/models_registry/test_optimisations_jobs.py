"""Lighter variants through the real sandbox: made, compared with the source, and fit to serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import onnxruntime_extensions
import pytest
from onnx import numpy_helper

from console.models import AuditEntry, Job, JobState
from models_registry import tasks
from models_registry.adapters import sandbox
from models_registry.exporting import protocol
from models_registry.models import ModelVersion, VersionState
from models_registry.services import artifacts, versions
from models_registry.services.optimisations import optimise_version
from tests import factories
from tests.factories import actor
from tests.models_registry import model_files
from tests.models_registry.exporting_runs import facts_of

pytestmark = pytest.mark.django_db(transaction=True)

RNG = np.random.default_rng(7)


def conv_net() -> bytes:
    """x FP32 [batch, 3, 12, 12] -> y FP32 [batch, 4], with what a fusion takes away."""
    node, value = model_files.node, model_files.value
    normal = RNG.standard_normal
    return model_files.graph(
        [
            node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("GlobalAveragePool", ["r"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("Gemm", ["f", "w", "o"], ["y"]),
        ],
        [value("x", ["batch", 3, 12, 12])],
        [value("y", ["batch", 4])],
        {
            "k": normal((32, 3, 3, 3)).astype("f") / 3,
            "s": np.ones(32, "f"),
            "b": np.zeros(32, "f"),
            "m": np.zeros(32, "f"),
            "v": np.ones(32, "f"),
            "w": normal((32, 4)).astype("f"),
            "o": np.zeros(4, "f"),
        },
    ).SerializeToString()


def embeddings() -> bytes:
    """tokens INT64 [batch, 6] -> y FP32 [batch, 2]: an embedding, a mean and two layers."""
    node, value = model_files.node, model_files.value
    normal = RNG.standard_normal
    return model_files.graph(
        [
            node("Gather", ["table", "tokens"], ["e"]),
            node("ReduceMean", ["e"], ["mean"], axes=[1], keepdims=0),
            node("MatMul", ["mean", "w1"], ["h"]),
            node("Add", ["h", "b1"], ["hb"]),
            node("Relu", ["hb"], ["a"]),
            node("MatMul", ["a", "w2"], ["z"]),
            node("Identity", ["z"], ["z2"]),
            node("Softmax", ["z2"], ["y"], axis=-1),
        ],
        [value("tokens", ["batch", 6], 7)],
        [value("y", ["batch", 2])],
        {
            "table": normal((500, 64)).astype("f"),
            "w1": normal((64, 128)).astype("f") / 8,
            "b1": np.zeros(128, "f"),
            "w2": normal((128, 2)).astype("f") / 11,
        },
    ).SerializeToString()


TOKENS = [{"name": "tokens", "dtype": "INT64", "dims": ["batch", 6], "min": 0, "max": 499}]


def validated(data: bytes, name: str = "fraud_detector", **fields: Any) -> ModelVersion:
    """A version that came the whole way."""
    version, _ = versions.create_version(
        model=factories.make_model(name),
        upload_id=factories.make_upload(data).pk,
        actor=actor(factories.people().dana),
        **fields,
    )
    return run_jobs(version)


def run_jobs(version: ModelVersion) -> ModelVersion:
    """Run the version's jobs as a worker would, one after the other."""
    tasks.export_version(str(version.export_job_id))
    version = ModelVersion.objects.get(pk=version.pk)
    if version.validate_job_id:
        tasks.validate_version(str(version.validate_job_id))
    return ModelVersion.objects.get(pk=version.pk)


def variant_of(origin: ModelVersion, how: str, **options: Any) -> ModelVersion:
    """Asked for by dana, made and validated."""
    version, _ = optimise_version(
        version=origin, optimisation=how, actor=actor(factories.people().dana), **options
    )
    return run_jobs(version)


def run(version: ModelVersion, feeds: dict[str, Any]) -> Any:
    """What the version's file answers."""
    with artifacts.local_path(version.onnx) as path:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return session.run(None, feeds)[0]


def test_each_optimisation_makes_a_version_that_is_measured_against_the_source() -> None:
    origin = validated(embeddings(), inputs=TOKENS)
    assert origin.state == VersionState.VALIDATED, origin.rejection
    feeds = {"tokens": RNG.integers(0, 500, (5, 6))}
    answers = run(origin, feeds)
    made = {how: variant_of(origin, how) for how in ("simplify", "graph", "fp16", "int8")}
    for how, version in made.items():
        assert version.state == VersionState.VALIDATED, (how, version.rejection)
        assert (version.derived_from, version.optimisation) == (origin, how)
        assert version.source_id == origin.source_id
        report = version.report
        assert report["model"]["sha256"] == version.onnx.sha256 == version.facts["sha256"]
        assert version.onnx_id != origin.onnx_id
        assert report["equivalence"]["compared_with"].startswith("the uploaded ONNX file")
        assert version.facts["batch_axis"] == 0
        assert version.facts["inputs"] == origin.facts["inputs"]
        assert np.allclose(run(version, feeds), answers, atol=0.05)
    operators = {how: version.facts["operators"] for how, version in made.items()}
    assert "Identity" not in operators["simplify"]
    assert operators["graph"]["com.microsoft:FusedGemm"] == 1
    assert any("FusedGemm" in line for line in made["graph"].facts["warnings"])
    assert operators["int8"]["MatMulInteger"] == 2
    assert any("INT8 rounds" in line for line in made["int8"].facts["warnings"])
    sizes = {how: version.facts["size_bytes"] for how, version in made.items()}
    assert sizes["fp16"] < 0.55 * origin.facts["size_bytes"]
    assert sizes["int8"] < 0.35 * origin.facts["size_bytes"]
    # The tolerance is that of the optimisation, not of the data type.
    assert made["simplify"].report["equivalence"]["atol"] == 1e-5
    assert made["fp16"].report["equivalence"]["atol"] == 1e-2
    entry = AuditEntry.objects.get(action="version.optimise", subject=str(made["fp16"]))
    assert entry.before["onnx"] == origin.onnx.sha256
    # The same input gives the same bytes.
    archived = made["int8"]
    versions.archive_version(
        version=archived, reason="Once more.", actor=actor(factories.people().dana)
    )
    again, job = optimise_version(
        version=origin, optimisation="int8", actor=actor(factories.people().dana)
    )
    assert again.pk != archived.pk
    tasks.export_version(str(job.pk))
    again.refresh_from_db()
    assert again.onnx.sha256 == archived.onnx.sha256


def test_a_convolution_is_fused_and_fp16_may_change_the_interface() -> None:
    origin = validated(conv_net())
    fused = variant_of(origin, "graph")
    assert fused.facts["operators"]["com.microsoft:FusedConv"] == 1
    assert not any(name.startswith("com.microsoft.nchwc") for name in fused.facts["operators"])
    half = variant_of(origin, "fp16", keep_io=False)
    assert half.state == VersionState.VALIDATED, half.rejection
    assert [spec["dtype"] for spec in half.facts["inputs"] + half.facts["outputs"]] == ["FP16"] * 2
    sample = json.loads(artifacts.read_bytes(half.sample))
    assert sample["request"]["inputs"][0]["datatype"] == "FP16"
    quantised = variant_of(origin, "int8")
    assert quantised.facts["operators"]["ConvInteger"] == 1
    assert quantised.report["equivalence"]["outputs"][0]["max_abs"] > 0


def test_the_contract_says_how_far_a_variant_may_be_off() -> None:
    origin = factories.make_version()
    factories.make_contract(
        origin.model, validation={"derived": {"int8": {"atol": 1e-9, "rtol": 1e-9}}}
    )
    strict = variant_of(origin, "int8")
    assert strict.state == VersionState.REJECTED
    assert strict.report["equivalence"]["atol"] == 1e-9
    assert strict.report["contract"]["revision"] == 1
    factories.make_contract(
        origin.model, validation={"derived": {"int8": {"atol": 0.2, "rtol": 0.2}}}
    )
    lenient = variant_of(origin, "int8")
    assert (lenient.pk != strict.pk, lenient.state) == (True, VersionState.VALIDATED)
    assert lenient.report["equivalence"]["atol"] == 0.2


def test_constants_are_not_spelt_out_and_custom_operators_stay(tmp_path: Path) -> None:
    node, value = model_files.node, model_files.value
    half = numpy_helper.from_array(np.array([0.5], "f"))
    computed = model_files.graph(
        [
            node("ConstantOfShape", ["s"], ["c"], value=half),
            node("MatMul", ["x", "c"], ["m"]),
            node("MatMul", ["m", "w"], ["y"]),
        ],
        [value("x", ["batch", 2000])],
        [value("y", ["batch", 4])],
        {"s": np.array([2000, 2000]), "w": np.ones((2000, 4), "f")},
    )
    result = optimised(computed, tmp_path / "computed", "fp16")
    assert result.refusal is not None
    assert (result.ending, result.refusal.code) == ("refused", "variant_larger")
    library = Path(onnxruntime_extensions.get_library_path())
    files = {f"{protocol.OPERATORS}/{library.name}": library}
    custom = model_files.graph(
        [
            node("NegPos", ["x"], ["n", "p"], domain="ai.onnx.contrib"),
            node("MatMul", ["p", "w"], ["m"]),
            node("Add", ["m", "b"], ["y"]),
        ],
        [value("x", [2, 6])],
        [value("y", [2, 4])],
        {"w": RNG.random((6, 4)).astype("f"), "b": np.zeros(4, "f")},
        domains=[("ai.onnx.contrib", 1)],
    )
    facts = facts_of(optimised(custom, tmp_path / "custom", "int8", files))
    assert facts.operators["ai.onnx.contrib:NegPos"] == 1
    assert facts.operators["MatMulInteger"] == 1
    assert facts.libraries == (library.name,)


def optimised(
    model: Any, folder: Path, how: str, files: dict[str, Path] | None = None
) -> sandbox.SandboxResult:
    """Export a file and make it lighter, without rows."""
    folder.mkdir()
    source = model_files.save(model, folder)
    out = sandbox.run(
        "export",
        protocol.ExportRequest("onnx", ()).to_json(),
        workdir=folder / "box",
        files={protocol.SOURCE: source, **(files or {})},
    )
    return sandbox.run(
        "optimise",
        protocol.OptimiseRequest(how, facts_of(out)).to_json(),
        workdir=folder / "box",
        files={protocol.MODEL: out.outputs[protocol.MODEL], **(files or {})},
    )


def test_what_the_tool_finds_nothing_in_is_rejected_with_the_reason() -> None:
    node, value = model_files.node, model_files.value
    product = model_files.graph(
        [node("MatMul", ["a", "b"], ["y"])],
        [value("a", [2, 3]), value("b", [3, 4])],
        [value("y", [2, 4])],
    )
    origin = validated(product.SerializeToString())
    for how, code in (("graph", "nothing_gained"), ("int8", "nothing_to_quantise")):
        version = variant_of(origin, how)
        job = Job.objects.get(pk=version.export_job_id)
        assert (job.state, job.error_code) == (JobState.FAILED, code)
        assert version.state == VersionState.REJECTED
        assert job.error_message in version.rejection
        assert version.onnx is None
        assert version.validate_job is None
