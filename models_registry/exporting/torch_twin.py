"""The same export once more, by a second process, from a fresh start and with another seed.

What is not stored in the file — a mask drawn when the module is built, a mean over random numbers —
comes out differently then, and so does the digest of the ONNX file. The second process is a copy of
this one made before the file was opened, so that a module's source is imported anew there.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from models_registry.exporting import onnx_files
from models_registry.exporting.harness import WORK
from models_registry.exporting.protocol import Refused
from models_registry.exporting.sampling import Feeds

# Both exports are in memory at once: for 470 MB of weights they took 3.6 GB together (measured),
# and a sandbox has 4 GiB for such a file.
MAX_BYTES: Final = 400 * 1000 * 1000
SEED: Final = 20_021
_FOLDER: Final = WORK / "again"
_LEAST_SECONDS: Final = 60.0
_SLACK: Final = 4.0

# Feeds, what was asked with them, where to write.
Export = Callable[[Feeds, dict[str, Any], Path], None]


@dataclass(slots=True)
class Twin:
    """The process that waits to do it; `ask` and `done` are pipes to and from it."""

    pid: int
    ask: int
    done: int
    started: float = 0.0

    def begin(self, feeds: Feeds, question: dict[str, Any]) -> None:
        """Let it export, at the same time as this process does; it is given `question` back."""
        _FOLDER.mkdir(exist_ok=True)
        kept: dict[str, Any] = dict(feeds)
        np.savez(_FOLDER / "feeds.npz", allow_pickle=False, **kept)
        self.started = time.monotonic()
        os.write(self.ask, json.dumps(question).encode())
        os.close(self.ask)
        self.ask = -1

    def compare(self, path: Path) -> list[str]:
        """Nothing when it gave the same bytes as `path`, a sentence when it was too slow.

        `Refused`, naming what differs, when it gave others.
        """
        own = time.monotonic() - self.started
        ready, _, _ = select.select([self.done], [], [], max(_LEAST_SECONDS, _SLACK * own))
        if not ready:
            return ["A second export, to see that it gives the same file, did not end in time."]
        os.waitpid(self.pid, 0)
        other, complaint = _FOLDER / path.name, _FOLDER / "complaint.txt"
        if not other.exists():
            said = complaint.read_text("utf-8") if complaint.exists() else "it ended early"
            raise _not_repeatable(f"the second one failed ({said[:300]})")
        if onnx_files.sha256(other) != onnx_files.sha256(path):
            raise _not_repeatable(difference(path, other))
        shutil.rmtree(_FOLDER)
        return []


def prepare(opened: Callable[[], Export]) -> Twin:
    """A copy of this process that waits; `opened` opens the file there and gives how to export."""
    asked, ask = os.pipe()
    done, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(asked)
        os.close(tell)
        return Twin(pid, ask, done)
    try:
        os.close(ask)
        _second(asked, opened)
    finally:
        os._exit(0)


def _second(asked: int, opened: Callable[[], Export]) -> None:
    with os.fdopen(asked, "rb") as stream:
        question = stream.read()
    if not question:
        return  # the first process ended without asking
    try:
        with np.load(_FOLDER / "feeds.npz", allow_pickle=False) as kept:
            feeds = {name: kept[name] for name in kept.files}
        draft = _FOLDER / "draft"
        draft.mkdir(exist_ok=True)
        export = opened()
        export(feeds, json.loads(question), draft / "model.onnx")
        (draft / "model.onnx").rename(_FOLDER / "model.onnx")
    except BaseException as error:  # noqa: BLE001 - told by the first process
        text = f"{type(error).__name__}: {error}"
        (_FOLDER / "complaint.txt").write_text(text, encoding="utf-8", errors="replace")


def _not_repeatable(what: str) -> Refused:
    return Refused(
        "export_not_repeatable",
        f"Two exports of the same file give two different models: {what}. That is not in the file; "
        "it is drawn at random when the module is built or run."[:900],
        "Keep it in the weights: register_buffer or torch.nn.Parameter, so that torch.save stores "
        "it; or compute it without random numbers, and export again.",
    )


def difference(one: Path, other: Path) -> str:
    """What differs between two exports of one model, in words that name the module's parts."""
    first, second = (onnx_files.graph_of(path) for path in (one, other))
    kinds = {
        name: count
        for name, count in onnx_files.operators(first).items()
        if onnx_files.operators(second).get(name) != count
    }
    if kinds:
        return f"they have different operators ({', '.join(kinds)[:200]})"
    here, there = _constants(first), _constants(second)
    names = [name for name, data in here.items() if there.get(name, data) != data]
    names += sorted(set(here) ^ set(there))
    if not names:
        return "their nodes have different attributes or names"
    return f"the values of {', '.join(_spoken(name, first) for name in names[:5])} differ"


def _constants(model: onnx.ModelProto) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for graph in onnx_files.graphs(model.graph):
        found |= {tensor.name: tensor.SerializeToString() for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                found |= {name: node.SerializeToString() for name in node.output}
    return found


def _spoken(name: str, model: onnx.ModelProto) -> str:
    """A name that the module has, or else where an unnamed constant is used."""
    if not name.startswith(("onnx::", "/", "_")) and not name.isdecimal():
        return f"“{name}”"
    users: list[Any] = [node for node in model.graph.node if name in node.input]
    where = users[0].name or users[0].op_type if users else ""
    return f"a constant of {where}" if where else f"the constant {name}"
