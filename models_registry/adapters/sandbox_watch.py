"""Watch one sandboxed child: its two pipes, its clock and its appetite; say how it ended.

Nothing that it says or leaves behind is believed before `sandbox_leavings` has looked at it.
"""

from __future__ import annotations

import json
import os
import re
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from console.errors import Invalid
from models_registry.adapters import bubblewrap, seccomp
from models_registry.adapters import sandbox_leavings as leavings
from models_registry.adapters.bubblewrap import MIB, Limits
from models_registry.adapters.sandbox_leavings import Event
from models_registry.exporting import protocol

Ending = Literal["ok", "refused", "timed_out", "out_of_memory", "crashed", "cancelled"]
_Stop = Literal["cancelled", "timed_out", "out_of_memory", "disk", "processes"]

_MAX_EVENT_BYTES: Final = 8 * 1024
_MAX_EVENTS: Final = 5_000
_MAX_STDERR: Final = 16 * 1024
_TICK_SECONDS: Final = 0.2
_LEAST_FREE: Final = 512 * MIB
_MAX_PROCESSES: Final = 32
# What our own programs give; anything else was written by the model.
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MAX_POINTER: Final = 200


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run took; `peak_bytes` is the greatest anonymous memory seen."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """How a run ended. `refusal` explains every ending but ok and cancelled."""

    ending: Ending
    answer: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Path] = field(default_factory=dict)
    refusal: protocol.Refusal | None = None
    stderr_tail: str = ""
    usage: Usage = Usage()

    def raise_unless_ok(self) -> None:
        """Raise the refusal as `Invalid` (message, code, hint) unless the run ended well.

        A cancelled run raises `Invalid` with the code `cancelled`.
        """
        if self.ending == "ok":
            return
        if self.refusal is None:
            raise Invalid("The work was cancelled.", code="cancelled")
        raise Invalid(self.refusal.message, code=self.refusal.code, hint=self.refusal.hint)


class Watch:
    """One child: its two pipes, its clock and its appetite."""

    def __init__(
        self,
        box: bubblewrap.Box,
        work: Path,
        limits: Limits,
        on_event: Callable[[Event], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self.work = work
        self.limits = limits
        self.on_event = on_event
        self.cancelled = cancelled
        self.progress = 0.0
        self.events = 0
        self.stderr = b""
        self.line = b""
        self.peak = 0
        self.cpu = 0.0
        self.nameless = 0
        self.least_free = min(_LEAST_FREE, _free_bytes(work) // 4)
        self.ended: _Stop | None = None
        self.processes = 0
        self.started = time.monotonic()
        told, tell = os.pipe()
        try:
            with seccomp.handed(box.program) as (options, descriptors):
                self.child = subprocess.Popen(
                    [box.command[0], "--info-fd", str(tell), *options, *box.command[1:]],
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    pass_fds=(tell, *descriptors),
                )
        finally:
            os.close(tell)
        self.init = _init_of(told)

    def wait(self, outputs: Sequence[str], further: Sequence[str] = ()) -> SandboxResult:
        """Listen until the child is gone, ending it where it must be ended.

        `outputs` are the files that a good end leaves, `further` those that it may leave as well.
        """
        try:
            self._listen()
        finally:
            self._kill()
            code = self.child.wait()
            _await_end(self.init)
            # Before anybody else walks through it: a tree may be too deep to walk, or forbidden.
            leavings.clear(self.work, keep=("result.json", *outputs, *further))
            for pipe in (self.child.stdout, self.child.stderr):
                if pipe is not None:
                    pipe.close()
        return self._result(code, outputs, further)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            for pipe in (self.child.stdout, self.child.stderr):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ)
            next_look = self.started
            while selector.get_map():
                for key, _ in selector.select(_TICK_SECONDS):
                    chunk = os.read(key.fd, 65_536)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is self.child.stdout:
                        self._hear(chunk)
                    else:
                        self.stderr = (self.stderr + chunk)[-_MAX_STDERR:]
                now = time.monotonic()
                if now >= next_look:
                    next_look = now + _TICK_SECONDS
                    self.ended = self._must_end(now)
                    if self.ended is not None or self.child.poll() is not None:
                        break
            for pipe in (self.child.stdout, self.child.stderr):
                self._rest(pipe)

    def _rest(self, pipe: Any) -> None:
        try:
            chunk = os.read(pipe.fileno(), 65_536)
        except BlockingIOError:
            return
        if pipe is self.child.stdout:
            self._hear(chunk)
        else:
            self.stderr = (self.stderr + chunk)[-_MAX_STDERR:]

    def _must_end(self, now: float) -> _Stop | None:
        if self.cancelled():
            return "cancelled"
        if now - self.started > self.limits.wall_seconds:
            return "timed_out"
        memory = self._memory()
        if self.processes > _MAX_PROCESSES:
            return "processes"
        self.peak = max(self.peak, memory)
        if memory > self.limits.memory_bytes:
            return "out_of_memory"
        written = leavings.folder_bytes(self.work) + self.nameless
        if written > self.limits.disk_bytes or _free_bytes(self.work) < self.least_free:
            return "disk"
        return None

    def _memory(self) -> int:
        """Anonymous and shared memory of the whole sandbox, bytes (proc(5), /proc/pid/status)."""
        total, cpu, nameless = 0, 0.0, 0
        try:
            below = psutil.Process(self.child.pid).children(recursive=True)
            self.processes = len(below)
            for process in below:
                status = Path(f"/proc/{process.pid}/status").read_text(
                    encoding="ascii", errors="replace"
                )
                for row in status.splitlines():
                    if row.startswith(("RssAnon:", "RssShmem:")):
                        total += int(row.split()[1]) * 1024
                times = process.cpu_times()
                cpu += times.user + times.system
                nameless = max(nameless, leavings.nameless_bytes(process.pid))
        except (psutil.Error, OSError, ValueError):
            return total
        self.cpu = max(self.cpu, cpu)
        self.nameless = nameless
        return total

    def _hear(self, chunk: bytes) -> None:
        *lines, rest = (self.line + chunk).split(b"\n")
        self.line = rest[:_MAX_EVENT_BYTES]
        for line in lines:
            if self.events >= _MAX_EVENTS:
                return
            event = leavings.event(line[:_MAX_EVENT_BYTES], self.progress)
            if event is not None:
                self.events += 1
                self.progress = event.progress
                self.on_event(event)

    def _kill(self) -> None:
        """End the whole process namespace: bwrap dies, and its pid 1 with all below."""
        if self.child.poll() is None:
            try:
                os.killpg(self.child.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def _result(self, code: int, wanted: Sequence[str], further: Sequence[str]) -> SandboxResult:
        usage = Usage(time.monotonic() - self.started, self.cpu, self.peak)
        tail = leavings.plain(self.stderr.decode("utf-8", "replace"), 4_000, lines=True)
        ending, answer, refusal = self._verdict(code)
        outputs: dict[str, Path] = {}
        if ending == "ok":
            try:
                left = [name for name in further if (self.work / name).exists()]
                outputs = {name: leavings.output(self.work / name) for name in (*wanted, *left)}
            except OSError as error:
                ending, answer = "crashed", {}
                refusal = protocol.Refusal(
                    "output_missing",
                    f"The program ended without a usable result ({error.strerror or error}).",
                )
        return SandboxResult(ending, answer, outputs, refusal, tail, usage)

    def _verdict(self, code: int) -> tuple[Ending, dict[str, Any], protocol.Refusal | None]:
        if self.ended == "cancelled":
            return "cancelled", {}, None
        if self.ended is not None:
            ending: Ending = (
                self.ended if self.ended in ("timed_out", "out_of_memory") else "refused"
            )
            return ending, {}, _explained(self.ended, self.limits)
        answer = leavings.answer(self.work / "result.json")
        outcome = answer.get("outcome")
        if outcome == "ok" and code == 0 and isinstance(answer.get("answer"), dict):
            return "ok", answer["answer"], None
        if outcome == "refused":
            keys = ("code", "message", "hint", "pointer")
            said = {key: leavings.plain(str(answer.get(key, "")), 2_000) for key in keys}
            if not _CODE.fullmatch(said["code"]) or len(said["pointer"]) > _MAX_POINTER:
                return "crashed", {}, _crashed(code, answer)
            return "refused", {}, protocol.Refusal(**said)
        if outcome == "out_of_memory" or code == 128 + signal.SIGKILL:
            return "out_of_memory", {}, _explained("out_of_memory", self.limits)
        if code == 128 + signal.SIGXCPU:
            return "timed_out", {}, _explained("timed_out", self.limits)
        return "crashed", {}, _crashed(code, answer)


def _free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _init_of(told: int) -> int | None:
    """A pidfd of the sandbox's first process, as bwrap tells on --info-fd; None if it is gone."""
    with os.fdopen(told, "rb") as stream:
        try:
            return os.pidfd_open(int(json.load(stream)["child-pid"]))
        except (ValueError, KeyError, OSError):
            return None


