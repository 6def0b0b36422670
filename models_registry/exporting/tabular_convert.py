"""scikit-learn objects to ONNX by skl2onnx, with our own writer where it guesses or has nothing.

Boosted trees go through `tabular_trees` wherever they stand in a pipeline. What no converter knows
is refused with the step's name before anything is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import lightgbm
import numpy as np
import onnx
import skl2onnx
import xgboost
from onnx import numpy_helper
from skl2onnx import to_onnx, update_registered_converter
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common._registration import get_converter, get_shape_calculator
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from skl2onnx.common.shape_calculator import (
    calculate_linear_classifier_output_shapes,
    calculate_linear_regressor_output_shapes,
)
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from models_registry.exporting import tabular_graph, tabular_steps, tabular_trees
from models_registry.exporting.harness import is_memory_error
from models_registry.exporting.protocol import Refused
from models_registry.exporting.tabular_graph import Graph
from models_registry.exporting.tabular_trees import Ensemble

ML_OPSET: Final = 3
_TYPES: Final = {
    "FP32": FloatTensorType,
    "FP64": DoubleTensorType,
    "INT64": Int64TensorType,
    "BYTES": StringTensorType,
}


class Boosted(BaseEstimator):  # type: ignore[misc]
    """A native booster as a scikit-learn object, so that one converter serves both."""

    def __init__(self, ensemble: Ensemble | None = None, classes: Any = None) -> None:
        self.ensemble = ensemble
        self.classes = classes
        if classes is not None:
            self.classes_ = classes


class BoostedClassifier(ClassifierMixin, Boosted):  # type: ignore[misc]
    """Gives label and probabilities."""


class BoostedRegressor(RegressorMixin, Boosted):  # type: ignore[misc]
    """Gives what its link makes of the margins."""


_FORESTS: Final = (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
_CLASSIFIERS: Final = (
    *(kind for kind in _FORESTS if issubclass(kind, ClassifierMixin)),
    BoostedClassifier,
    lightgbm.LGBMClassifier,
    xgboost.XGBClassifier,
    xgboost.XGBRFClassifier,
)
_REGRESSORS: Final = (
    *(kind for kind in _FORESTS if issubclass(kind, RegressorMixin)),
    BoostedRegressor,
    lightgbm.LGBMRegressor,
    lightgbm.LGBMRanker,
    xgboost.XGBRegressor,
    xgboost.XGBRFRegressor,
    xgboost.XGBRanker,
)


def convert(
    model: Any, initial: Sequence[tuple[str, str, int]], *, opset: int, ml_opset: int = ML_OPSET
) -> onnx.ModelProto:
    """The graph of a fitted estimator; `initial` are inputs as (name, dtype, columns).

    Labels and probabilities come as tensors (ZipMap off). `Refused` names the step that cannot be
    converted.
    """
    _register()
    tabular_steps.refuse_unsupported(model)
    types = [(name, _TYPES[dtype]([None, columns])) for name, dtype, columns in initial]
    given = {"": opset, "ai.onnx.ml": ml_opset}
    try:
        options = {"zipmap": False} if is_classifier(model) else None
        return _to_onnx(tabular_steps.prepared(model), types, given, options)
    except (MemoryError, Refused):
        raise
    except Exception as error:
        if is_memory_error(error):
            raise MemoryError(str(error)) from error
        lines = str(error).strip().splitlines() or [""]
        raise Refused(
            "export_failed",
            f"skl2onnx {skl2onnx.__version__} cannot express {type(model).__name__} in ONNX: "
            f"{type(error).__name__}: {lines[0][:400]}",
            "Fit the pipeline with the setting that it names changed, or replace that step; "
            "skl2onnx.to_onnx(model, X[:1]) on your machine shows the same.",
        ) from error


def _to_onnx(
    model: Any, types: list[Any], opsets: dict[str, int], options: dict[str, Any] | None
) -> onnx.ModelProto:
    written: onnx.ModelProto = to_onnx(
        model, initial_types=types, options=options, target_opset=opsets, name="model"
    )
    return written


# Our own converters


def _register() -> None:
    own = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
    for kind in _CLASSIFIERS:
        update_registered_converter(
            kind,
            f"Trees{kind.__name__}",
            calculate_linear_classifier_output_shapes,
            _classifier,
            options=own,
            overwrite=True,
        )
    for kind in _REGRESSORS:
        update_registered_converter(
            kind,
            f"Trees{kind.__name__}",
            calculate_linear_regressor_output_shapes,
            _regressor,
            overwrite=True,
        )
    for kind, alias in list(sklearn_operator_name_map.items()):
        options = (
            get_converter(alias).get_allowed_options()
            if issubclass(kind, ClassifierMixin)
            else None
        )
        if options is not None and "zipmap" not in options:
            # skl2onnx sets this option for the last step of every pipeline, and then refuses it.
            update_registered_converter(
                kind,
                alias,
                get_shape_calculator(alias),
                get_converter(alias)._fct,
                options={**options, "zipmap": [True, False, "columns"]},
                overwrite=True,
            )
    update_registered_converter(
        FunctionTransformer, "NumberFunction", _same_shape, _function, overwrite=True
    )


_READ: Final[dict[int, tuple[Any, Ensemble]]] = {}


def ensemble_of(model: Any) -> Ensemble:
    """The trees of a booster or forest as its predict uses them; read once for each object."""
    kept = _READ.get(id(model))
    if kept is None:
        kept = _READ[id(model)] = (model, _read(model))
    return kept[1]


def _read(model: Any) -> Ensemble:
    if isinstance(model, Boosted):
        if model.ensemble is None:
            raise ValueError("a booster without trees")
        return model.ensemble
    if isinstance(model, _FORESTS):
        return tabular_trees.from_sklearn(model)
    if isinstance(model, lightgbm.LGBMModel):
        return tabular_trees.from_lightgbm(model.booster_)
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    found = tabular_trees.from_xgboost(booster, int(best) + 1 if best is not None else 0)
    if not isinstance(model, xgboost.XGBClassifier):
        found.classes = 0
    return found


def _graph(scope: Any, container: Any) -> Graph:
    def node(
        operator: str, inputs: list[str], outputs: list[str], domain: str, **attributes: Any
    ) -> None:
        version = (
            1 if domain else onnx.defs.get_schema(operator, container.target_opset).since_version
        )
        unique = scope.get_unique_operator_name(operator)
        container.add_node(
            operator, inputs, outputs, domain, op_version=version, name=unique, **attributes
        )

    def constant(name: str, array: np.ndarray[Any, Any]) -> str:
        unique: str = scope.get_unique_variable_name(name)
        tensor = numpy_helper.from_array(array, unique)
        container.add_initializer(
            unique, tensor.data_type, list(array.shape), array.ravel().tolist()
        )
        return unique

    return Graph(node, constant, scope.get_unique_variable_name)


def _numbers(graph: Graph, operator: Any) -> str:
    """The step's input as one FP32 matrix, which is what both libraries cast it to."""
    parts = [
        given.full_name
        if isinstance(given.type, FloatTensorType)
        else graph.do("Cast", given.full_name, to=onnx.TensorProto.FLOAT)
        for given in operator.inputs
    ]
    return parts[0] if len(parts) == 1 else graph.do("Concat", *parts, axis=1)


