"""Native files of XGBoost, LightGBM and CatBoost: what they answer, and their graphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from models_registry.exporting import tabular_convert, tabular_trees
from models_registry.exporting.protocol import Refused
from models_registry.exporting.sampling import Array
from models_registry.exporting.tabular_columns import Column, Table
from models_registry.exporting.tabular_models import (
    LABEL,
    PREDICTION,
    PROBABILITIES,
    Answers,
    Rows,
    plain,
    table_of,
)


@dataclass(frozen=True, slots=True)
class BoosterModel:
    """A file of XGBoost or LightGBM without scikit-learn around it.

    `predict(matrix)` is the library's own; `classes` 0 where the objective does not classify.
    """

    predict: Callable[[Array], Array]
    ensemble: tabular_trees.Ensemble
    table: Table
    warnings: tuple[str, ...] = field(default=())

    def answers(self, rows: Rows) -> Answers:
        """See `Model`."""
        given = np.asarray(self.predict(rows.matrix()), dtype=np.float64)
        if not self.ensemble.classes:
            return [(PREDICTION, given)]
        if given.ndim == 1:
            given = np.column_stack([1.0 - given, given])
        label = given.argmax(axis=1).astype(np.int64)
        return [(LABEL, label), (PROBABILITIES, given)]

    def graph(self, initial: Sequence[tuple[str, str, int]], opset: int) -> onnx.ModelProto:
        """See `Model`."""
        classes = np.arange(self.ensemble.classes)
        shim = (
            tabular_convert.BoostedClassifier(self.ensemble, classes)
            if self.ensemble.classes
            else tabular_convert.BoostedRegressor(self.ensemble)
        )
        return tabular_convert.convert(shim, initial, opset=opset)


def open_xgboost(path: Path) -> BoosterModel:
    """A model that Booster.save_model wrote, as JSON or UBJSON."""
    import xgboost  # needed for its own files only

    booster = xgboost.Booster({"nthread": 1})
    try:
        booster.load_model(bytearray(path.read_bytes()))
        booster.num_features()
    except (xgboost.core.XGBoostError, ValueError, TypeError) as error:
        raise _damaged("XGBoost", error, "booster.save_model('model.ubj')") from error
    return _of_xgboost(booster)


def _of_xgboost(booster: Any) -> BoosterModel:
    import xgboost  # needed for its own files only

    features = booster.num_features()
    attributes = booster.attributes()
    best = attributes.get("best_iteration") if "scikit_learn" in attributes else None
    iterations = int(best) + 1 if best is not None else 0
    found = tabular_trees.from_xgboost(booster, iterations)
    softmax = found.link == "softmax"

    def predict(matrix: Array) -> Array:
        data = xgboost.DMatrix(
            matrix.astype(np.float32),
            feature_names=booster.feature_names,
            feature_types=booster.feature_types,
            enable_categorical=True,
        )
        margin = booster.predict(data, output_margin=softmax, iteration_range=(0, iterations))
        if not softmax:
            return np.asarray(margin)
        shifted = np.exp(margin.astype(np.float64) - margin.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))

    names = booster.feature_names
    found.features = max(found.features, int(features))
    return BoosterModel(predict, found, table_of(found, names), _codes(found, names))


def open_lightgbm(path: Path) -> BoosterModel:
    """A model that Booster.save_model wrote."""
    import lightgbm  # needed for its own files only

    text = path.read_bytes()
    _refuse_cut(text)
    try:
        booster = lightgbm.Booster(model_str=text.decode("utf-8"))
    except (lightgbm.basic.LightGBMError, UnicodeDecodeError, ValueError) as error:
        raise _damaged("LightGBM", error, "booster.save_model('model.txt')") from error
    return _of_lightgbm(booster)


def _refuse_cut(text: bytes) -> None:
    """`Refused` unless all trees are there: LightGBM ends the process where one is not.

    The header says how many bytes each tree takes (gbdt_model_text.cpp, "tree_sizes").
    """
    text = text.replace(b"\r\n", b"\n")
    header, _, _ = text.partition(b"\nTree=")
    sizes = re.search(rb"\ntree_sizes=([0-9 ]*)", header)
    place = len(header) + 1
    whole = sizes is None or b"\nend of trees" in text
    for size in sizes.group(1).split() if sizes else ():
        whole = whole and text.startswith(b"Tree=", place)
        place += int(size)
    if b"\nparameters:" in text:
        whole = whole and b"\nend of parameters" in text
    if not whole:
        raise _damaged(
            "LightGBM",
            ValueError("it ends before its last tree"),
            "booster.save_model('model.txt')",
        )


def _of_lightgbm(booster: Any) -> BoosterModel:
    found = tabular_trees.from_lightgbm(booster)

    def predict(matrix: Array) -> Array:
        return np.asarray(booster.predict(matrix, num_threads=1))

    names = booster.feature_name()
    return BoosterModel(predict, found, table_of(found, names), _codes(found, names))


def _codes(found: tabular_trees.Ensemble, names: Sequence[str] | None) -> tuple[str, ...]:
    if not found.categorical:
        return ()
    listed = ", ".join(
        names[index] if names else str(index) for index in sorted(found.categorical)[:8]
    )
    return (
        f"Columns with categories ({listed}) are given as the numbers of the categories (0, 1, …), "
        "in the order that training gave them.",
    )


def _damaged(library: str, error: Exception, call: str) -> Refused:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    first = next((line for line in lines if "Stack trace" not in line), "")
    return Refused(
        f"{library.lower()}_damaged",
        f"{library} cannot open the file: {first[:300]}",
        f"It is cut off, damaged or of another release: save it again with {call} and upload that.",
    )


def native(model: Any, notes: tuple[str, ...]) -> BoosterModel | CatBoostModel | None:
    """A booster out of a pickle that has no scikit-learn interface that converts; else None."""
    kind = type(model)
    if kind.__module__ == "catboost.core":
        return catboost_model(model, notes)
    if kind.__module__ == "lightgbm.basic":
        return _of_lightgbm(model)
    if kind.__module__ == "xgboost.core":
        return _of_xgboost(model)
    return None


# CatBoost


@dataclass(frozen=True, slots=True)
class CatBoostModel:
    """A CatBoost model; its own library writes the ONNX file."""

    model: Any
    table: Table
    classes: bool
    warnings: tuple[str, ...] = ()

    def answers(self, rows: Rows) -> Answers:
        """See `Model`."""
        matrix = rows.matrix()
        if not self.classes:
            return [(PREDICTION, np.asarray(self.model.predict(matrix), np.float64))]
        label = plain(self.model.predict(matrix, prediction_type="Class")).reshape(-1)
        chances = self.model.predict(matrix, prediction_type="Probability")
        return [(LABEL, label), (PROBABILITIES, np.asarray(chances, np.float64))]

    def graph(self, initial: Sequence[tuple[str, str, int]], opset: int) -> onnx.ModelProto:
        """See `Model`."""
        return catboost_graph(self.model, opset)


def open_catboost(path: Path, form: str) -> CatBoostModel:
    """A model that save_model wrote as cbm or json."""
    import catboost  # a second of its own, and needed for its own files only

    model = catboost.CatBoost()
    try:
        model.load_model(str(path), format=form)
    except Exception as error:
        raise _damaged("CatBoost", error, "model.save_model('model.cbm')") from error
    return catboost_model(model)


def catboost_model(model: Any, notes: tuple[str, ...] = ()) -> CatBoostModel:
    """A fitted CatBoost object as a model. `Refused` for features that its ONNX cannot hold."""
    special = (
        list(model.get_cat_feature_indices())
        + list(model.get_text_feature_indices())
        + list(model.get_embedding_feature_indices())
    )
    if special:
        listed = ", ".join(str(model.feature_names_[index]) for index in sorted(special)[:8])
        raise Refused(
            "step_not_supported",
            f"The CatBoost model has categorical, text or embedding features ({listed}), which "
            "CatBoost itself cannot write to ONNX.",
            "Encode these columns as numbers before training (for example OrdinalEncoder in a "
            "step of their own), and train on numbers only.",
        )
    names = [str(name) for name in model.feature_names_]
    columns = tuple(
        Column(name, "FP32", values, missing=True) for name, values in _borders(model, names)
    )
    classes = len(np.ravel(model.classes_)) > 0
    return CatBoostModel(model, Table(columns), classes, notes)


def _borders(model: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """The extent of the borders between which CatBoost sees a feature's values."""
    try:
        found = model.get_borders()
    except Exception:  # noqa: BLE001 - a model without float features has none
        found = {}
    result: list[tuple[str, Any]] = []
    for index, name in enumerate(names):
        borders = [value for value in found.get(index, ()) if np.isfinite(value)]
        if not borders:
            result.append((name, None))
            continue
        low, high = min(borders), max(borders)
        margin = max(0.25 * (high - low), 0.05 * abs(high), 1e-3)
        result.append((name, [low - margin, high + margin]))
    return result


def catboost_graph(model: Any, opset: int) -> onnx.ModelProto:
    """CatBoost's own export, its map of probabilities turned back into the tensor it came from.

    Its nodes are all of ai.onnx.ml: the version of ONNX's own operators is free.
    """
    path = Path("/tmp/catboost.onnx")  # noqa: S108 - the sandbox's own
    model.save_model(str(path), format="onnx", export_parameters={"onnx_graph_name": "model"})
    exported = onnx.load_model(str(path))
    path.unlink()
    exported.producer_version = metadata.version("catboost")  # its own holds a whole build log
    kept = [entry for entry in exported.opset_import if entry.domain]
    del exported.opset_import[:]
    exported.opset_import.extend([*kept, onnx.helper.make_opsetid("", opset)])
    graph = exported.graph
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        for output in graph.output:
            if output.name == node.output[0]:
                output.CopyFrom(
                    onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None)
                )
        graph.node.remove(node)
    return exported
