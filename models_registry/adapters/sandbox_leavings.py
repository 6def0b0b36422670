"""Read what a sandboxed program says and leaves behind, believing nothing of it.

Lines and files are capped, cleaned of what terminals and databases choke on, and checked to be
ordinary files before anybody else sees them.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from models_registry.adapters.bubblewrap import MIB

_MAX_ANSWER_BYTES: Final = 32 * MIB
MAX_FILES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Event:
    """What a program says while it works; `progress` is 0 to 1 over the whole run."""

    kind: Literal["progress", "log"]
    progress: float
    step: str = ""
    level: str = "info"
    line: str = ""


def event(line: bytes, progress: float) -> Event | None:
    try:
        said = json.loads(line)
        kind = said["kind"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if kind == "log":
        level = said.get("level") if said.get("level") in {"info", "warning", "error"} else "info"
        return Event("log", progress, "", level, plain(str(said.get("line", "")), 1_000))
    value = said.get("progress")
    if kind != "progress" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    value = min(1.0, max(progress, float(value))) if value == value else progress
    return Event("progress", value, plain(str(said.get("step", "")), 120))


def plain(text: str, length: int, *, lines: bool = False) -> str:
    """Printable characters only, at most the last (lines) or first `length` of them."""
    kept = "".join(
        character
        for character in text
        if character.isprintable() or (lines and character in "\n\t")
    )
    return kept[-length:] if lines else kept[:length]


def _open_own(path: Path) -> int:
    """Open what the sandbox left, if it is an ordinary file with one name; OSError otherwise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(f"{path.name} is not an ordinary file")
    return descriptor


def output(path: Path) -> Path:
    descriptor = _open_own(path)
    try:
        os.fchmod(descriptor, 0o644)
        if os.geteuid() == 0:
            os.fchown(descriptor, 0, 0)
    finally:
        os.close(descriptor)
    return path


def answer(path: Path) -> dict[str, Any]:
    """The program's result document; {} when there is none that can be read."""
    try:
        with os.fdopen(_open_own(path), "rb") as stream:
            text = stream.read(_MAX_ANSWER_BYTES + 1)
        if len(text) > _MAX_ANSWER_BYTES:
            return {}
        document = json.loads(text, parse_constant=_no_constant)
    except (OSError, ValueError, RecursionError):
        return {}
    cleaned = _storable(document)
    return cleaned if isinstance(cleaned, dict) else {}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _storable(value: Any, depth: int = 0) -> Any:
    """The same document without what a database refuses: NUL, lone surrogates, endless depth."""
    if depth > 32:
        return None
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_storable(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item, depth + 1) for key, item in value.items()}
    return value


def folder_bytes(folder: Path) -> int:
    """Bytes on disk below `folder`; beyond all limits once it has more than `MAX_FILES` entries."""
    total, seen, waiting = 0, 0, [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_FILES:
                        return sys.maxsize
                    found = entry.stat(follow_symlinks=False)
                    total += found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
        except OSError:
            continue
    return total


def nameless_bytes(pid: int) -> int:
    """Bytes of files that a process holds open without a name in any folder; 0 where unreadable."""
    seen: dict[tuple[int, int], int] = {}
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                try:
                    found = entry.stat()
                except OSError:
                    continue
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    except OSError:
        return 0
    return sum(seen.values())


def clear(folder: Path, keep: Collection[str] = ()) -> None:
    """Remove everything in `folder` but the names to keep, whatever tree was grown there.

    Folders are moved up before they are emptied: no path gets long, nothing recurses, and what
    their modes forbid is allowed again. Raises OSError only for `folder` itself.
    """
    waiting = [folder]
    moved = 0
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if here == folder and name in keep and not is_folder:
                continue
            path = here / name
            with suppress(OSError):
                if not is_folder:
                    path.unlink()
                    continue
                path.chmod(0o700)
                moved += 1
                flat = folder / f".gone-{os.getpid()}-{moved}"
                waiting.append(path.rename(flat))
        if here != folder:
            with suppress(OSError):
                here.rmdir()


def remove(folder: Path) -> None:
    """Remove a folder that a sandbox wrote to, with whatever tree was grown there."""
    with suppress(OSError):
        clear(folder)
        folder.rmdir()