def _classifier(scope: Any, operator: Any, container: Any) -> None:
    model, graph = operator.raw_operator, _graph(scope, container)
    found = ensemble_of(model)
    if not found.classes or found.groups not in {1, found.classes}:
        raise Refused(
            "objective_not_supported",
            f"The {type(model).__name__} has an objective that gives no class "
            f"({found.groups} scores for {found.classes} classes).",
            "Train it with a classification objective, or as a regressor.",
        )
    missing = getattr(model, "missing", None)
    index, answers = tabular_graph.write(
        graph, found, _numbers(graph, operator), float("nan") if missing is None else missing
    )
    labels = tabular_graph.names_of(model.classes_)
    label, probabilities = (output.full_name for output in operator.outputs)
    graph.node("Gather", [graph.constant("classes", labels), index], [label], "", axis=0)
    graph.node("Identity", [answers], [probabilities], "")


def _regressor(scope: Any, operator: Any, container: Any) -> None:
    graph = _graph(scope, container)
    found = ensemble_of(operator.raw_operator)
    found.classes = 0
    missing = getattr(operator.raw_operator, "missing", None)
    _, answers = tabular_graph.write(
        graph, found, _numbers(graph, operator), float("nan") if missing is None else missing
    )
    graph.node("Identity", [answers], [operator.outputs[0].full_name], "")


def _same_shape(operator: Any) -> None:
    given = operator.inputs[0].type
    kind = given.__class__ if isinstance(given, FloatTensorType | DoubleTensorType) else None
    columns = sum(one.type.shape[1] or 0 for one in operator.inputs)
    operator.outputs[0].type = (kind or FloatTensorType)([given.shape[0], columns])


def _function(scope: Any, operator: Any, container: Any) -> None:
    """FunctionTransformer with no function, or with one of numpy's that ONNX has operators for."""
    graph = _graph(scope, container)
    double = isinstance(operator.outputs[0].type, DoubleTensorType)
    value = operator.inputs[0].full_name if double else _numbers(graph, operator)
    kind = np.float64 if double else np.float32
    function = operator.raw_operator.func
    for step in tabular_steps.FUNCTIONS[function.__name__] if function is not None else ():
        if step[0].isalpha():
            value = graph.do(step, value)
        elif step == "*":
            value = graph.do("Mul", value, value)
        else:
            number = graph.constant("number", np.array([abs(float(step[1:]))], kind))
            value = graph.do({"+": "Add", "-": "Sub", "/": "Div"}[step[0]], value, number)
    graph.node("Identity", [value], [operator.outputs[0].full_name], "")
