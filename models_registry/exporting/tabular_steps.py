"""The steps of a pipeline: which of them convert, and in which setting."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from skl2onnx._supported_operators import sklearn_operator_name_map
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer

from models_registry.exporting.protocol import Refused

# Functions of numbers that FunctionTransformer is used with, as ONNX operators of one input.
FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "absolute": ("Abs",),
    "ceil": ("Ceil",),
    "exp": ("Exp",),
    "expm1": ("Exp", "-1"),
    "floor": ("Floor",),
    "log": ("Log",),
    "log10": ("Log", f"/{np.log(10.0)!r}"),
    "log1p": ("+1", "Log"),
    "log2": ("Log", f"/{np.log(2.0)!r}"),
    "negative": ("Neg",),
    "reciprocal": ("Reciprocal",),
    "sqrt": ("Sqrt",),
    "square": ("*",),
    "tanh": ("Tanh",),
}


def prepared(model: Any) -> Any:
    """The same model, or a copy with settings that convert and change no answer.

    Bins dense instead of sparse; votes as they are; an imputer of text left out, because a request
    has no missing text that it could fill in.
    """
    if not any(_needs_change(step) for _, step in _steps(model, ())):
        return model
    changed = copy.deepcopy(model)
    for _, step in _steps(changed, ()):
        if isinstance(step, KBinsDiscretizer):
            step.encode = "onehot-dense" if step.encode == "onehot" else step.encode
        elif isinstance(step, VotingClassifier):
            step.flatten_transform = False
    for pipeline in _pipelines(changed):
        pipeline.steps = [(name, step) for name, step in pipeline.steps if not _fills_text(step)]
    return changed


def _needs_change(step: Any) -> bool:
    return isinstance(step, KBinsDiscretizer | VotingClassifier) or _fills_text(step)


def _fills_text(step: Any) -> bool:
    """Whether it is an imputer of text that waits for NaN or None."""
    if not isinstance(step, SimpleImputer):
        return False
    text = np.asarray(getattr(step, "statistics_", 0.0)).dtype.kind in "OUS"
    return text and not isinstance(step.missing_values, str)


def text_imputers(model: Any) -> list[str]:
    """Names of the steps that fill in missing text, which no request can send."""
    return [" → ".join(path) for path, step in _steps(model, ()) if _fills_text(step)]


def _pipelines(model: Any) -> Iterator[Pipeline]:
    """The pipeline and all that stand inside of its transformers of columns."""
    if isinstance(model, Pipeline):
        yield model
        for _, step in model.steps:
            yield from _pipelines(step)
    elif isinstance(model, ColumnTransformer):
        for _, step, _ in getattr(model, "transformers_", model.transformers):
            yield from _pipelines(step)
    elif isinstance(model, FeatureUnion):
        for _, step in model.transformer_list:
            yield from _pipelines(step)


def refuse_unsupported(model: Any) -> None:
    """`Refused` with the path to the first step that no converter knows."""
    for path, step in _steps(model, ()):
        where = " → ".join((*path, type(step).__name__)) if path else type(step).__name__
        if isinstance(step, FunctionTransformer):
            _refuse_function(step, where)
        elif type(step) not in sklearn_operator_name_map:
            kind = type(step)
            raise Refused(
                "step_not_supported",
                f"The step {where} ({kind.__module__}.{kind.__name__}) has no converter to ONNX.",
                "Replace it by a transformer or estimator that skl2onnx knows (its documentation "
                "has the list), take it out of the pipeline and do it before the request, or "
                "upload source that registers a converter (skl2onnx.update_registered_converter).",
            )


def _refuse_function(step: FunctionTransformer, where: str) -> None:
    function = step.func
    if function is None or getattr(function, "__name__", "") in FUNCTIONS:
        return
    raise Refused(
        "step_not_supported",
        f"The step {where} calls the function {getattr(function, '__name__', function)!s}, "
        "which has no form in ONNX.",
        f"Functions that are known: numpy's {', '.join(FUNCTIONS)}. Do anything else before the "
        "request, or with a transformer that has a converter.",
    )


def _steps(model: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every estimator that has to be converted, with the names of the steps that lead to it."""
    if model is None or isinstance(model, str):
        return
    if isinstance(model, Pipeline):
        for name, step in model.steps:
            yield from _steps(step, (*path, str(name)))
    elif isinstance(model, ColumnTransformer):
        for name, step, _ in getattr(model, "transformers_", model.transformers):
            yield from _steps(step, (*path, str(name)))
    elif isinstance(model, FeatureUnion):
        for name, step in model.transformer_list:
            yield from _steps(step, (*path, str(name)))
    else:
        yield path, model
