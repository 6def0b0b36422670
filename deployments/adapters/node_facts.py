"""What a node's machine says of files, of its disk and of its GPU driver."""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import psutil

from deployments.rules.diagnosis.file_check import DiskFacts, PathFacts, Reader

MOST_PATHS = 60
_DRIVER = Path("/proc/driver/nvidia/version")
_DRIVER_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")


def paths_to(root: Path, below: Iterable[Path]) -> list[PathFacts]:
    """The folders that lead to the repository, and what lies at these places in it."""
    wanted = [*reversed(root.parents), root, *below]
    found = []
    for path in wanted[:MOST_PATHS]:
        try:
            status = path.stat()
        except OSError:
            continue
        found.append(
            PathFacts(
                str(path),
                status.st_mode,
                status.st_uid,
                status.st_gid,
                _name_of_user(status.st_uid),
                _name_of_group(status.st_gid),
            )
        )
    return found


def reader_of(root: Path, grpc_port: str) -> Reader:
    """The user of the Triton process that serves this repository, where it runs on this machine."""
    for process in psutil.process_iter(["name", "cmdline", "uids", "gids", "username"]):
        words = process.info["cmdline"] or []
        if "tritonserver" not in (process.info["name"] or "") and not any(
            "tritonserver" in word for word in words[:1]
        ):
            continue
        if not any(str(root) in word or word.endswith(grpc_port) for word in words):
            continue
        uids, gids = process.info["uids"], process.info["gids"]
        if uids is None:
            continue
        groups = frozenset({gids.effective}) if gids is not None else frozenset()
        name = process.info["username"] or ""
        return Reader(uids.effective, groups | _groups_of(name), name)
    return Reader(None)


def disk_of(root: Path) -> DiskFacts:
    """The file system below the repository."""
    if not root.is_dir():
        missing = next(
            (path for path in (*reversed(root.parents), root) if not path.is_dir()), root
        )
        return DiskFacts(missing=str(missing))
    try:
        usage = shutil.disk_usage(root)
        status = os.statvfs(root)
    except OSError as fault:
        return DiskFacts(missing=f"{root}: {fault.strerror}")
    return DiskFacts(
        total=usage.total,
        free=usage.free,
        inodes=status.f_files,
        free_inodes=status.f_favail,
        read_only=bool(status.f_flag & os.ST_RDONLY),
        writable=os.access(root, os.W_OK) and os.access(root.parent, os.W_OK),
    )


def driver_version() -> str:
    """The version of the NVIDIA kernel driver, "" on a machine without one."""
    try:
        found = _DRIVER_VERSION.search(_DRIVER.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[1] if found else ""


def _name_of_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return ""


def _name_of_group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""


def _groups_of(name: str) -> frozenset[int]:
    return frozenset(one.gr_gid for one in grp.getgrall() if name and name in one.gr_mem)
