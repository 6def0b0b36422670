"""What a pickle of a table model may name, and nothing else (docs/decisions/0006).

Three kinds: types of estimators, transformers, arrays and what they are made of, which may be
built; functions that rebuild them, which may be called; functions of numbers that an estimator
keeps as a setting, which may be kept and never called by the pickle.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

import numpy as np

from models_registry.exporting.module_source import Code
from models_registry.exporting.protocol import Refused


@dataclass(frozen=True, slots=True)
class Named:
    """The object behind a name, and whether the pickle may call it."""

    value: Any
    may_be_called: bool


_BUILTINS: Final = frozenset(
    ["bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list",
     "object", "range", "set", "slice", "str", "tuple"]
)  # fmt: skip
# Functions that put arrays and compiled types together again, and types outside of the families.
_EXACT: Final = frozenset(
    {
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("copyreg", "_reconstructor"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.ma", "MaskedArray"),
        ("numpy.ma.core", "MaskedArray"),
        ("numpy.ma.core", "_mareconstruct"),
        ("numpy.random._mt19937", "MT19937"),
        ("numpy.random._pcg64", "PCG64"),
        ("numpy.random._pickle", "__bit_generator_ctor"),
        ("numpy.random._pickle", "__generator_ctor"),
        ("numpy.random._pickle", "__randomstate_ctor"),
        ("numpy.random.bit_generator", "SeedSequence"),
        ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
        ("pandas", "Categorical"),
        ("pandas", "CategoricalDtype"),
        ("pandas", "Index"),
        ("pandas", "RangeIndex"),
        ("pandas", "StringDtype"),
        ("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked"),
        ("pandas.arrays", "StringArray"),
        ("pandas.core.indexes.base", "Index"),
        ("pandas.core.indexes.base", "_new_Index"),
        ("pandas.core.indexes.range", "RangeIndex"),
        ("pandas.core.dtypes.dtypes", "CategoricalDtype"),
        ("scipy.interpolate._bsplines", "BSpline"),
        ("sklearn.compose._column_transformer", "make_column_selector"),
        ("sklearn.compose._column_transformer", "_RemainderColsList"),
        ("sklearn.calibration", "_CalibratedClassifier"),
        ("sklearn.calibration", "_SigmoidCalibration"),
        ("sklearn.ensemble._hist_gradient_boosting.predictor", "TreePredictor"),
        ("sklearn.metrics._dist_metrics", "newObj"),
        ("sklearn.neighbors._ball_tree", "newObj"),
        ("sklearn.neighbors._kd_tree", "newObj"),
        ("sklearn.tree._tree", "Tree"),
        ("sklearn.utils._bunch", "Bunch"),
        ("lightgbm.basic", "Booster"),
        ("xgboost.core", "Booster"),
    }
)
# Settings that are functions of numbers: kept, never called by the pickle.
_KEPT: Final = frozenset(
    {("numpy", "mean"), ("numpy", "median")}
    | {
        ("sklearn.feature_selection._univariate_selection", name)
        for name in ("chi2", "f_classif", "f_oneway", "f_regression", "r_regression")
    }
    | {
        ("sklearn.feature_selection._mutual_info", name)
        for name in ("mutual_info_classif", "mutual_info_regression")
    }
)
_KEPT_MODULES: Final = (
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics._regression",
)
# Where scikit-learn's public and inner classes live, less what is not a part of a fitted model.
_NO_MODEL: Final = frozenset(
    ["_build_utils", "_config", "conftest", "datasets", "experimental", "externals", "inspection",
     "tests", "utils"]
)  # fmt: skip
# Names of numpy before 2.0 and Python 2 for the same things.
_MOVED: Final = {
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
    "copy_reg": "copyreg",
    "__builtin__": "builtins",
}


def look_up(module: str, name: str, code: Code | None) -> Named | None:
    """The object of that name, or None where nobody may have it.

    Names with dots are refused: they reach into objects (function.__globals__).
    """
    module = _MOVED.get(module, module)
    if "." in name or not name.isidentifier():
        return None
    if module == "builtins":
        return (
            Named(getattr(importlib.import_module(module), name), True)
            if name in _BUILTINS
            else None
        )
    if (module, name) == ("_codecs", "encode"):
        return Named(encode, True)
    root = module.partition(".")[0]
    if code is not None and root not in _FAMILIES and (found := _own(module, name, code)):
        return found
    if (module, name) in _EXACT:
        value = _found(module, name)
        return None if value is None else Named(value, True)
    if (module, name) in _KEPT or (module in _KEPT_MODULES and not name.startswith("_")):
        value = _found(module, name)
        return Named(value, False) if callable(value) and not isinstance(value, type) else None
    family = _FAMILIES.get(root)
    return family(module, name) if family is not None else None


def has_moved(module: str) -> bool:
    """Whether scikit-learn has no such module: it had others before 0.22, and may have later."""
    parts = module.split(".")
    if parts[0] != "sklearn" or set(parts) & _NO_MODEL:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


def installed() -> str:
    """scikit-learn's release here."""
    return metadata.version("scikit-learn")


