"""Boosted trees as one ensemble of nodes, read from XGBoost and LightGBM, written as ONNX.

One reader for each library's own description of its trees and one writer, because the general
converters guess objectives and base scores, and round thresholds to the nearest number, which puts
a value that lies on a threshold into the wrong branch. Rules of each library for what is missing:
XGBoost `tree_model.h` (x < t, categories of a node go right), LightGBM `tree.h` (x <= t, categories
go left; missing_type None takes NaN as 0, Zero takes 0 as missing).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from models_registry.exporting.protocol import Refused

_NO_END: Final = 1e30  # beyond it a threshold only separates what is missing
_WAY_OUT: Final = (
    "Train it with tree boosters (gbtree, dart or gbdt) and one of the usual objectives, or export "
    "it to ONNX yourself and upload that."
)
_LINKS_XGBOOST: Final = {
    **dict.fromkeys(
        (
            "reg:squarederror",
            "reg:linear",
            "reg:squaredlogerror",
            "reg:pseudohubererror",
            "reg:absoluteerror",
            "reg:quantileerror",
            "reg:expectileerror",
            "rank:pairwise",
            "rank:ndcg",
            "rank:map",
            "binary:logitraw",
        ),
        "identity",
    ),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "sigmoid"),
    **dict.fromkeys(
        ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft"), "exp"
    ),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    "binary:hinge": "step",
}
_LINKS_LIGHTGBM: Final = {
    **dict.fromkeys(
        (
            "regression",
            "regression_l1",
            "huber",
            "fair",
            "quantile",
            "mape",
            "lambdarank",
            "rank_xendcg",
        ),
        "identity",
    ),
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), "sigmoid"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    "multiclass": "softmax",
    "cross_entropy_lambda": "log1pexp",
}
_CLASSIFIES: Final = frozenset(
    {"binary:logistic", "binary:hinge", "multi:softprob", "multi:softmax"}
    | {"binary", "multiclass", "multiclassova"}
)


@dataclass
class Ensemble:
    """Trees whose leaves add to `base`, one margin for each of `groups`; then `link` over them."""

    features: int
    groups: int
    base: list[float]
    link: str
    classes: int = 0
    slope: float = 1.0
    divisor: float = 1.0
    square: bool = False
    categorical: set[int] = field(default_factory=set)
    tree: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    mode: list[str] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    true: list[int] = field(default_factory=list)
    false: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    leaf: list[tuple[int, int, int, float]] = field(default_factory=list)

    def add(self, tree: int, node: int, *, split: Split | None = None) -> None:
        """A branch, or a leaf whose weight `weigh` gives."""
        self.tree.append(tree)
        self.node.append(node)
        self.feature.append(split.feature if split else 0)
        self.mode.append(split.mode if split else "LEAF")
        self.value.append(split.value if split else 0.0)
        self.true.append(split.true if split else 0)
        self.false.append(split.false if split else 0)
        self.missing.append(int(split.missing) if split else 0)

    def weigh(self, tree: int, node: int, group: int, weight: float) -> None:
        """What a leaf adds to a group's margin."""
        self.leaf.append((tree, node, group, weight))

    def extents(self) -> tuple[list[float], list[float]]:
        """For each feature a low and a high end around its thresholds."""
        low, high = [math.inf] * self.features, [-math.inf] * self.features
        for feature, mode, value in zip(self.feature, self.mode, self.value, strict=True):
            if mode != "LEAF" and feature < self.features and abs(value) < _NO_END:
                low[feature] = min(low[feature], value)
                high[feature] = max(high[feature], value)
        for index in range(self.features):
            if low[index] > high[index]:
                low[index], high[index] = -1.0, 1.0
                continue
            margin = max(0.25 * (high[index] - low[index]), 0.05 * abs(high[index]), 1e-3)
            low[index], high[index] = low[index] - margin, high[index] + margin
            if index in self.categorical:
                low[index], high[index] = 0.0, high[index] + 1.0
        return low, high


@dataclass(frozen=True, slots=True)
class Split:
    """One branch: where `feature` goes by `mode` and `value`, and where NaN goes."""

    feature: int
    mode: str
    value: float
    true: int
    false: int
    missing: bool


def _unknown(library: str, objective: str) -> Refused:
    return Refused(
        "objective_not_supported",
        f"The {library} model has the objective “{objective[:60]}”: how its scores become answers "
        "is not in the file.",
        _WAY_OUT,
    )


# scikit-learn: decision trees and forests of them.


