"""The source of a user's module as it was uploaded: unpacked and read, not yet run.

Standard library only, so that what is missing or unreadable is said before torch is loaded.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from models_registry.exporting import archives, harness, protocol
from models_registry.exporting.protocol import ModuleSource, Refused

ENTRY_HINT: Final = "Name the class as file.py:ClassName, for example net.py:TinyResNet."
NEEDS_CODE: Final = frozenset({"torch_state_dict", "safetensors", "torch_pickled_module"})
TAKES_CODE: Final = frozenset({"torchscript", "torch_export"})
_BOUNDS: Final = archives.Bounds(members=2_000, total_bytes=64 * archives.MIB)
_DEFAULT_FILE: Final = "module_source.py"


@dataclass(frozen=True, slots=True)
class Code:
    """Python files below `folder`, and which class of which file to build, with what.

    `file_name` and `name` are empty where the person did not say.
    """

    folder: Path
    files: tuple[Path, ...]
    file_name: str
    name: str
    arguments: dict[str, Any]


def code_of(source_format: str, source: ModuleSource) -> Code | None:
    """The source that came with the request: needed where the file holds no architecture.

    TorchScript and torch.export programs take it for the operators that it registers.
    """
    if source_format not in NEEDS_CODE:
        given = harness.input_file(protocol.CODE)
        if source_format not in TAKES_CODE or given is None:
            return None
    return prepare(harness.input_file(protocol.CODE), source, harness.WORK / "code")


def prepare(code: Path | None, source: ModuleSource, folder: Path) -> Code:
    """Unpack the upload into `folder`; `Refused` when it is missing or no Python."""
    if code is None:
        raise Refused(
            "module_source_missing",
            "The file holds weights only; the architecture is not in it.",
            "Upload the module's Python source with it (one .py file or a zip) and name the class, "
            "or save TorchScript with torch.jit.save.",
            "/code_upload",
        )
    file_name, name, arguments = _entry(source)
    folder.mkdir(parents=True, exist_ok=True)
    files = _unpack(code, file_name, folder)
    return Code(folder, tuple(files), file_name, name, arguments)


def _entry(source: ModuleSource) -> tuple[str, str, dict[str, Any]]:
    """File, class and keyword arguments out of "net.py:TinyResNet(classes=5)" and shorter forms."""
    file_name, separator, call = source.entry.strip().partition(":")
    if not separator:
        file_name, call = (file_name, "") if file_name.endswith(".py") else ("", file_name)
    arguments = dict(source.arguments)
    if "(" in call:
        try:
            node = ast.parse(call, mode="eval").body
            if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
                raise ValueError
            given = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
        except (SyntaxError, ValueError):
            raise Refused(
                "module_entry_invalid",
                f"“{call[:100]}” cannot be read; give keyword arguments with plain values only.",
                "For example net.py:TinyResNet(classes=5).",
                "/module/entry",
            ) from None
        call, arguments = node.func.id, given | arguments
    if call and not call.isidentifier():
        raise Refused(
            "module_entry_invalid",
            f"“{call[:100]}” is not a class name.",
            ENTRY_HINT,
            "/module/entry",
        )
    return file_name, call, arguments


def _unpack(code: Path, file_name: str, folder: Path) -> list[Path]:
    with code.open("rb") as stream:
        head = stream.read(512)
    if head.startswith((b"PK", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")) or head[257:262] == b"ustar":
        files = archives.extract(code, folder, _BOUNDS)
        python = [path for path in files if path.suffix == ".py"]
        if not python:
            raise Refused(
                "module_source_missing", "The code archive holds no .py file.", ENTRY_HINT
            )
        return python
    target = folder / Path(file_name or _DEFAULT_FILE).name
    if target.suffix != ".py":
        target = target.with_suffix(".py")
    text = code.read_bytes()
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise Refused(
            "module_source_invalid",
            f"The module's source is not Python that can be read: {error}.",
            "Upload the .py file that defines the class, or a zip archive of the project.",
            "/code_upload",
        ) from error
    target.write_bytes(text)
    return [target]