def encode(text: str, encoding: str = "latin1") -> bytes:
    """`_codecs.encode` as pickles of protocol 2 use it: for bytes, and with that one encoding."""
    if not isinstance(text, str) or encoding != "latin1":
        raise Refused("unsafe_pickle", "The pickle calls _codecs.encode for something else.")
    return text.encode("latin1")


def _found(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def _sklearn(module: str, name: str) -> Named | None:
    parts = module.split(".")
    if len(parts) > 1 and (parts[1] in _NO_MODEL or "tests" in parts or "_testing" in parts):
        return None
    value = _found(module, name)
    if value is None:
        return None
    if name.startswith("__pyx_unpickle_") and parts[1:2] in (["_loss"], ["linear_model"]):
        return Named(value, True)
    if not isinstance(value, type) or not value.__module__.startswith("sklearn."):
        return None
    if value.__module__.split(".")[1] in _NO_MODEL or ".tests" in value.__module__:
        return None
    return Named(value, True) if issubclass(value, _bases()) else None


def _bases() -> tuple[type, ...]:
    """What classes of a fitted scikit-learn model descend from, estimators first."""
    from sklearn._loss._loss import CyLossFunction
    from sklearn._loss.link import BaseLink, Interval
    from sklearn._loss.loss import BaseLoss
    from sklearn.base import BaseEstimator
    from sklearn.gaussian_process.kernels import Hyperparameter, Kernel
    from sklearn.metrics._dist_metrics import DistanceMetric
    from sklearn.metrics._scorer import _BaseScorer, _PassthroughScorer
    from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit
    from sklearn.neighbors._ball_tree import BallTree
    from sklearn.neighbors._kd_tree import KDTree
    from sklearn.neural_network._stochastic_optimizers import BaseOptimizer

    return (
        BaseEstimator,
        BaseCrossValidator,
        BaseLink,
        BaseLoss,
        BaseOptimizer,
        BaseShuffleSplit,
        BallTree,
        CyLossFunction,
        DistanceMetric,
        Hyperparameter,
        Interval,
        KDTree,
        Kernel,
        _BaseScorer,
        _PassthroughScorer,
    )


def _boosters(package: str, prefix: str) -> Callable[[str, str], Named | None]:
    """The estimators of a booster's package: its own classes whose names begin with `prefix`."""

    def family(module: str, name: str) -> Named | None:
        if module not in {f"{package}.sklearn", f"{package}.core", package}:
            return None
        value = _found(module, name)
        own = isinstance(value, type) and value.__module__.startswith(package)
        return Named(value, True) if own and name.startswith(prefix) else None

    return family


def _numpy(module: str, name: str) -> Named | None:
    """numpy's scalar and dtype classes as types; its ufuncs (log1p) as settings."""
    if module not in {"numpy", "numpy.dtypes"}:
        return None
    value = getattr(np, name, None) if module == "numpy" else _found(module, name)
    if isinstance(value, type) and issubclass(value, np.generic | np.dtype):
        return Named(value, True)
    return Named(value, False) if isinstance(value, np.ufunc) else None


def _scipy(module: str, name: str) -> Named | None:
    """Sparse matrices and arrays."""
    if not module.startswith("scipy.sparse") or module.startswith("scipy.sparse.linalg"):
        return None
    value = _found(module, name)
    sparse = importlib.import_module("scipy.sparse")
    fits = isinstance(value, type) and issubclass(value, sparse.sparray | sparse.spmatrix)
    return Named(value, True) if fits else None


_FAMILIES: Final[dict[str, Callable[[str, str], Named | None]]] = {
    "sklearn": _sklearn,
    "lightgbm": _boosters("lightgbm", "LGBM"),
    "xgboost": _boosters("xgboost", "XGB"),
    "catboost": _boosters("catboost", "CatBoost"),
    "numpy": _numpy,
    "scipy": _scipy,
}


def _own(module: str, name: str, code: Code) -> Named | None:
    """A name of the source that was uploaded with the file: it runs here, as for PyTorch.

    A class saved from a notebook is in __main__: then the file that defines it is looked for.
    """
    folder = str(code.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    wanted = module.split(".")
    for path in code.files:
        parts = list(path.relative_to(code.folder).with_suffix("").parts)
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        fits = parts[-len(wanted) :] == wanted
        if module != "__main__" and not fits:
            continue
        if module == "__main__" and f" {name}" not in path.read_text("utf-8", "replace"):
            continue
        root = code.folder.joinpath(*parts[: len(parts) - len(wanted)]) if fits else code.folder
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        try:
            loaded = importlib.import_module(module if fits else ".".join(parts))
        except Exception as error:
            raise Refused(
                "module_source_failed",
                f"The uploaded source failed while {module} was imported: "
                f"{type(error).__name__}: {error}"[:500],
                "Upload all files that it imports, as a zip with their folders.",
                "/code_upload",
            ) from error
        if hasattr(loaded, name):
            return Named(getattr(loaded, name), True)
    return None
