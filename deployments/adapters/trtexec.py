"""NVIDIA's `trtexec` as a child process: bounded in time, its lines passed on as they come."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from deployments.rules.fleet import tensorrt

_TICK_S: Final = 0.2
_MAX_LINE: Final = 1_000
_MAX_LINES: Final = 2_000
_KEPT: Final = 200
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "TMPDIR", "CUDA", "NVIDIA", "TRT")

Ending = Literal["ok", "failed", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended; `lines` are its last ones."""

    ending: Ending
    lines: tuple[str, ...]
    seconds: float


def find() -> Path | None:
    """trtexec on this process's PATH."""
    found = shutil.which(tensorrt.TRTEXEC)
    return Path(found) if found else None


def release(program: Path, folder: Path) -> tuple[int, int] | None:
    """The TensorRT release that it says it is of; None when it does not say within a minute."""
    told = run(program, ["--help"], folder=folder, seconds=60)
    return tensorrt.release_of("\n".join(told.lines))


def run(
    program: Path,
    arguments: Sequence[str],
    *,
    folder: Path,
    seconds: float,
    on_line: Callable[[str], None] = lambda line: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Finished:
    """Run it in `folder` and wait, at most `seconds`; its whole process group ends with it.

    The first 2,000 lines go to `on_line`, in this thread. `cancelled` is asked every 0.2 s.
    """
    started = time.monotonic()
    child = subprocess.Popen(
        [str(program), *arguments],
        cwd=folder,
        # It reads a stranger's file: what it needs to find its libraries and the GPU, no secret.
        env={name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    reader = _Reader(on_line)
    ending: Ending | None = None
    try:
        ending = _listen(child, reader, started + seconds, cancelled)
    finally:
        _end(child)
        if child.stdout is not None:
            child.stdout.close()
    if ending is None:
        ending = "ok" if child.returncode == 0 else "failed"
    return Finished(ending, tuple(reader.kept), time.monotonic() - started)


class _Reader:
    """Bytes to lines, with an end to both."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.on_line = on_line
        self.kept: list[str] = []
        self.count = 0
        self.rest = b""

    def take(self, chunk: bytes) -> None:
        """Pass on what is complete; an empty chunk is the end."""
        *whole, self.rest = (self.rest + chunk).split(b"\n")
        if not chunk or len(self.rest) > _MAX_LINE:
            whole, self.rest = [*whole, self.rest], b""
        for raw in whole:
            line = raw[:_MAX_LINE].decode("utf-8", "replace").rstrip()
            if not line:
                continue
            # The banner with the release stands first, what went wrong near the end.
            self.kept = [*self.kept[:1], *self.kept[1:][-_KEPT:], line]
            self.count += 1
            if self.count <= _MAX_LINES:
                self.on_line(line)


def _listen(
    child: subprocess.Popen[bytes],
    reader: _Reader,
    deadline: float,
    cancelled: Callable[[], bool],
) -> Ending | None:
    assert child.stdout is not None  # noqa: S101 - it was asked for
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if cancelled():
                return "cancelled"
            if time.monotonic() > deadline:
                return "timed_out"
            if not selector.select(_TICK_S):
                continue
            chunk = os.read(child.stdout.fileno(), 65_536)
            reader.take(chunk)
            if not chunk:
                break
    try:
        child.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timed_out"
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the whole group, unless its first process has been waited for already."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