def _await_end(init: int | None) -> None:
    """Wait until no process of the sandbox is left: a namespace ends with its first process.

    Only then nobody can change the files behind the checks. (pid_namespaces(7))
    """
    if init is None:
        return
    try:
        signal.pidfd_send_signal(init, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        select.select([init], [], [], 10.0)
        os.close(init)


def _explained(ending: _Stop, limits: Limits) -> protocol.Refusal:
    if ending == "timed_out":
        return protocol.Refusal(
            "time_limit",
            f"The model was stopped: it did not finish within {limits.wall_seconds:.0f} seconds "
            f"({limits.cpu_seconds} seconds of processor time).",
            "Look for a loop that does not end, or ask the platform team to raise the time limit.",
        )
    if ending == "out_of_memory":
        return protocol.Refusal(
            "memory_limit",
            f"The model was stopped: it needs more than {limits.memory_bytes // MIB} MiB "
            "of memory.",
            "Look for a tensor of a huge constant size, or ask the platform team to raise "
            "the limit.",
        )
    if ending == "processes":
        return protocol.Refusal(
            "process_limit",
            f"The model was stopped: it started more than {_MAX_PROCESSES} processes.",
            "A model needs one. Look for what forks or starts workers in the module's source.",
        )
    return protocol.Refusal(
        "disk_limit",
        f"The model was stopped: it wrote more than {limits.disk_bytes // MIB} MiB or "
        f"{leavings.MAX_FILES} files, or nearly filled the disk.",
        "Check what the module's source writes while it is built, and that the export worker has "
        "a few GiB of disk free.",
    )


def _crashed(code: int, answer: Mapping[str, Any]) -> protocol.Refusal:
    said = leavings.plain(str(answer.get("message", "")), 1_000)
    name = ""
    if code > 128:
        try:
            name = f" by {signal.Signals(code - 128).name}"
        except ValueError:
            name = ""
    return protocol.Refusal(
        "program_crashed",
        said or f"The program that opens the model was ended{name} (exit code {code}).",
        "The job's log has the last lines that it wrote. If the file is sound, report them.",
    )
