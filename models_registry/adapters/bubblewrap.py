"""The walls of the sandbox: one bubblewrap command line, and what has to be true for it to work.

The child gets its own mount, process, network, IPC and host-name namespaces; of the file system it
sees /usr, the Python installation, the programs' own source, its input files (read-only), a work
folder and a /tmp of its own. As root it runs under a user id that nobody else has; as an ordinary
user it stays that user, mapped to an unprivileged id. No capabilities, no inherited environment,
and, where libseccomp is there, no system calls that a model has no use for.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from console.errors import Unavailable
from models_registry import exporting, rules
from models_registry.adapters import seccomp

MIB: Final = 1 << 20
GIB: Final = 1 << 30
WORK: Final = "/box/work"
INPUT: Final = "/box/in"
_APP: Final = "/box/app"

# Ids that neither Debian's policy nor systemd gives to anybody (systemd.io/UIDS-GIDS: 60578-61183).
_FREE_IDS: Final = range(60_706, 61_184)
_MAPPED_ID: Final = 65_534

Identity = Literal["own", "mapped"]

_INSTALL_HINT: Final = (
    "Install bubblewrap (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap) "
    "on the machine of the export worker. Untrusted model files are opened nowhere else."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use: seconds, bytes, counts. `tmp_bytes` bounds /tmp, which is memory."""

    wall_seconds: float = 600.0
    cpu_seconds: int = 600
    memory_bytes: int = 4 * GIB
    file_bytes: int = 4 * GIB
    disk_bytes: int = 8 * GIB
    tmp_bytes: int = 256 * MIB
    processes: int = 64
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class Box:
    """One prepared run: the command, the id whose files the work folder's must be, the filter."""

    command: list[str]
    owner: int
    program: bytes


def box(stage: str, *, work: Path, files: Mapping[str, Path], limits: Limits) -> Box:
    """The command that runs `python -m models_registry.exporting.<stage>` behind the walls.

    `files` maps names below /box/in to host files. Raises `Unavailable` where there is no sandbox.
    """
    identity = available()
    owner = secrets.choice(_FREE_IDS) if identity == "own" else os.geteuid()
    binds = ["--bind", str(work), WORK, "--perms", "0755", "--dir", INPUT]
    for folder in sorted({name.rpartition("/")[0] for name in files} - {""}):
        binds += ["--perms", "0755", "--dir", f"{INPUT}/{folder}"]
    for name, path in files.items():
        binds += ["--ro-bind", str(path), f"{INPUT}/{name}"]
    python = [sys.executable, "-s", "-B", "-W", "ignore", "-m", f"{exporting.__name__}.{stage}"]
    return Box(_command(identity, owner, binds, limits, python), owner, program())


def available() -> Identity:
    """How a sandbox can be had here, tried for real once per process.

    Raises `Unavailable` (never retryable) with what is missing; there is no weaker substitute.
    """
    return _standing().identity


def program() -> bytes:
    """The system call filter of every run, b"" where it cannot be had (`weakness` says why)."""
    return _standing().program


def weakness() -> str:
    """What this machine's sandbox lacks, as one sentence without its full stop; "" for nothing.

    Raises `Unavailable` where there is no sandbox.
    """
    return _standing().weakness


@dataclass(frozen=True, slots=True)
class _Standing:
    identity: Identity
    program: bytes
    weakness: str


@lru_cache(maxsize=1)
def _standing() -> _Standing:
    if shutil.which("bwrap") is None:
        raise Unavailable(
            "Model files cannot be opened: bubblewrap (bwrap) is not installed.",
            code="sandbox_unavailable",
            hint=_INSTALL_HINT,
            retryable=False,
        )
    built = seccomp.build()
    wanted: tuple[Identity, ...] = ("own", "mapped") if os.geteuid() == 0 else ("mapped",)
    complaint = ""
    for identity in wanted:
        complaint = _complaint(identity, built.program)
        if not complaint:
            return _Standing(identity, built.program, _lacks(identity, built.missing))
        if built.program and not _complaint(identity, b""):
            missing = f"the kernel takes no system call filter ({complaint})"
            return _Standing(identity, b"", _lacks(identity, missing))
    raise Unavailable(
        f"Model files cannot be opened: bubblewrap does not start here ({complaint}).",
        code="sandbox_unavailable",
        hint="Allow user namespaces for this account (sysctl kernel.unprivileged_userns_clone=1, "
        "an AppArmor profile for bwrap, or for a container: seccomp that permits unshare "
        "and mount).",
        retryable=False,
    )


