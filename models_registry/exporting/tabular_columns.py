"""What a fitted model of a table says about the columns that it wants: names, types, usual values.

scikit-learn keeps this in the first step: feature_names_in_, the encoders' categories_, the
scalers' means. Values are for drawing inputs that reach more than the unknown case
(`sampling.draw`): {"choices": [...]}, or [low, high].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

_UNKNOWN: Final = ("never seen", "")
_MAX_CHOICES: Final = 50
_TEXT: Final = ("CountVectorizer", "HashingVectorizer", "TfidfVectorizer")
_FOR_MISSING: Final = (
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor",
    "IterativeImputer",
    "KNNImputer",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "LGBMClassifier",
    "LGBMRanker",
    "LGBMRegressor",
    "SimpleImputer",
    "XGBClassifier",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
)
_ENCODERS: Final = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `dtype` FP32, INT64 or BYTES; `values` to draw from, None where not known.

    `missing`: the model was made for values that are missing (NaN), so some are drawn.
    """

    name: str
    dtype: str = "FP32"
    values: Any = None
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """`framed`: the model picks its columns by name out of a data frame, else it takes a matrix.

    `text`: the matrix is one column of documents, handed over as a flat list.
    """

    columns: tuple[Column, ...]
    framed: bool = False
    text: bool = False

    @property
    def is_matrix(self) -> bool:
        """Whether one input [batch, n] of numbers is the natural form."""
        return not self.framed and not self.text and all(c.dtype == "FP32" for c in self.columns)


def read(model: Any) -> Table | None:
    """The table that a fitted scikit-learn model takes; None where it does not say."""
    first = _first(model)
    names = _names(model, first)
    if isinstance(first, ColumnTransformer):
        return _of_transformer(first, names)
    kind = type(first).__name__
    if kind in _TEXT:
        return Table((_documents("text", first),), text=True)
    if not names:
        return None
    if kind in _ENCODERS:
        columns = tuple(_encoded(name, first, index) for index, name in enumerate(names))
        plain = not hasattr(first, "feature_names_in_")
        return Table(columns, framed=not plain or any(c.dtype != "FP32" for c in columns))
    ranges = _ranges([first], len(names))
    missing = _made_for_missing(first)
    return Table(
        tuple(Column(name, "FP32", ranges[index], missing) for index, name in enumerate(names))
    )


