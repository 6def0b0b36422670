"""The allow-list of pickled models: what a fitted model names is built, everything else refused."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

from models_registry.exporting import module_source, tabular_names, tabular_pickles, tabular_skops
from models_registry.exporting.protocol import ModuleSource, Refused

MARKER = Path("/tmp/PWNED_tabular")
COMMAND = f"open({str(MARKER)!r}, 'w').close()"


def _call(module: str, name: str, *arguments: Any) -> bytes:
    """A pickle that calls module.name(*arguments), arguments being plain data."""
    given = b"".join(pickle.dumps(one, protocol=2)[2:-1] for one in arguments)
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(" + given + b"tR."


def _by_protocol_4(module: str, name: str) -> bytes:
    def text(word: str) -> bytes:
        return b"\x8c" + bytes([len(word)]) + word.encode() + b"\x94"

    return b"\x80\x04" + text(module) + text(name) + b"\x93)R."


def _in_object_array() -> bytes:
    """joblib writes an array of objects as a pickle of its own inside the file."""
    stream = io.BytesIO()
    joblib.dump(np.array([None], dtype=object), stream)
    whole = stream.getvalue()
    start = whole.index(b"\x80\x05", 10)
    return whole[:start] + _call("os", "system", f"touch {MARKER}") + b"."


def _kept_function_called() -> bytes:
    return _call("sklearn.feature_selection._univariate_selection", "f_classif", [1], [2])


def _class_changed() -> bytes:
    """BUILD with slot state on a class: LogisticRegression.predict = something."""
    return (
        b"\x80\x02csklearn.linear_model._logistic\nLogisticRegression\n"
        b"N}X\x07\x00\x00\x00predictK\x01s\x86b."
    )


def _rebuilt_otherwise() -> bytes:
    """An instance whose __setstate__ is put in its own dictionary and then called by BUILD."""
    return (
        b"\x80\x02csklearn.linear_model._logistic\nLogisticRegression\n)\x81"
        b"}X\x0c\x00\x00\x00__setstate__cnumpy\nmean\nsb]b."
    )


GADGETS: list[tuple[str, Callable[[], bytes]]] = [
    ("os.system", lambda: _call("os", "system", f"touch {MARKER}")),
    ("posix.system", lambda: _call("posix", "system", f"touch {MARKER}")),
    ("builtins.eval", lambda: _call("builtins", "eval", COMMAND)),
    ("builtins.getattr", lambda: _call("builtins", "getattr", "a", "b")),
    ("functools.partial", lambda: _call("functools", "partial", "a")),
    ("operator.attrgetter", lambda: _call("operator", "attrgetter", "a")),
    (
        "numpy.testing._private.utils.runstring",
        lambda: _call("numpy.testing._private.utils", "runstring", COMMAND, {}),
    ),
    ("numpy.load", lambda: _call("numpy", "load", "/etc/passwd")),
    ("numpy.f2py.crackfortran.myeval", lambda: _call("numpy.f2py.crackfortran", "myeval", COMMAND)),
    ("pandas.eval", lambda: _call("pandas", "eval", COMMAND)),
    ("pandas.read_pickle", lambda: _call("pandas", "read_pickle", "/tmp/other.pkl")),
    ("joblib.memory.Memory", lambda: _call("joblib.memory", "Memory", "/tmp/cache")),
    ("joblib.numpy_pickle.load", lambda: _call("joblib.numpy_pickle", "load", "/tmp/other.pkl")),
    ("scipy.io._mio.loadmat", lambda: _call("scipy.io._mio", "loadmat", "/tmp/a.mat")),
    (
        "sklearn.utils._testing.check_output",
        lambda: _call("sklearn.utils._testing", "check_output"),
    ),
    (
        "sklearn.utils._mocking.CheckingClassifier",
        lambda: _call("sklearn.utils._mocking", "CheckingClassifier"),
    ),
    (
        "sklearn.datasets._base.load_files",
        lambda: _call("sklearn.datasets._base", "load_files", "/"),
    ),
    ("sklearn.externals", lambda: _call("sklearn.externals.joblib", "load", "/tmp/other.pkl")),
    ("sklearn.base.clone", lambda: _call("sklearn.base", "clone", 1)),
    ("sklearn.pipeline.Parallel", lambda: _call("sklearn.pipeline", "Parallel")),
    ("lightgbm.basic.ctypes", lambda: _call("lightgbm.basic", "ctypes")),
    ("xgboost.core.ctypes", lambda: _call("xgboost.core", "ctypes")),
    (
        "LogisticRegression.fit.__globals__",
        lambda: _by_protocol_4("sklearn.linear_model", "LogisticRegression.fit.__globals__"),
    ),
    ("os.system", _in_object_array),
    ("f_classif", _kept_function_called),
    ("LogisticRegression", _class_changed),
    ("rebuilt", _rebuilt_otherwise),
]


@pytest.mark.parametrize(("named", "make"), GADGETS)
def test_a_gadget_is_refused_by_name_and_nothing_runs(
    tmp_path: Path, named: str, make: Callable[[], bytes]
) -> None:
    path = tmp_path / "model.pkl"
    path.write_bytes(make())

    with pytest.raises(Refused) as refused:
        tabular_pickles.load(path)

    assert refused.value.refusal.code in {"unsafe_pickle", "pickle_too_old"}
    assert named in refused.value.refusal.message
    assert refused.value.refusal.hint
    assert not MARKER.exists()


def _models() -> list[Any]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 4)), np.tile([0, 1, 2], 20)
    return [
        RandomForestClassifier(3, random_state=np.random.RandomState(0)).fit(x, y),
        make_pipeline(SelectKBest(k=2), LogisticRegression()).fit(x, y),
        make_pipeline(FunctionTransformer(np.tanh), SVC()).fit(x, y),
        KNeighborsClassifier(algorithm="kd_tree").fit(x, y),
    ]


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_what_the_libraries_write_is_built_again(tmp_path: Path, protocol: int) -> None:
    x = np.random.default_rng(1).standard_normal((8, 4))
    for model in _models():
        path = tmp_path / "model.pkl"
        path.write_bytes(pickle.dumps(model, protocol=protocol))
        again = tabular_pickles.load(path)
        assert np.array_equal(again.model.predict(x), model.predict(x))
        assert again.warnings == ()


def test_an_older_release_is_said_and_a_much_older_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pkl"
    whole = pickle.dumps(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), protocol=2)
    version = tabular_names.installed().encode()
    path.write_bytes(whole.replace(_text(version), _text(b"0.24")))
    assert "0.24" in tabular_pickles.load(path).warnings[0]

    path.write_bytes(_call("sklearn.linear_model.logistic", "LogisticRegression"))
    with pytest.raises(Refused) as refused:
        tabular_pickles.load(path)
    assert refused.value.refusal.code == "pickle_too_old"
    assert "save it again" in refused.value.refusal.hint


def _text(word: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(word)) + word


def test_a_class_of_the_uploaded_source_is_found_there_and_only_there(tmp_path: Path) -> None:
    code = tmp_path / "steps_of_mine.py"
    code.write_text("class Doubler:\n    def transform(self, x):\n        return x * 2\n")
    path = tmp_path / "model.pkl"
    path.write_bytes(_by_protocol_4("steps_of_mine", "Doubler"))
    with pytest.raises(Refused, match=r"steps_of_mine\.Doubler"):
        tabular_pickles.load(path)
    notebook = tmp_path / "notebook.pkl"
    notebook.write_bytes(_by_protocol_4("__main__", "Doubler"))
    given = module_source.prepare(code, ModuleSource("steps_of_mine.py"), tmp_path / "code")

    for file in (path, notebook):
        assert tabular_pickles.load(file, given).model.transform(3) == 6


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_file_that_was_cut_is_said_to_be(tmp_path: Path, share: float) -> None:
    path = tmp_path / "model.joblib"
    joblib.dump(_models()[0], path, compress=3)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])

    with pytest.raises(Refused) as refused:
        tabular_pickles.load(path)

    assert refused.value.refusal.code == "pickle_damaged"


@pytest.mark.parametrize(
    ("loader", "module", "name"),
    [
        ("ObjectNode", "os", "system"),
        ("MethodNode", "sklearn.linear_model", "LogisticRegression"),
        ("FunctionNode", "builtins", "eval"),
        ("TypeNode", "subprocess", "Popen"),
    ],
)
def test_skops_files_go_by_the_same_list(
    tmp_path: Path, loader: str, module: str, name: str
) -> None:
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w") as archive:
        node = {"__class__": name, "__module__": module, "__loader__": loader, "content": {}}
        archive.writestr("schema.json", json.dumps({**node, "protocol": 2}))

    with pytest.raises(Refused, match=f"{module}.{name}") as refused:
        tabular_skops.load(path)

    assert refused.value.refusal.code == "unsafe_pickle"
