"""Small trained models of tables in the forms that people save, and what they answer."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import catboost
import joblib
import lightgbm
import numpy as np
import pandas as pd
import skops.io
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

ROWS = 240


@dataclass(frozen=True)
class Trained:
    """A fitted pipeline over columns, and one model of each booster over a matrix."""

    frame: pd.DataFrame
    matrix: np.ndarray[Any, Any]
    pipeline: Pipeline
    xgboost: xgboost.XGBClassifier
    lightgbm: lightgbm.LGBMClassifier
    catboost: catboost.CatBoostRegressor


def trained() -> Trained:
    """Everything trained once, in a second or two."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, ROWS).astype(np.float64),
            "income": rng.lognormal(10, 1, ROWS),
            "city": rng.choice(["Oslo", "Lima", "Pune"], ROWS),
            "plan code": rng.choice([1, 2, 5], ROWS),
        }
    )
    frame.loc[::9, "age"] = np.nan
    label = np.where(frame.city == "Lima", "fraud", np.where(frame.age > 50, "review", "ok"))
    numbers = make_pipeline(SimpleImputer(), FunctionTransformer(np.log1p), StandardScaler())
    words = OneHotEncoder(handle_unknown="ignore")
    columns = ColumnTransformer(
        [("num", numbers, ["age", "income"]), ("cat", words, ["city", "plan code"])]
    )
    pipeline = Pipeline([("prep", columns), ("clf", LogisticRegression(max_iter=300))])
    pipeline.fit(frame, label)
    matrix = rng.standard_normal((ROWS, 5))
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    target = (np.nan_to_num(matrix[:, 0]) > 0).astype(int) + (np.nan_to_num(matrix[:, 1]) > 1)
    names = np.array(["low", "middle", "high"])[target]
    return Trained(
        frame,
        matrix,
        pipeline,
        xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(matrix, target),
        lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(matrix, names),
        catboost.CatBoostRegressor(
            iterations=5, verbose=0, allow_writing_files=False, thread_count=1
        ).fit(matrix, target * 2.5),
    )


def save(models: Trained, folder: Path) -> dict[str, Path]:
    """Each model in a file whose name says nothing."""
    paths = {
        name: folder / f"{name}.bin"
        for name in ("joblib", "pickle", "skops", "ubj", "json", "lgb_pickle", "txt", "cbm")
    }
    joblib.dump(models.pipeline, paths["joblib"], compress=("gzip", 3))
    paths["pickle"].write_bytes(pickle.dumps(models.pipeline, protocol=2))
    paths["skops"].write_bytes(skops.io.dumps(models.pipeline))
    paths["ubj"].write_bytes(bytes(models.xgboost.get_booster().save_raw("ubj")))
    paths["json"].write_bytes(bytes(models.xgboost.get_booster().save_raw("json")))
    joblib.dump(models.lightgbm, paths["lgb_pickle"], compress=3)
    models.lightgbm.booster_.save_model(str(paths["txt"]))
    models.catboost.save_model(str(paths["cbm"]))
    return paths
