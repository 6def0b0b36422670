"""How a program runs inside the sandbox: read the request, report, leave one result.

Standard output carries events and nothing else: what model code prints goes to standard error.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from models_registry.exporting.protocol import Json, Refused

WORK: Final = Path("/box/work")
INPUT: Final = Path("/box/in")

_NO_MEMORY: Final = (
    "can't allocate memory",
    "cannot allocate memory",
    "failed to allocate memory",
    "bad_alloc",
    "bad allocation",
    "out of memory",
    "unable to allocate",
)


class Reporter:
    """Sends progress (0 to 1, with the step's name) and log lines to the other side."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def progress(self, fraction: float, step: str) -> None:
        """Tell how far the program is."""
        self._send({"kind": "progress", "progress": round(fraction, 4), "step": step})

    def log(self, line: str, level: str = "info") -> None:
        """Tell one line for the job's log."""
        self._send({"kind": "log", "level": level, "line": line[:1000]})

    def _send(self, event: Json) -> None:
        os.write(self._descriptor, json.dumps(event).encode() + b"\n")


def input_file(name: str) -> Path | None:
    """A file that came with the request, or None."""
    path = INPUT / name
    return path if path.exists() else None


def needed_file(name: str) -> Path:
    """A file without which the program cannot work."""
    path = input_file(name)
    if path is None:
        raise RuntimeError(f"the request came without its file {name}")
    return path


def is_memory_error(error: BaseException) -> bool:
    """Whether an error of numpy, torch or ONNX Runtime means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return any(phrase in text for phrase in _NO_MEMORY)


def run(program: Callable[[Json, Reporter], Json]) -> None:
    """Run `program(request, reporter)` and write its answer, or why there is none; then exit."""
    reporter = Reporter(os.dup(1))
    os.dup2(2, 1)
    request = json.loads((WORK / "request.json").read_text(encoding="utf-8"))
    code = 0
    try:
        document: Json = {"outcome": "ok", "answer": program(request, reporter)}
    except Refused as refused:
        document = {"outcome": "refused", **refused.refusal.to_json()}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the last door of the process
        traceback.print_exc()
        document, code = _failure(error)
    temporary = WORK / "result.json.part"
    temporary.write_text(json.dumps(finite(document), allow_nan=False), encoding="utf-8")
    temporary.replace(WORK / "result.json")
    sys.stderr.flush()
    os._exit(code)  # no destructor of a hostile module, no thread of a runtime delays the end


def _failure(error: BaseException) -> tuple[Json, int]:
    if is_memory_error(error):
        return {"outcome": "out_of_memory"}, 1
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return {
            "outcome": "refused",
            "code": "disk_full",
            "message": "There is not enough disk space to export this model.",
            "hint": "Free about three times the model's size on the export worker and try again.",
        }, 0
    return {"outcome": "error", "message": f"{type(error).__name__}: {error}"[:2000]}, 1


def finite(value: Any) -> Any:
    """The same document with NaN and infinities as the words that JSON has no numbers for."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