def from_sklearn(model: Any) -> Ensemble:
    """The ensemble of a fitted decision tree or forest; its answers are the mean of its trees'.

    Leaves keep fractions and the mean is taken at the end: votes of pure leaves add up exactly, so
    that a tie is the same tie. X is FP32 there as here (`sklearn/tree/_tree.pyx`, DTYPE).
    """
    trees = [model.tree_] if hasattr(model, "tree_") else [one.tree_ for one in model.estimators_]
    classifies = hasattr(model, "classes_")
    groups = int(trees[0].value.shape[2 if classifies else 1])
    found = Ensemble(
        features=int(trees[0].n_features),
        groups=groups,
        base=[0.0] * groups,
        link="identity",
        classes=groups if classifies else 0,
        divisor=float(len(trees)),
    )
    for number, tree in enumerate(trees):
        _sklearn_tree(found, number, tree, classifies)
    return found


def _sklearn_tree(found: Ensemble, number: int, tree: Any, classifies: bool) -> None:
    values = tree.value[:, 0, :] if classifies else tree.value[:, :, 0]
    if classifies:  # counts before scikit-learn 1.3, fractions since
        values = values / values.sum(axis=1, keepdims=True)
    missing = getattr(tree, "missing_go_to_left", None)
    left, right = tree.children_left.tolist(), tree.children_right.tolist()
    features, thresholds = tree.feature.tolist(), tree.threshold.tolist()
    for node, yes in enumerate(left):
        if yes == -1:
            found.add(number, node)
            for group, weight in enumerate(values[node].tolist()):
                if weight or not classifies:
                    found.weigh(number, node, group, weight)
            continue
        goes_left = bool(missing[node]) if missing is not None else False
        value = at_most(thresholds[node])
        split = Split(features[node], "BRANCH_LEQ", value, yes, right[node], goes_left)
        found.add(number, node, split=split)


# XGBoost: the JSON form of the model, as Booster.save_raw("json") gives it.


def from_xgboost(booster: Any, iterations: int = 0) -> Ensemble:
    """The ensemble of an `xgboost.Booster`; `iterations` > 0 takes only the first ones."""
    learner = json.loads(booster.save_raw("json"))["learner"]
    objective = str(learner["objective"]["name"])
    if objective not in _LINKS_XGBOOST:
        raise _unknown("XGBoost", objective)
    gradient = learner["gradient_booster"]
    drop = gradient.get("weight_drop")
    name = str(gradient.get("name"))
    gradient = gradient["gbtree"] if name == "dart" else gradient
    if name not in {"gbtree", "dart"}:
        raise Refused(
            "booster_not_supported",
            f"An XGBoost booster of the kind {name} has no trees.",
            _WAY_OUT,
        )
    model, param = gradient["model"], learner["learner_model_param"]
    classes = int(param.get("num_class", 0))
    groups = max(1, classes, int(param.get("num_target", 1)))
    found = Ensemble(
        features=int(param["num_feature"]),
        groups=groups,
        base=_base_margin(param["base_score"], objective, groups),
        link=_LINKS_XGBOOST[objective],
        classes=(max(2, classes) if objective in _CLASSIFIES else 0),
    )
    per_iteration = groups * max(1, int(model["gbtree_model_param"].get("num_parallel_tree", 1)))
    trees = model["trees"][: iterations * per_iteration or None]
    for number, tree in enumerate(trees):
        weight = float(drop[number]) if drop else 1.0
        _xgboost_tree(found, number, tree, int(model["tree_info"][number]), weight)
    return found


def _base_margin(text: str, objective: str, groups: int) -> list[float]:
    """`base_score` is kept as an answer; margins are what the link's inverse makes of it."""
    loaded = json.loads(text) if text.startswith("[") else [float(text)]
    scores = [float(score) for score in loaded]
    if objective in {"binary:logistic", "reg:logistic"}:
        scores = [math.log(score / (1.0 - score)) if 0 < score < 1 else score for score in scores]
    elif _LINKS_XGBOOST[objective] == "exp":
        scores = [math.log(score) if score > 0 else score for score in scores]
    return scores if len(scores) == groups else scores[:1] * groups