def _first(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = next((step for _, step in model.steps if step not in (None, "passthrough")), None)
    return model


def _names(model: Any, first: Any) -> tuple[str, ...]:
    for owner in (model, first):
        names = getattr(owner, "feature_names_in_", None)
        if names is not None:
            return tuple(str(name) for name in names)
    for owner in (model, first):
        count = getattr(owner, "n_features_in_", None)
        if isinstance(count, int | np.integer) and count > 0:
            return tuple(f"column_{index}" for index in range(int(count)))
    return ()


def _made_for_missing(estimator: Any) -> bool:
    """Whether NaN is a value that the estimator treats, not one that it merely lets through."""
    return type(estimator).__name__ in _FOR_MISSING


# ColumnTransformer


def _of_transformer(transformer: ColumnTransformer, names: tuple[str, ...]) -> Table:
    found: dict[str, Column] = {}
    dropped: set[str] = set()
    by_name = hasattr(transformer, "feature_names_in_")
    for _, step, selector in getattr(transformer, "transformers_", transformer.transformers):
        chosen = _selected(selector, names)
        by_name = by_name and all(isinstance(item, str) for item in _listed(selector))
        if isinstance(step, str) and step == "drop":
            dropped.update(chosen)
            continue
        for index, name in enumerate(chosen):
            column = _column(name, step, index, len(chosen))
            if name not in found or found[name].values is None:
                found[name] = column
    # A transformer that picks by position needs every column; one that picks by name only its own.
    wanted = [name for name in names if name in found or not by_name]
    columns = tuple(found.get(name, Column(name)) for name in wanted)
    if not hasattr(transformer, "feature_names_in_") and all(c.dtype == "FP32" for c in columns):
        return Table(columns)
    return Table(columns, framed=True)


def _listed(selector: Any) -> Sequence[Any]:
    if isinstance(selector, str):
        return [selector]
    return list(selector) if isinstance(selector, list | tuple | np.ndarray) else [selector]


def _selected(selector: Any, names: tuple[str, ...]) -> list[str]:
    """The columns' names that a selector of ColumnTransformer means, after fitting."""
    if isinstance(selector, slice):
        if isinstance(selector.start, str) or isinstance(selector.stop, str):
            start = names.index(selector.start) if selector.start in names else 0
            stop = names.index(selector.stop) + 1 if selector.stop in names else len(names)
            return list(names[start:stop])
        return list(names[selector])
    items = _listed(selector)
    if items and all(isinstance(item, bool | np.bool_) for item in items):
        return [name for name, taken in zip(names, items, strict=False) if taken]
    return [
        item if isinstance(item, str) else names[int(item)]
        for item in items
        if isinstance(item, str) or -len(names) <= int(item) < len(names)
    ]


def _column(name: str, step: Any, index: int, count: int) -> Column:
    chain = list(_chain(step))
    for estimator in chain:
        kind = type(estimator).__name__
        if kind in _TEXT:
            return _documents(name, estimator)
        if kind in _ENCODERS and len(getattr(estimator, "categories_", ())) == count:
            return _encoded(name, estimator, index)
    for estimator in chain:
        statistics = getattr(estimator, "statistics_", None)
        if statistics is not None and np.asarray(statistics).dtype.kind in "OUS":
            return Column(name, "BYTES", {"choices": [str(statistics[index]), *_UNKNOWN]})
    missing = bool(chain) and _made_for_missing(chain[0])
    return Column(name, "FP32", _ranges(chain, count)[index], missing)


def _chain(step: Any) -> Iterator[Any]:
    """The estimators that see a column before it is mixed with others."""
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            yield from _chain(inner)
    elif isinstance(step, FeatureUnion):
        for _, inner in step.transformer_list:
            yield from _chain(inner)
    elif step is not None and not isinstance(step, str):
        yield step


def _encoded(name: str, encoder: Any, index: int) -> Column:
    categories = np.asarray(encoder.categories_[index])
    plain = [item for item in categories.tolist() if item is not None and item == item]
    lenient = getattr(encoder, "handle_unknown", "ignore") != "error"
    if categories.dtype.kind in "iub":
        numbers = [int(item) for item in plain[:_MAX_CHOICES]]
        unknown = [max(numbers) + 1] if lenient and numbers else []
        return Column(name, "INT64", {"choices": numbers + unknown})
    if categories.dtype.kind == "f":
        return Column(name, "FP32", {"choices": [float(item) for item in plain[:_MAX_CHOICES]]})
    words = [str(item) for item in plain[:_MAX_CHOICES]]
    return Column(name, "BYTES", {"choices": words + (list(_UNKNOWN) if lenient else [])})


def _documents(name: str, vectorizer: Any) -> Column:
    """Documents made of the vocabulary's own words, and of others."""
    words = [str(word) for word in sorted(getattr(vectorizer, "vocabulary_", {}) or {})]
    picked = words[:: max(1, len(words) // 24)][:24] or ["alpha", "bravo", "charlie"]
    pairs = [
        " ".join((picked[i], picked[(i * 7 + 3) % len(picked)], picked[(i * 5 + 1) % len(picked)]))
        for i in range(len(picked))
    ]
    return Column(name, "BYTES", {"choices": [*picked, *pairs, "never seen words, really!", ""]})


def _ranges(chain: Sequence[Any], count: int) -> list[Any]:
    """For each column a low and a high end, from whatever in the chain saw the data.

    What stands before it is undone: imputers change no range, numpy's functions have inverses.
    """
    undo: list[Any] = []
    for estimator in chain:
        if (found := _extent(estimator, count)) is not None:
            ends = [np.asarray(end, float) for end in found]
            with np.errstate(all="ignore"):
                for inverse in reversed(undo):
                    ends = [inverse(end) for end in ends]
            low, high = ends
            if np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low <= high):
                return [[float(a), float(b)] for a, b in zip(low, high, strict=True)]
            break
        if hasattr(estimator, "func") and estimator.func is not None:
            name = getattr(estimator.func, "__name__", "")
            if name not in _INVERSES:
                break
            undo.append(_INVERSES[name])
        elif "Imputer" not in type(estimator).__name__:
            break
    return [None] * count


_INVERSES: Final = {
    "exp": np.log,
    "expm1": np.log1p,
    "log": np.exp,
    "log10": lambda end: 10.0**end,
    "log1p": np.expm1,
    "log2": np.exp2,
    "sqrt": np.square,
}


def _extent(estimator: Any, count: int) -> tuple[Any, Any] | None:
    """Low and high ends of the data that a scaler or a tree was fitted to."""
    for middle, spread, width in (
        ("mean_", "scale_", 3.0),
        ("center_", "scale_", 3.0),
        ("data_min_", "data_max_", None),
    ):
        one, other = getattr(estimator, middle, None), getattr(estimator, spread, None)
        if one is None or other is None or np.shape(one) != (count,):
            continue
        if np.shape(other) != (count,):
            continue
        first, second = np.asarray(one, float), np.asarray(other, float)
        if width is None:
            return first, second
        return first - width * second, first + width * second
    return _thresholds(estimator, count)


def _thresholds(estimator: Any, count: int) -> tuple[Any, Any] | None:
    """The extent of the thresholds of decision trees, which nothing drawn at random would meet."""
    trees = [estimator, *np.ravel(getattr(estimator, "estimators_", []))]
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    for tree in (getattr(item, "tree_", None) for item in trees):
        if tree is None:
            continue
        inner = tree.feature >= 0
        features, values = tree.feature[inner], tree.threshold[inner]
        if features.size and features.max() >= count:
            return None
        np.minimum.at(low, features, values)
        np.maximum.at(high, features, values)
    seen = low <= high
    if not seen.any():
        return None
    margin = np.where(seen, np.maximum(0.25 * (high - low), 0.05 * np.abs(high)), 0.0)
    return np.where(seen, low - margin, -1.0), np.where(seen, high + margin, 1.0)
