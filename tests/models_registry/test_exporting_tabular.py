"""Models of tables to ONNX through the real sandbox, compared with what their framework answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models_registry.adapters import formats, sandbox
from models_registry.adapters.sandbox import Limits
from models_registry.exporting.protocol import ProposeRequest, ValidateRequest
from tests.models_registry import tabular_files
from tests.models_registry.exporting_runs import answers, axes, export, facts_of
from tests.models_registry.tabular_files import Trained

FREE = ("batch", "")


@pytest.fixture(scope="module")
def models() -> Trained:
    """Trained once."""
    return tabular_files.trained()


@pytest.fixture(scope="module")
def files(models: Trained, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Saved once."""
    return tabular_files.save(models, tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("joblib", formats.SKLEARN),
        ("pickle", formats.SKLEARN),
        ("skops", formats.SKOPS),
        ("ubj", formats.XGBOOST),
        ("json", formats.XGBOOST),
        ("lgb_pickle", formats.LIGHTGBM),
        ("txt", formats.LIGHTGBM),
        ("cbm", formats.CATBOOST),
    ],
)
def test_the_family_is_told_by_the_content(files: dict[str, Path], name: str, kind: str) -> None:
    found = formats.sniff(files[name])

    assert (found.format, found.accepted, found.needs_code) == (kind, True, False), found


def _columns(models: Trained, rows: slice) -> dict[str, Any]:
    part = models.frame[rows]
    return {
        "age": part[["age"]].to_numpy(np.float32),
        "income": part[["income"]].to_numpy(np.float32),
        "city": part[["city"]].to_numpy(object),
        "plan code": part[["plan code"]].to_numpy(np.int64),
    }


def test_a_pipeline_over_columns_asks_for_each_and_passes_its_validation(
    tmp_path: Path, models: Trained, files: dict[str, Path]
) -> None:
    result = export(files["joblib"], tmp_path / "export")

    facts = facts_of(result)
    assert axes(facts.inputs) == [
        ("age", "FP32", (-1, 1), FREE),
        ("income", "FP32", (-1, 1), FREE),
        ("city", "BYTES", (-1, 1), FREE),
        ("plan code", "INT64", (-1, 1), FREE),
    ]
    assert axes(facts.outputs) == [
        ("label", "BYTES", (-1,), ("batch",)),
        ("probabilities", "FP32", (-1, 3), FREE),
    ]
    assert (facts.batch_axis, facts.opset, facts.ir_version) == (0, 17, 8)
    assert "Oslo" in facts.ranges["city"]["choices"]
    label, probabilities = answers(result, **_columns(models, slice(0, 40)))
    assert label.tolist() == models.pipeline.predict(models.frame[:40]).tolist()
    wanted = models.pipeline.predict_proba(models.frame[:40])
    assert np.allclose(probabilities, wanted, rtol=1e-4, atol=1e-5)

    report = sandbox.run(
        "validate",
        ValidateRequest(formats.SKLEARN, facts, facts.inputs, samples=40).to_json(),
        workdir=tmp_path / "validate",
        files={"source": files["joblib"], "model.onnx": result.outputs["model.onnx"]},
        limits=Limits(wall_seconds=90),
    )
    assert report.ending == "ok", (report.refusal, report.stderr_tail)
    assert report.answer["verdict"] == "passed"
    assert report.answer["equivalence"]["compared_with"].startswith("scikit-learn 1.")


def test_described_inputs_win_and_need_not_be_those_of_the_model(
    tmp_path: Path, models: Trained, files: dict[str, Path]
) -> None:
    inputs = [
        {"name": "numbers", "dtype": "FP64", "shape": ["batch", 2]},
        {"name": "town", "dtype": "BYTES", "shape": ["batch", 1]},
        {"name": "tariff", "dtype": "INT32", "shape": ["batch"]},
    ]

    result = export(files["skops"], tmp_path / "box", inputs=inputs, outputs=("verdict", "chances"))

    facts = facts_of(result)
    assert [spec.name for spec in facts.inputs] == ["numbers", "town", "tariff"]
    assert [spec.name for spec in facts.outputs] == ["verdict", "chances"]
    part = models.frame[:20]
    verdict, chances = answers(
        result,
        numbers=part[["age", "income"]].to_numpy(np.float64),
        town=part[["city"]].to_numpy(object),
        tariff=part["plan code"].to_numpy(np.int32),
    )
    assert verdict.tolist() == models.pipeline.predict(part).tolist()
    assert np.allclose(chances, models.pipeline.predict_proba(part), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["ubj", "lgb_pickle"])
def test_a_booster_takes_one_matrix_and_treats_missing_values_as_it_was_trained(
    tmp_path: Path, models: Trained, files: dict[str, Path], name: str
) -> None:
    model = models.xgboost if name == "ubj" else models.lightgbm

    result = export(files[name], tmp_path / "box")

    facts = facts_of(result)
    assert axes(facts.inputs) == [("features", "FP32", (-1, 5), FREE)]
    assert [spec.name for spec in facts.outputs] == ["label", "probabilities"]
    given = models.matrix.astype(np.float32)
    label, probabilities = answers(result, features=given)
    assert label.tolist() == model.predict(given).tolist()
    assert np.allclose(probabilities, model.predict_proba(given), rtol=1e-4, atol=1e-6)
    assert facts.ranges["features"][2] > 0  # some of what validation draws is missing


def test_a_regression_has_one_prediction_and_a_proposal_names_it(
    tmp_path: Path, models: Trained, files: dict[str, Path]
) -> None:
    proposed = sandbox.run(
        "propose",
        ProposeRequest(formats.CATBOOST).to_json(),
        workdir=tmp_path / "propose",
        files={"source": files["cbm"]},
        limits=Limits(wall_seconds=90),
    )
    result = export(files["cbm"], tmp_path / "export")

    assert proposed.ending == "ok", proposed.refusal
    facts = facts_of(result)
    assert axes(facts.outputs) == [("prediction", "FP32", (-1,), ("batch",))]
    assert [spec["name"] for spec in proposed.answer["inputs"]] == ["features"]
    assert proposed.answer["outputs"][0]["name"] == "prediction"
    given = models.matrix.astype(np.float32)
    (prediction,) = answers(result, features=given)
    assert np.allclose(prediction, models.catboost.predict(given), rtol=1e-4, atol=1e-5)


def test_inputs_that_are_not_the_models_are_refused_with_its_columns(
    tmp_path: Path, files: dict[str, Path]
) -> None:
    inputs = [{"name": "features", "dtype": "FP32", "shape": ["batch", 4]}]

    result = export(files["txt"], tmp_path / "box", inputs=inputs)

    assert result.ending == "refused"
    assert result.refusal is not None
    assert result.refusal.code == "inputs_do_not_fit"
    assert "Column_0" in result.refusal.message
