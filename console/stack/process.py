"""Child processes that never outlive the process that started them. Linux only.

Start children from the main thread: the kernel sends the death signal when the *thread* that
forked ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x10000000

# Loaded before any fork: the child must not run the dynamic loader between fork and exec.
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class RunAs:
    """Whose rights a child has.

    `user` gives up root by setuid. `namespace` keeps the files' owner but shows the program an
    unprivileged user id, for programs that refuse root while their files lie in a folder that
    only root may enter.
    """

    how: Literal["same", "user", "namespace"] = "same"
    uid: int = 0
    gid: int = 0

    def apply(self) -> None:
        """Take on these rights; runs in the child between fork and exec."""
        if self.how == "user":
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)
        elif self.how == "namespace":
            outer_uid, outer_gid = os.geteuid(), os.getegid()
            if _libc.unshare(CLONE_NEWUSER) != 0:
                raise OSError(ctypes.get_errno(), "unshare of the user namespace")
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{self.uid} {outer_uid} 1")
            _write("/proc/self/gid_map", f"{self.gid} {outer_gid} 1")


SAME = RunAs()


@dataclass(frozen=True, slots=True)
class Command:
    """A program with all that decides how it runs. `env` is the whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = Path("/")
    run_as: RunAs = SAME
    death_signal: signal.Signals = signal.SIGTERM


def spawn(command: Command, log: Path) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, output appended to `log`.

    Raises OSError when the program cannot be run. When this thread ends for any reason,
    the kernel sends the child `death_signal`.
    """
    parent = os.getpid()

    def become() -> None:
        os.setsid()
        command.run_as.apply()
        # After the change of user: that clears the death signal.
        _libc.prctl(PR_SET_PDEATHSIG, int(command.death_signal))
        if os.getppid() != parent:
            os._exit(1)

    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            list(command.argv),
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=become,  # noqa: PLW1509 - one thread only, see above
        )


def run(command: Command, log: Path, *, seconds: float) -> int:
    """Run to the end and return the exit code; killed after `seconds` (then -9)."""
    child = spawn(command, log)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        kill_group(child)
        return child.wait()


def stop(child: subprocess.Popen[bytes], sig: signal.Signals, *, seconds: float) -> None:
    """Ask by `sig`, wait, then kill what is left of the child's session."""
    if child.poll() is None:
        child.send_signal(sig)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    kill_group(child)
    child.wait()


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill every process of the child's own session group at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def started_at(pid: int) -> int | None:
    """Start of a living process in clock ticks since boot; None when there is none.

    With the pid it names one process for good: pids are used again, and the wall clock jumps.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def resident_bytes(pid: int, *, family: bool = True) -> int:
    """Memory of a process (and its descendants), shared pages counted once (PSS) where
    the kernel tells, else the resident set."""
    try:
        root = psutil.Process(pid)
        members = [root, *root.children(recursive=True)] if family else [root]
    except psutil.NoSuchProcess:
        return 0
    return sum(_memory(process) for process in members)


def holder_of(port: int) -> str:
    """'name (pid 1)' of the process that listens on the port, or '' when it cannot be told."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return ""
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or not connection.laddr:
            continue
        if connection.laddr.port == port and connection.pid:
            try:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
            except psutil.NoSuchProcess:
                return ""
    return ""


def nobody() -> tuple[int, int]:
    """User and group id of the account without rights."""
    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _memory(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
