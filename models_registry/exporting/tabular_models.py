"""Opened models of tables: what they take, what their own framework answers, and their graph.

Answers are the framework's: predict and predict_proba, in double precision where it computes so.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import lightgbm
import numpy as np
import onnx
import pandas as pd
import xgboost
from sklearn.base import is_classifier, is_clusterer, is_outlier_detector

from models_registry.exporting import (
    tabular_columns,
    tabular_convert,
    tabular_steps,
    tabular_trees,
)
from models_registry.exporting.protocol import Refused
from models_registry.exporting.sampling import Array
from models_registry.exporting.tabular_columns import Column, Table

Answers = list[tuple[str, Array]]
LABEL, PROBABILITIES, SCORES = "label", "probabilities", "scores"
PREDICTION, TRANSFORMED = "prediction", "transformed"


@dataclass(frozen=True, slots=True)
class Rows:
    """Values by column, in the table's order: numbers, or objects for text."""

    table: Table
    columns: tuple[Array, ...]

    def matrix(self) -> Array:
        """[rows, columns]: numbers in double precision, or objects."""
        kind = object if any(one.dtype == object for one in self.columns) else np.float64
        return np.column_stack([one.astype(kind) for one in self.columns])

    def given(self) -> Any:
        """What predict takes: a data frame where columns are picked by name, else a matrix."""
        if self.table.text:
            return [str(document) for document in self.columns[0]]
        if not self.table.framed:
            return self.matrix()
        names = [column.name for column in self.table.columns]
        series = [
            pd.Series(one if one.dtype == object else one.astype(_wide(one)), dtype=_wide(one))
            for one in self.columns
        ]
        return pd.concat(series, axis=1, keys=names)


def _wide(column: Array) -> Any:
    return {"O": object, "i": np.int64}.get(column.dtype.kind, np.float64)


class Model(Protocol):
    """What `tabular_source` needs of any model of a table."""

    @property
    def table(self) -> Table: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    def answers(self, rows: Rows) -> Answers:
        """Outputs by name, in order; raises what the framework raises."""
        ...

    def graph(self, initial: Sequence[tuple[str, str, int]], opset: int) -> onnx.ModelProto:
        """ONNX with the inputs `initial` (name, dtype, columns) and those outputs in that order."""
        ...


# scikit-learn's interface


@dataclass(frozen=True, slots=True)
class EstimatorModel:
    """A fitted estimator, transformer or pipeline, those of XGBoost and LightGBM included."""

    estimator: Any
    table: Table
    warnings: tuple[str, ...] = ()

    def answers(self, rows: Rows) -> Answers:
        """See `Model`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return answers_of(self.estimator, rows.given())

    def graph(self, initial: Sequence[tuple[str, str, int]], opset: int) -> onnx.ModelProto:
        """See `Model`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tabular_convert.convert(self.estimator, initial, opset=opset)


def answers_of(estimator: Any, given: Any) -> Answers:
    """What a fitted estimator answers, by what kind of estimator it is."""
    if hasattr(estimator, "predict"):
        first = plain(estimator.predict(given))
        if is_classifier(estimator):
            return _classified(estimator, given, first)
        if is_outlier_detector(estimator) and hasattr(estimator, "decision_function"):
            return [(LABEL, first), (SCORES, plain(estimator.decision_function(given)))]
        if is_clusterer(estimator) and hasattr(estimator, "transform"):
            return [(LABEL, first), (SCORES, plain(estimator.transform(given)))]
        if hasattr(estimator, "predict_proba"):  # mixtures
            return [(LABEL, first), (PROBABILITIES, plain(estimator.predict_proba(given)))]
        return [(PREDICTION, first)]
    if hasattr(estimator, "transform"):
        return [(TRANSFORMED, plain(estimator.transform(given)))]
    raise Refused(
        "model_cannot_predict",
        f"A {type(estimator).__name__} can neither predict nor transform new rows.",
        "Fit an estimator with predict, or a transformer.",
    )


def _classified(estimator: Any, given: Any, label: Array) -> Answers:
    if label.ndim > 1 and label.shape[1] > 1:
        raise Refused(
            "several_targets",
            f"The classifier answers {label.shape[1]} targets at once, as a list of "
            "probabilities that no single tensor holds.",
            "Save one model for each target (estimators_[i] of a MultiOutputClassifier).",
        )
    label = label.reshape(-1)
    if label.dtype.kind == "f" and np.array_equal(label, np.floor(label)):
        label = label.astype(np.int64)
    if hasattr(estimator, "predict_proba"):
        return [(LABEL, label), (PROBABILITIES, plain(estimator.predict_proba(given)))]
    if hasattr(estimator, "decision_function"):
        return [(LABEL, label), (SCORES, plain(estimator.decision_function(given)))]
    return [(LABEL, label)]