def _xgboost_tree(
    found: Ensemble, number: int, tree: dict[str, Any], group: int, weight: float
) -> None:
    if int(tree["tree_param"].get("size_leaf_vector", 1) or 1) > 1:
        raise Refused(
            "booster_not_supported",
            "The XGBoost model has trees with several answers in a leaf (multi_output_tree).",
            "Train it with multi_strategy='one_output_per_tree'.",
        )
    left, right = tree["left_children"], tree["right_children"]
    sets = {
        node: tree["categories"][start : start + size]
        for node, start, size in zip(
            tree["categories_nodes"],
            tree["categories_segments"],
            tree["categories_sizes"],
            strict=True,
        )
    }
    fresh = len(left)
    for node, yes in enumerate(left):
        value = float(tree["split_conditions"][node])
        if yes == -1:
            found.add(number, node)
            found.weigh(number, node, group, value * weight)
            continue
        feature, default = int(tree["split_indices"][node]), bool(tree["default_left"][node])
        if node not in sets:
            split = Split(feature, "BRANCH_LT", value, yes, right[node], default)
            found.add(number, node, split=split)
            continue
        found.categorical.add(feature)
        chain = (feature, sets[node], right[node], yes, not default)
        fresh = _equal_chain(found, number, node, chain, fresh)


def _equal_chain(
    found: Ensemble,
    number: int,
    node: int,
    chain: tuple[int, list[Any], int, int, bool],
    fresh: int,
) -> int:
    """Membership of a set as one test for equality after the other; gives the next free number."""
    feature, values, inside, outside, missing = chain
    for index, value in enumerate(values):
        last = index == len(values) - 1
        other = outside if last else fresh
        split = Split(feature, "BRANCH_EQ", float(value), inside, other, missing)
        found.add(number, node, split=split)
        node, fresh = fresh, fresh + (0 if last else 1)
    return fresh


# LightGBM: Booster.dump_model().


def from_lightgbm(booster: Any) -> Ensemble:
    """The ensemble of a `lightgbm.Booster`, its best iteration where it knows one."""
    document = booster.dump_model()
    words = str(document.get("objective") or "").split()
    objective = words[0] if words else "regression"
    if objective not in _LINKS_LIGHTGBM or (not words and document.get("num_class", 1) > 1):
        raise _unknown("LightGBM", " ".join(words))
    options = dict(word.split(":", 1) for word in words[1:] if ":" in word)
    groups = int(document["num_tree_per_iteration"])
    found = Ensemble(
        features=int(document["max_feature_idx"]) + 1,
        groups=groups,
        base=[0.0] * groups,
        link=_LINKS_LIGHTGBM[objective],
        classes=max(2, int(document["num_class"])) if objective in _CLASSIFIES else 0,
        slope=float(options.get("sigmoid", 1.0)),
        square="sqrt" in words,
    )
    trees = document["tree_info"]
    share = groups / len(trees) if document.get("average_output") and trees else 1.0
    for number, tree in enumerate(trees):
        _lightgbm_tree(found, number, tree["tree_structure"], number % groups, share)
    return found


def _lightgbm_tree(
    found: Ensemble, number: int, root: dict[str, Any], group: int, share: float
) -> None:
    """Walk without recursion: LightGBM grows deep, narrow trees."""
    todo = [(root, 0)]
    fresh = 1
    while todo:
        tree, node = todo.pop()
        if "split_feature" not in tree:
            if "leaf_coeff" in tree:
                raise Refused(
                    "booster_not_supported",
                    "The LightGBM model has linear models in its leaves (linear_tree).",
                    "Train it with linear_tree=false, or export it to ONNX yourself.",
                )
            found.add(number, node)
            found.weigh(number, node, group, float(tree["leaf_value"]) * share)
            continue
        left, right, fresh = fresh, fresh + 1, fresh + 2
        todo += [(tree["left_child"], left), (tree["right_child"], right)]
        feature = int(tree["split_feature"])
        if tree["decision_type"] == "==":
            found.categorical.add(feature)
            values = [int(text) for text in str(tree["threshold"]).split("||")]
            fresh = _equal_chain(found, number, node, (feature, values, left, right, False), fresh)
            continue
        value, default = float(tree["threshold"]), bool(tree["default_left"])
        missing = value >= 0.0 if tree["missing_type"] == "None" else default
        if tree["missing_type"] == "Zero":
            side = left if default else right
            found.add(number, node, split=Split(feature, "BRANCH_EQ", 0.0, side, fresh, True))
            node, fresh = fresh, fresh + 1
        below = Split(feature, "BRANCH_LEQ", at_most(value), left, right, missing)
        found.add(number, node, split=below)


def at_most(value: float) -> float:
    """The greatest FP32 number that is not above `value`: x <= value says the same of every FP32 x.

    >>> at_most(0.1) <= 0.1 < float(np.float32(0.1))
    True
    """
    with np.errstate(over="ignore"):  # LightGBM writes 1e300 where it means the end
        near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))