def _lacks(identity: Identity, missing: str) -> str:
    if identity == "mapped" and os.geteuid() == 0:
        kept = "its programs keep root's user id, so run the export worker as an ordinary user"
        return f"{missing}; {kept}" if missing else kept
    return missing


def _complaint(identity: Identity, program: bytes) -> str:
    """Start a sandbox that does nothing; what bwrap says against it, "" when it works."""
    nothing = [sys.executable, "-s", "-B", "-c", "pass"]
    command = _command(identity, _FREE_IDS[0], [], Limits(), nothing)
    with seccomp.handed(program) as (options, descriptors):
        try:
            done = subprocess.run(
                [command[0], *options, *command[1:]],
                env={},
                capture_output=True,
                timeout=30,
                check=False,
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip()[-300:]
    return said or f"it ended with code {done.returncode}"


def _command(
    identity: Identity, owner: int, binds: list[str], limits: Limits, python: list[str]
) -> list[str]:
    walls = [shutil.which("bwrap") or "bwrap"]
    walls += [
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    walls += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"]
    if identity == "mapped":
        walls += ["--unshare-user", "--uid", str(_MAPPED_ID), "--gid", str(_MAPPED_ID)]
    for name, value in _environment().items():
        walls += ["--setenv", name, value]
    walls += _visible(limits) + binds
    # What bwrap makes up lies in memory without a limit: nothing may be written there.
    walls += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK if binds else "/"]
    if identity == "own":
        walls += ["--cap-drop", "ALL"]
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            walls += ["--cap-add", capability]  # spent by setpriv on the next line
        walls += ["/usr/bin/setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups"]
        walls += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    return [*walls, *_ulimits(limits), *python]


def _environment() -> dict[str, str]:
    one_thread = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",  # noqa: S108 - the sandbox's own
        "USER": "sandbox",
        "LANG": "C.UTF-8",
        "PYTHONPATH": _APP,
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "MALLOC_ARENA_MAX": "2",
        "CUDA_VISIBLE_DEVICES": "",
        **dict.fromkeys(one_thread, "1"),
    }


def _visible(limits: Limits) -> list[str]:
    """Mounts: system libraries, Python, the programs; empty /tmp, fresh /proc and /dev."""
    arguments = ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    # Kernel settings belong to whoever has root's user id, even without capabilities.
    arguments += ["--tmpfs", "/proc/sys", "--remount-ro", "/proc/sys"]
    for link in ("bin", "lib", "lib64"):
        if Path("/", link).is_symlink():
            arguments += ["--symlink", f"usr/{link}", f"/{link}"]
        elif Path("/", link).is_dir():
            arguments += ["--ro-bind", f"/{link}", f"/{link}"]
    for folder_in_memory in ("/tmp", "/dev/shm"):  # noqa: S108 - the sandbox's own
        arguments += ["--size", str(limits.tmp_bytes), "--perms", "1777"]
        arguments += ["--tmpfs", folder_in_memory]
    trees = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()}
    shown = {path: path for path in sorted(trees) if not path.is_relative_to("/usr")}
    folder = Path(_APP, "models_registry")
    for package in (exporting, rules):
        path = Path(str(package.__file__)).parent
        shown[folder / path.name] = path
    shown[folder / "__init__.py"] = path.parent / "__init__.py"
    made: set[Path] = set()
    for inside in shown:
        for parent in reversed(inside.parents):
            if parent not in made and parent != Path("/"):
                arguments += ["--perms", "0755", "--dir", str(parent)]
                made.add(parent)
    for inside, path in shown.items():
        arguments += ["--ro-bind", str(path), str(inside)]
    return arguments


def _ulimits(limits: Limits) -> list[str]:
    # --data counts private writable memory (setrlimit(2), Linux 4.7): heap and anonymous mappings,
    # not the gigabytes of address space that torch reserves for its libraries.
    return [
        "/usr/bin/prlimit",
        f"--data={limits.memory_bytes}",
        # Soft before hard: SIGXCPU tells the reason, SIGKILL would not.
        f"--cpu={limits.cpu_seconds}:{limits.cpu_seconds + 5}",
        f"--fsize={limits.file_bytes}",
        f"--nproc={limits.processes}",
        f"--nofile={limits.open_files}",
        "--core=0",
        "--memlock=0",
    ]
