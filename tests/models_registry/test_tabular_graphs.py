"""Graphs of tables against their frameworks, without the sandbox: objectives, branches, steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from models_registry.exporting import axes, sampling, tabular_boosters, tabular_models
from models_registry.exporting.harness import Reporter
from models_registry.exporting.protocol import Refused
from models_registry.exporting.sessions import Session
from models_registry.exporting.sources import Wanted
from models_registry.exporting.tabular_models import Model
from models_registry.exporting.tabular_source import TabularSource, source_of
from models_registry.exporting.tabular_trees import at_most

RNG = np.random.default_rng(5)
X = RNG.standard_normal((300, 4))
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
AMOUNT = np.abs(X[:, 0] * 2 + X[:, 1]) + 0.1
CLASS = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
FLAG = (CLASS > 0).astype(int)
CODES = np.column_stack([X[:, 0], RNG.integers(0, 9, 300)])


def _exported(model: Model, path: Path) -> tuple[TabularSource, list[str]]:
    """The source, and the warnings of an export that was written to `path`."""
    source = source_of(model)
    trial = axes.first_run(source.run, source.inputs, None, source.ranges)
    names = [name for name, _ in trial.outputs]
    wanted = Wanted(trial.feeds, names, 17, "24.10", Reporter(os.open(os.devnull, os.O_WRONLY)))
    return source, source.export(path, wanted)[1]


def _compare(source: TabularSource, path: Path, rounds: int = 40) -> int:
    """Assert that graph and framework agree on drawn rows; gives how many values were missing."""
    session = Session(path, seconds=30)
    missing = 0
    for number in range(rounds):
        feeds = sampling.feeds_for(source.inputs, {"batch": 8}, (1, number), source.ranges)
        missing += sum(int(np.isnan(one).sum()) for one in feeds.values() if one.dtype.kind == "f")
        for (name, wanted), given in zip(source.run(feeds), session.run(feeds), strict=True):
            assert given.shape == wanted.shape, name
            if wanted.dtype.kind == "f":
                assert np.allclose(given, wanted, rtol=1e-4, atol=1e-5, equal_nan=True), name
            else:
                assert given.astype(str).tolist() == wanted.astype(str).tolist(), name
    return missing


def _xgboost(target: Any, **params: Any) -> Callable[[Path], Model]:
    def make(folder: Path) -> Model:
        data = xgboost.DMatrix(HOLES, target)
        booster = xgboost.train({"nthread": 1, "verbosity": 0, **params}, data, 6)
        booster.save_model(folder / "model.ubj")
        return tabular_boosters.open_xgboost(folder / "model.ubj")

    return make


def _lightgbm(
    target: Any, x: Any = HOLES, options: dict[str, Any] | None = None, **params: Any
) -> Callable[[Path], Model]:
    def make(folder: Path) -> Model:
        data = lightgbm.Dataset(x, target, **(options or {}))
        quiet = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
        lightgbm.train({**quiet, **params}, data, 6).save_model(folder / "model.txt")
        return tabular_boosters.open_lightgbm(folder / "model.txt")

    return make


BOOSTERS: dict[str, Callable[[Path], Model]] = {
    "xgb squared": _xgboost(AMOUNT, objective="reg:squarederror"),
    "xgb gamma": _xgboost(AMOUNT, objective="reg:gamma"),
    "xgb poisson": _xgboost(np.round(AMOUNT), objective="count:poisson"),
    "xgb logistic": _xgboost(FLAG, objective="binary:logistic", base_score=0.3),
    "xgb logitraw": _xgboost(FLAG, objective="binary:logitraw", base_score=0.3),
    "xgb hinge": _xgboost(FLAG, objective="binary:hinge"),
    "xgb softprob": _xgboost(CLASS, objective="multi:softprob", num_class=3),
    "xgb softmax": _xgboost(CLASS, objective="multi:softmax", num_class=3),
    "xgb dart": _xgboost(FLAG, objective="binary:logistic", booster="dart", rate_drop=0.4),
    "xgb quantiles": _xgboost(AMOUNT, objective="reg:quantileerror", quantile_alpha=[0.1, 0.9]),
    "lgb regression": _lightgbm(AMOUNT, objective="regression"),
    "lgb sqrt": _lightgbm(AMOUNT, objective="regression", reg_sqrt=True),
    "lgb tweedie": _lightgbm(AMOUNT, objective="tweedie"),
    "lgb binary": _lightgbm(FLAG, objective="binary", sigmoid=1.7),
    "lgb multiclass": _lightgbm(CLASS, objective="multiclass", num_class=3),
    "lgb one against all": _lightgbm(CLASS, objective="multiclassova", num_class=3),
    "lgb forest": _lightgbm(
        FLAG, objective="binary", boosting="rf", bagging_freq=1, bagging_fraction=0.7
    ),
    "lgb zero is missing": _lightgbm(FLAG, np.round(X), objective="binary", zero_as_missing=True),
    "lgb nothing is missing": _lightgbm(FLAG, X, objective="binary"),
    "lgb categories": _lightgbm(
        (CODES[:, 1] % 3 == 0).astype(int),
        CODES,
        {"categorical_feature": [1]},
        objective="binary",
        min_data_per_group=1,
        cat_smooth=1,
    ),
}


@pytest.mark.parametrize("name", BOOSTERS)
def test_a_booster_answers_as_its_library_does_with_missing_values_too(
    tmp_path: Path, name: str
) -> None:
    source, _ = _exported(BOOSTERS[name](tmp_path), tmp_path / "model.onnx")

    assert _compare(source, tmp_path / "model.onnx") > 10


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(9, random_state=0).fit(HOLES, CLASS),
        RandomForestRegressor(9, random_state=0).fit(X, np.column_stack([AMOUNT, FLAG])),
        make_pipeline(StandardScaler(), LinearSVC()).fit(X, FLAG),
        SVC().fit(X, FLAG),
        make_pipeline(FunctionTransformer(np.tanh), KBinsDiscretizer(3), Ridge()).fit(X, AMOUNT),
        LogisticRegression().fit(X, CLASS.astype(float)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_gives_the_shapes_of_its_predict(tmp_path: Path, estimator: Any) -> None:
    model = tabular_models.estimator_model(estimator)

    source, _ = _exported(model, tmp_path / "model.onnx")

    _compare(source, tmp_path / "model.onnx")


def test_a_value_on_a_threshold_takes_the_librarys_branch(tmp_path: Path) -> None:
    thresholds = np.float32([0.1, 0.3, 0.7, 1.1])  # none of them is a double's 0.1, 0.3 …
    x = np.repeat(thresholds, 40).astype(np.float64)[:, None]
    booster = lightgbm.train(
        {"objective": "regression", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 1},
        lightgbm.Dataset(x, x[:, 0] * 3),
        5,
    )
    booster.save_model(tmp_path / "model.txt")
    _exported(tabular_boosters.open_lightgbm(tmp_path / "model.txt"), tmp_path / "m")
    near = np.float32([at_most(t) for t in (0.1, 0.2, 0.5, 0.9)])
    rows = np.concatenate([thresholds, near, np.nextafter(near, np.float32(2))])[:, None]

    (given,) = Session(tmp_path / "m", seconds=30).run({"features": rows})

    assert np.allclose(given, booster.predict(rows.astype(np.float64)), rtol=1e-5)
    assert at_most(0.1) <= 0.1 < float(np.float32(0.1))


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.8, 0.97])
def test_a_lightgbm_file_that_was_cut_never_reaches_the_library(
    tmp_path: Path, share: float
) -> None:
    _lightgbm(AMOUNT, objective="regression")(tmp_path)  # a cut one would end the whole process
    path = tmp_path / "model.txt"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])

    with pytest.raises(Refused) as refused:
        tabular_boosters.open_lightgbm(path)

    assert refused.value.refusal.code == "lightgbm_damaged"


def test_double_precision_is_used_inside_where_single_would_be_wrong(tmp_path: Path) -> None:
    far = X * 5 + 1_000_000
    pipeline = make_pipeline(StandardScaler(), Ridge()).fit(far, X[:, 0] * 3)
    model = tabular_models.estimator_model(pipeline)

    source, warnings = _exported(model, tmp_path / "model.onnx")

    assert "double precision" in warnings[0]
    assert [spec.dtype for spec in source.inputs] == ["FP32"]
    _compare(source, tmp_path / "model.onnx")


def _sinh_of_some(x: Any) -> Any:
    return np.sinh(x)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (
            make_pipeline(
                ColumnTransformer([("wave", FunctionTransformer(_sinh_of_some), [0, 1])]), Ridge()
            ),
            ["columntransformer → wave → FunctionTransformer", "_sinh_of_some"],
        ),
        (TransformedTargetRegressor(Ridge()), ["TransformedTargetRegressor", "no converter"]),
    ],
)
def test_a_step_without_a_form_in_onnx_is_named_with_its_path(
    tmp_path: Path, estimator: Any, words: list[str]
) -> None:
    model = tabular_models.estimator_model(estimator.fit(X, AMOUNT))

    with pytest.raises(Refused) as refused:
        _exported(model, tmp_path / "model.onnx")

    assert refused.value.refusal.code == "step_not_supported"
    assert all(word in refused.value.refusal.message for word in words)


def test_what_is_no_single_fitted_model_is_refused() -> None:
    fitted = LogisticRegression().fit(X, FLAG)

    assert tabular_models.estimator_model({"model": fitted, "note": 1}).estimator is fitted
    for value, code in (
        ({"model": fitted, "scaler": StandardScaler().fit(X)}, "several_models"),
        (LogisticRegression(), "not_fitted"),
        ({"a": 1}, "not_a_model"),
    ):
        with pytest.raises(Refused) as refused:
            tabular_models.estimator_model(value)
        assert refused.value.refusal.code == code
