"""Run one of the export programs on a file that nobody trusts, and bring home a typed answer.

The child is started behind the walls of `bubblewrap`; this side feeds it a request, listens to its
events, watches clock, memory and disk, and ends it. Nothing that it says or leaves behind is
believed: lines and files are capped, cleaned and checked before anybody else sees them.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from console.errors import Unavailable
from models_registry.adapters import bubblewrap
from models_registry.adapters import sandbox_leavings as leavings
from models_registry.adapters.bubblewrap import MIB, Limits
from models_registry.adapters.sandbox_leavings import Event
from models_registry.adapters.sandbox_watch import Ending, SandboxResult, Usage, Watch
from models_registry.exporting import protocol

__all__ = [
    "DEFAULT_LIMITS",
    "Ending",
    "Event",
    "Limits",
    "Program",
    "SandboxResult",
    "Usage",
    "run",
]

DEFAULT_LIMITS: Final = Limits()

Program = Literal["propose", "export", "optimise", "validate", "inspect"]

# What each program consists of: stages with their share of the time.
_STAGES: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "propose": (("propose", 1.0),),
    "export": (("export", 1.0),),
    "optimise": (("optimise", 1.0),),
    # The source framework runs apart from the checks: a module's code cannot touch its own report.
    "validate": (("reference", 0.6), ("validate", 0.4)),
    "inspect": (("inspecting", 1.0),),
}
_INPUTS: Final[dict[str, frozenset[str]]] = {
    "propose": frozenset({protocol.SOURCE, protocol.CODE, protocol.SAMPLE}),
    "export": frozenset({protocol.SOURCE, protocol.CODE, protocol.SAMPLE}),
    "optimise": frozenset({protocol.MODEL, protocol.MODEL_DATA}),
    "reference": frozenset({protocol.SOURCE, protocol.CODE, protocol.SAMPLE}),
    "validate": frozenset(
        {protocol.MODEL, protocol.MODEL_DATA, protocol.SAMPLE, protocol.REFERENCE}
    ),
    "inspecting": frozenset({protocol.MODEL, protocol.MODEL_DATA}),
}
_OUTPUTS: Final[dict[str, tuple[str, ...]]] = {
    "propose": (),
    "export": (protocol.MODEL,),
    "optimise": (protocol.MODEL,),
    "reference": (protocol.REFERENCE,),
    "validate": (protocol.SAMPLE_REQUEST, protocol.REPLAY),
    "inspecting": (),
}
# What a stage may leave as well.
_FURTHER_OUTPUTS: Final[dict[str, tuple[str, ...]]] = {
    "export": (protocol.MODEL_DATA,),
    "optimise": (protocol.MODEL_DATA,),
}


def run(
    program: Program,
    request: Mapping[str, Any],
    *,
    workdir: Path,
    files: Mapping[str, Path],
    limits: Limits = DEFAULT_LIMITS,
    on_event: Callable[[Event], None] = lambda event: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> SandboxResult:
    """Run `program` (see `models_registry.exporting.protocol`) and wait for its end.

    `workdir` is created where needed and belongs to the caller, who deletes it; outputs lie in it.
    `files` maps names of the protocol to host files, shown read-only; names that begin with
    `protocol.BESIDE` are files that the source refers to, names in the folder `protocol.OPERATORS`
    custom operator libraries. Limits are for each stage.
    `cancelled` is asked every 0.2 s. Raises `Unavailable` where no sandbox can be had or the disk
    is full, ValueError for a file name that the program does not know.
    """
    stages = _STAGES[program]
    known = frozenset().union(*(_INPUTS[stage] for stage, _ in stages))
    known |= {name for name in files if _is_library(name)}
    beside = {name for name in files if _lies_beside(name)}
    if unknown := set(files) - known - (beside if protocol.SOURCE in known else set()):
        raise ValueError(f"{program} takes no file called {min(unknown)!r}")
    handed = dict(files)
    done = 0.0
    result = SandboxResult("ok")
    usage = Usage()
    for stage, share in stages:
        inputs = _shown(handed, stage)
        scale = _scaled(on_event, done, share)
        result = _stage(stage, request, workdir / stage, inputs, limits, scale, cancelled)
        usage = Usage(
            usage.wall_seconds + result.usage.wall_seconds,
            usage.cpu_seconds + result.usage.cpu_seconds,
            max(usage.peak_bytes, result.usage.peak_bytes),
        )
        if result.ending != "ok":
            break
        handed |= result.outputs
        done += share
    return SandboxResult(
        result.ending, result.answer, result.outputs, result.refusal, result.stderr_tail, usage
    )


def _lies_beside(name: str) -> bool:
    kept = name.removeprefix(protocol.BESIDE)
    return name != kept and "/" not in kept and kept not in protocol.OWN_FILES | {"", ".", ".."}


def _is_library(name: str) -> bool:
    kept = name.removeprefix(f"{protocol.OPERATORS}/")
    return name != kept and "/" not in kept and kept not in {"", ".", ".."}


def _shown(files: Mapping[str, Path], stage: str) -> dict[str, Path]:
    """The files that a stage sees, by their names there; what lies beside a source goes with it."""
    taken = _INPUTS[stage]
    shown = {name: path for name, path in files.items() if name in taken or _is_library(name)}
    if protocol.SOURCE in taken:
        shown |= {
            name.removeprefix(protocol.BESIDE): path
            for name, path in files.items()
            if _lies_beside(name)
        }
    return shown


def _scaled(
    on_event: Callable[[Event], None], start: float, share: float
) -> Callable[[Event], None]:
    def forward(event: Event) -> None:
        progress = min(1.0, start + share * event.progress)
        on_event(Event(event.kind, progress, event.step, event.level, event.line))

    return forward


def _stage(
    stage: str,
    request: Mapping[str, Any],
    folder: Path,
    files: Mapping[str, Path],
    limits: Limits,
    on_event: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> SandboxResult:
    work = folder / "out"
    try:
        if folder.exists():
            leavings.clear(folder)  # an attempt before this one
            folder.rmdir()
        folder.mkdir(parents=True, mode=0o700)
        work.mkdir(mode=0o755)
        (work / "request.json").write_text(json.dumps(request), encoding="utf-8")
        shown = {name: _readable(path, folder / "in" / name) for name, path in files.items()}
        prepared = bubblewrap.box(stage, work=work, files=shown, limits=limits)
        if prepared.owner != os.geteuid():
            for path in (work, work / "request.json"):
                os.chown(path, prepared.owner, prepared.owner)
    except OSError as error:
        raise Unavailable(
            f"The sandbox's work folder {folder} cannot be prepared: {error.strerror or error}.",
            code="work_folder_unusable",
            hint=f"Free space or mend the permissions there; the model needs about "
            f"{2 * sum(path.stat().st_size for path in files.values()) // MIB + 1} MiB.",
        ) from error
    watch = Watch(prepared, work, limits, on_event, cancelled)
    try:
        return watch.wait(_OUTPUTS[stage], _FURTHER_OUTPUTS.get(stage, ()))
    finally:
        shutil.rmtree(folder / "in", ignore_errors=True)


def _readable(path: Path, copy: Path) -> Path:
    """The file itself, or a private copy where its mode would keep the sandbox's user out."""
    path = path.resolve(strict=True)
    if bubblewrap.available() == "mapped" or path.stat().st_mode & stat.S_IROTH:
        return path
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, copy)
    copy.chmod(0o444)
    return copy
