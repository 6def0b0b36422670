"""A user's module: import its source and build the module that a state dict fits.

Runs inside the sandbox only: importing is running.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch.onnx.utils import register_custom_op_symbolic

from models_registry.exporting.harness import is_memory_error
from models_registry.exporting.module_source import ENTRY_HINT, Code
from models_registry.exporting.protocol import Refused

_REGISTERS: Final = ("SYMBOLICS", "register_custom_op_symbolic", "torch.library", "custom_op")


def build(code: Code, state: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """The module of `code` with `state` loaded, in evaluation mode.

    `Refused` when the source fails or does not fit the weights (naming what differs).
    """
    sys.path[:0] = [str(code.folder)]
    if code.name:
        factory = _find(code)
        _register_symbolics(code.folder)
        module = _call(factory, code.arguments)
        _load_state(module, state)
        return module.eval()
    found = _guess(code, state).eval()
    _register_symbolics(code.folder)
    return found


def register_operators(code: Code) -> None:
    """Import the files that register operators or their symbolic functions; `Refused` on failure.

    For files that hold their own architecture: nothing else of the source is run.
    """
    sys.path[:0] = [str(code.folder)]
    named = code.file_name.rsplit("/", 1)[-1]
    for path in code.files:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.name == named or any(mark in text for mark in _REGISTERS):
            load_file(path, code.folder)
    _register_symbolics(code.folder)


def _register_symbolics(folder: Path) -> None:
    """`SYMBOLICS = {"namespace::operator": function}` of each imported file of the source."""
    for module in list(sys.modules.values()):
        place = getattr(module, "__file__", None)
        if not place or not Path(place).is_relative_to(folder):
            continue
        wanted = getattr(module, "SYMBOLICS", None)
        if wanted is None:
            continue
        fits = isinstance(wanted, Mapping) and all(
            isinstance(name, str) and name.count("::") == 1 and callable(function)
            for name, function in wanted.items()
        )
        if not fits:
            raise Refused(
                "module_source_invalid",
                f"SYMBOLICS in {Path(place).name} is not a dictionary of functions by "
                "“namespace::operator”.",
                'Write SYMBOLICS = {"mylib::my_op": my_op_symbolic}; each function takes the '
                "graph and the operator's inputs.",
                "/code_upload",
            )
        for name, function in wanted.items():
            # 9 is the first opset that the exporter looks at; later ones find it too.
            register_custom_op_symbolic(name, function, 9)


def _find(code: Code) -> Callable[..., Any]:
    files, file_name, name, folder = code.files, code.file_name, code.name, code.folder
    if file_name:
        wanted = file_name.removesuffix(".py").replace(".", "/").split("/")
        chosen = [
            path for path in files if list(path.with_suffix("").parts[-len(wanted) :]) == wanted
        ]
    else:
        chosen = [path for path in files if defines(path, name)]
    if len(chosen) != 1:
        there = ", ".join(sorted(str(path.relative_to(folder)) for path in files)[:8])
        raise Refused(
            "module_entry_not_found",
            f"{'No file' if not chosen else 'More than one file'} of the source "
            f"{'is ' + file_name if file_name else 'defines ' + name}; there are: {there}.",
            ENTRY_HINT,
            "/module/entry",
        )
    module = load_file(chosen[0], folder)
    found = getattr(module, name, None)
    if not callable(found):
        classes = ", ".join(defined.__name__ for defined in _classes(module)) or "none"
        raise Refused(
            "module_entry_not_found",
            f"{chosen[0].name} has no class {name}; it defines: {classes}.",
            ENTRY_HINT,
            "/module/entry",
        )
    return found  # type: ignore[no-any-return]


def defines(path: Path, name: str) -> bool:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False
    kinds = (ast.ClassDef, ast.FunctionDef)
    return any(isinstance(node, kinds) and node.name == name for node in tree.body)


def load_file(path: Path, folder: Path) -> ModuleType:
    """Import a file as its project would: from the root, or from the one folder it is packed in."""
    parts = path.relative_to(folder).with_suffix("").parts
    for skip in range(len(parts)):
        root = folder.joinpath(*parts[:skip])
        if skip and (root / "__init__.py").exists():
            continue
        sys.path[:0] = [str(root)]
        try:
            return importlib.import_module(".".join(parts[skip:]))
        except ModuleNotFoundError as error:
            sys.path.remove(str(root))
            missing = str(error.name)
            if skip < len(parts) - 1:
                continue
            raise Refused(
                "module_source_incomplete",
                f"The module's source imports “{missing}”, which is neither in the upload "
                "nor installed "
                "on the export worker.",
                "Put it into the zip archive, or remove the import from the file that "
                "defines the class.",
                "/code_upload",
            ) from error
        except BaseException as error:
            raise _failed("it was imported", error) from error
    raise AssertionError("a path has at least one part")


def _classes(module: ModuleType) -> Iterator[type[torch.nn.Module]]:
    for value in list(vars(module).values()):
        if (
            inspect.isclass(value)
            and issubclass(value, torch.nn.Module)
            and value.__module__ == module.__name__
        ):
            yield value


def _call(factory: Callable[..., Any], arguments: Mapping[str, Any]) -> torch.nn.Module:
    try:
        built = factory(**arguments)
    except BaseException as error:
        raise _failed(f"{factory.__name__}({_listed(arguments)}) was built", error) from error
    if not isinstance(built, torch.nn.Module):
        raise Refused(
            "module_entry_invalid",
            f"{factory.__name__} gives a {type(built).__name__}, not a torch.nn.Module.",
            ENTRY_HINT,
            "/module/entry",
        )
    return built


def _listed(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())[:200]


def _failed(doing: str, error: BaseException) -> Exception:
    if is_memory_error(error):
        return MemoryError(str(error))
    traceback.print_exception(error)
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "/code/" in frame.filename
    ]
    place = f" at {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return Refused(
        "module_source_failed",
        f"The module's source failed while {doing}{place}: {type(error).__name__}: {error}"[:600],
        "Try the same on your machine in a fresh Python process; give missing constructor "
        "arguments.",
        "/code_upload",
    )


def _load_state(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    own = module.state_dict()
    renamed = fitted(state, set(own))
    missing = sorted(set(own) - set(renamed))
    unexpected = sorted(set(renamed) - set(own))
    shapes = [
        f"{key} is {tuple(renamed[key].shape)} in the file and {tuple(own[key].shape)} in "
        "the module"
        for key in sorted(set(own) & set(renamed))
        if own[key].shape != renamed[key].shape
    ]
    if missing or unexpected or shapes:
        parts = []
        for text, names in (("missing in the file", missing), ("not in the module", unexpected)):
            if names:
                more = f" and {len(names) - 4} more" if len(names) > 4 else ""
                parts.append(f"{text}: {', '.join(names[:4])}{more}")
        parts += shapes[:3]
        raise Refused(
            "weights_do_not_fit",
            f"The weights do not fit {type(module).__name__}: {'; '.join(parts)}."[:800],
            "Give the class and the constructor's arguments that the weights were trained with.",
            "/module/entry",
        )
    module.load_state_dict(renamed, strict=True)


def fitted(state: Mapping[str, torch.Tensor], own: set[str]) -> dict[str, torch.Tensor]:
    """The state without a wrapper's prefix (DataParallel, Lightning, compile) where that fits."""
    if set(state) == own:
        return dict(state)
    best = dict(state)
    for prefix in (
        "module.",
        "model.",
        "_orig_mod.",
        "net.",
        "module.model.",
        "model.module.",
        "model._orig_mod.",
    ):
        if all(key.startswith(prefix) for key in state):
            cut = {key.removeprefix(prefix): value for key, value in state.items()}
            if len(own & set(cut)) > len(own & set(best)):
                best = cut
    return best


def _guess(code: Code, state: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """The one class whose weights have the file's names, when no entry was given."""
    tried: list[str] = []
    fitting: list[torch.nn.Module] = []
    for path in code.files:
        for kind in _classes(load_file(path, code.folder)):
            tried.append(kind.__name__)
            try:
                module = kind(**code.arguments)
            except Exception:  # noqa: BLE001, S112 - a class that needs arguments is not the one
                continue
            own = module.state_dict()
            if own and set(fitted(state, set(own))) == set(own):
                fitting.append(module)
    if len(fitting) != 1:
        raise Refused(
            "module_entry_missing",
            f"{len(fitting)} classes of the source fit the weights without further arguments; "
            f"it defines: {', '.join(tried[:10]) or 'no torch.nn.Module'}.",
            ENTRY_HINT,
            "/module/entry",
        )
    _load_state(fitting[0], state)
    return fitting[0]