def plain(value: Any) -> Array:
    """A dense array of doubles, whole numbers or text."""
    if hasattr(value, "toarray"):
        value = value.toarray()
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        if array.dtype.kind == "O" and all(isinstance(one, int | float) for one in array.flat):
            return np.asarray(array.tolist())
        return array.astype(str).astype(object)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    return array.astype(np.float64)


def estimator_model(
    estimator: Any, notes: tuple[str, ...] = (), versions: tuple[str, ...] = ()
) -> EstimatorModel:
    """An object out of a pickle as a model. `Refused` when it is not a fitted one."""
    estimator = _only_one(estimator)
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if not hasattr(estimator, "predict") and not hasattr(estimator, "transform"):
        raise Refused(
            "not_a_model",
            f"The file holds a {type(estimator).__module__}.{type(estimator).__name__}, which is "
            "no fitted model.",
            "Save the fitted estimator or pipeline itself, not a list or dictionary around it.",
        )
    table = _booster_table(estimator) if _is_booster(estimator) else tabular_columns.read(estimator)
    if table is None:
        raise Refused(
            "not_fitted" if not versions else "pickle_too_old",
            f"The {type(estimator).__name__} does not say how many features it takes: it was "
            "not fitted, or saved by a release that did not keep this"
            + (f" (scikit-learn {versions[0]})." if versions else "."),
            "Call fit before saving it, or save it again with a current release.",
        )
    model = EstimatorModel(estimator, table, notes + _text_notes(estimator))
    if any(column.missing for column in table.columns) and not _takes_missing(model):
        sound = tuple(replace(column, missing=False) for column in table.columns)
        model = replace(model, table=replace(table, columns=sound))
    return model


def _only_one(value: Any) -> Any:
    """The estimator in a dictionary or list that holds just one; else the value itself."""
    parts = {}
    if isinstance(value, dict):
        parts = {str(key): part for key, part in value.items()}
    elif isinstance(value, list | tuple):
        parts = {str(index): part for index, part in enumerate(value)}
    found = {
        key: part
        for key, part in parts.items()
        if hasattr(part, "predict") or hasattr(part, "transform")
    }
    if len(found) > 1:
        listed = ", ".join(f"{key} ({type(part).__name__})" for key, part in found.items())
        raise Refused(
            "several_models",
            f"The file holds several fitted objects: {listed[:300]}.",
            "Put them into one sklearn.pipeline.Pipeline, in the order that they are used in, and "
            "save that; or save each one in a file of its own.",
        )
    return next(iter(found.values()), value)


def _text_notes(estimator: Any) -> tuple[str, ...]:
    steps = tabular_steps.text_imputers(estimator)
    if not steps:
        return ()
    return (
        f"The step {', '.join(steps)[:200]} fills in missing text. A request has no missing text, "
        "so it does nothing there; an empty text is a text.",
    )


def _takes_missing(model: EstimatorModel) -> bool:
    """Whether it answers a row in which everything is missing that may be."""
    columns = []
    for column in model.table.columns:
        choices = column.values["choices"] if isinstance(column.values, dict) else [0.0]
        value = np.nan if column.missing else choices[0]
        columns.append(np.array([value], dtype=object if column.dtype == "BYTES" else None))
    try:
        model.answers(Rows(model.table, tuple(columns)))
    except Exception:  # noqa: BLE001 - whatever it says of a row without values
        return False
    return True


def _is_booster(estimator: Any) -> bool:
    return isinstance(estimator, lightgbm.LGBMModel | xgboost.XGBModel | tabular_convert.Boosted)


def _booster_table(estimator: Any) -> Table:
    names = getattr(estimator, "feature_names_in_", None)
    return table_of(tabular_convert.ensemble_of(estimator), names)


def table_of(ensemble: tabular_trees.Ensemble, names: Sequence[Any] | None = None) -> Table:
    """One column for each feature, values around the thresholds of its branches."""
    low, high = ensemble.extents()
    given = [str(name) for name in names] if names is not None else []
    if len(given) != ensemble.features:
        given = [f"column_{index}" for index in range(ensemble.features)]
    ends = zip(given, low, high, strict=True)
    return Table(tuple(Column(name, "FP32", [a, b], missing=True) for name, a, b in ends))
