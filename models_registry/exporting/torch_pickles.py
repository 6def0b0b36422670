"""A whole module saved by `torch.save(model)`, where the site takes such files.

Unpickling runs what the pickle says. So classes come from PyTorch, numpy, the standard library's
containers and the uploaded source, and from nowhere else; the scan before has refused known bad
names, and the sandbox holds the rest.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from typing_extensions import override

from models_registry.exporting import module_code, pickles
from models_registry.exporting.harness import is_memory_error
from models_registry.exporting.module_source import Code
from models_registry.exporting.protocol import Refused

_ROOTS: Final = frozenset({"torch", "numpy", "collections", "_codecs"})
_BUILTIN_MODULES: Final = frozenset({"builtins", "__builtin__"})  # the second by protocol 2
_BUILTINS: Final = frozenset(
    {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list"}
    | {"object", "set", "slice", "str", "tuple"}
)
_KEYS: Final = ("model", "module", "net", "ema")


def load(path: Path, code: Code) -> torch.nn.Module:
    """The pickled module in evaluation mode, its classes taken from `code`.

    `Refused` when a class is in neither, or when what comes out is no module.
    """
    sys.path[:0] = [str(code.folder)]
    reader = _reader(type("Unpickler", (_Unpickler,), {"code": code}))
    try:
        document = torch.load(
            str(path), map_location="cpu", weights_only=False, pickle_module=reader
        )
    except (Refused, MemoryError):
        raise
    except Exception as error:
        if is_memory_error(error):
            raise MemoryError(str(error)) from error
        raise Refused(
            "torch_damaged",
            f"PyTorch cannot open the pickled module: {type(error).__name__}: {error}"[:500],
            "Pickles depend on the exact source and versions that wrote them: save "
            "torch.save(model.state_dict(), …) and upload that with the source.",
        ) from error
    found = document
    if isinstance(document, Mapping):
        found = next((document[key] for key in _KEYS if key in document), None)
    if not isinstance(found, torch.nn.Module):
        raise Refused(
            "no_module",
            f"The file holds a {type(document).__name__} and no torch.nn.Module.",
            "Save torch.save(model.state_dict(), …) and upload it with the source.",
        )
    return found.eval()


def checkpoint(path: Path) -> Any:
    """What a training checkpoint holds, with stand-ins for every object that is no weight.

    Hyperparameters and callbacks are of classes that are not here and are not needed: nothing of
    them is imported, and none of their code runs.
    """
    return torch.load(
        str(path), map_location="cpu", weights_only=False, pickle_module=_reader(_InertUnpickler)
    )


def _reader(unpickler: type[pickle.Unpickler]) -> ModuleType:
    """A module like pickle, as torch.load wants one, with another way to find classes."""
    reader = ModuleType("covenant_pickle")
    kept = {name: value for name, value in vars(pickle).items() if not name.startswith("__")}
    vars(reader).update(kept | {"Unpickler": unpickler})
    return reader


class _Inert(dict[Any, Any]):
    """Stands for an object of any class: takes what a pickle gives it, and does nothing."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        """Forget it."""

    @override
    def __setitem__(self, key: Any, value: Any) -> None:
        """Forget it."""

    def append(self, item: Any) -> None:
        """Forget it."""

    def extend(self, items: Any) -> None:
        """Forget them."""


class _InertUnpickler(pickle.Unpickler):
    """Finds what tensors are put together with, and stand-ins for everything else."""

    @override
    def find_class(self, module: str, name: str, /) -> Any:
        if pickles.is_weights(module, name) and (module != "torch" or _is_torch_type(name)):
            return super().find_class(module, name)
        return type("Inert", (_Inert,), {})


def _is_torch_type(name: str) -> bool:
    """Data types, layouts and classes of torch; its functions are in no file of weights."""
    kinds = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme, type)
    return isinstance(getattr(torch, name, None), kinds)


class _Unpickler(pickle.Unpickler):
    """Finds classes where `load` says they may come from."""

    code: Code

    @override
    def find_class(self, module: str, name: str, /) -> Any:
        root = module.partition(".")[0]
        if root in _ROOTS or (module in _BUILTIN_MODULES and name in _BUILTINS):
            return super().find_class(module, name)
        found = self._of_source(module, name)
        if found is None:
            raise Refused(
                "module_source_incomplete",
                f"The pickle needs {module}.{name}, which the uploaded source does not define.",
                "Upload the file that defines it (a zip of the package, with its folders), or "
                "save the weights alone.",
                "/code_upload",
            )
        return found

    def _of_source(self, module: str, name: str) -> Any:
        """The class from the module of that name, or from the one file that defines it."""
        folder, top = self.code.folder, name.partition(".")[0]
        parts = module.split(".")
        named = [
            path
            for path in self.code.files
            if list(path.with_suffix("").parts[-len(parts) :]) == parts
        ]
        chosen = named or [path for path in self.code.files if module_code.defines(path, top)]
        if len(chosen) != 1:
            return None
        loaded = module_code.load_file(chosen[0], folder)
        sys.modules.setdefault(module, loaded)
        value: Any = loaded
        for part in name.split("."):
            value = getattr(value, part, None)
        return value
