"""Open a skops file by the same list as a pickle: every type in its schema is looked up first."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from models_registry.exporting import archives, tabular_names
from models_registry.exporting.harness import is_memory_error
from models_registry.exporting.protocol import Refused

_MAX_SCHEMA: Final = 256 * archives.MIB
# Loaders of skops that call something by name: none of them belongs to a fitted model.
_REFUSED_LOADERS: Final = frozenset({"MethodNode", "OperatorFuncNode", "PartialNode"})


def load(path: Path) -> Any:
    """The object in a skops file. `Refused` for every type that a pickle could not have either."""
    names = sorted(set(_named(_schema(path))))
    trusted = []
    for loader, module, name in names:
        known = (module, name) == ("builtins", "NoneType") or tabular_names.look_up(
            module, name, None
        )
        if loader in _REFUSED_LOADERS or not known:
            raise Refused(
                "unsafe_pickle",
                f"The skops file names {module[:80]}.{name[:80]}, which is not among the classes "
                "of estimators, transformers and arrays that may be opened; nothing was run.",
                "Save the fitted pipeline with transformers of scikit-learn, XGBoost, LightGBM or "
                "CatBoost, or export it to ONNX (skl2onnx) and upload that.",
            )
        trusted.append(f"{module}.{name}")
    from skops import io  # needed for its own files only

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return io.load(path, trusted=trusted)
    except (Refused, MemoryError):
        raise
    except Exception as error:
        if is_memory_error(error):
            raise MemoryError(str(error)) from error
        first = str(error).strip().partition("\n")[0][:300]
        raise Refused(
            "skops_damaged",
            f"skops cannot open the file: {type(error).__name__}: {first}",
            "Save it again with skops.io.dump(pipeline, 'model.skops') and scikit-learn "
            f"{tabular_names.installed()} or a near release.",
        ) from error


def _schema(path: Path) -> Any:
    with archives.open_zip(path) as archive:
        try:
            info = archive.getinfo("schema.json")
            if info.file_size > _MAX_SCHEMA:
                raise ValueError("its schema is larger than 256 MiB")
            return json.loads(archive.read(info))
        except (KeyError, ValueError, RecursionError, zipfile.BadZipFile, OSError) as error:
            raise Refused(
                "skops_damaged",
                f"The skops file has no schema that can be read: {error}"[:300],
                "Save it again with skops.io.dump(pipeline, 'model.skops').",
            ) from error


def _named(document: Any) -> Iterator[tuple[str, str, str]]:
    """Loader, module and name of every node, wherever in the document it stands."""
    todo = [document]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.values()
            if "__loader__" in item or "__class__" in item:
                loader, module = str(item.get("__loader__")), str(item.get("__module__"))
                yield loader, module, str(item.get("__class__"))
            content = item.get("content")
            if isinstance(content, dict) and "module_path" in content and "function" in content:
                yield "FunctionNode", str(content["module_path"]), str(content["function"])
