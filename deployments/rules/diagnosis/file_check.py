"""Whether the user that runs Triton may read what lies in the repository, and is there room."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deployments.rules.diagnosis.findings import Finding

SPARE_BYTES = 64 * 1024 * 1024
"""Kept free by a placement (deployments.adapters.repository)."""

NEARLY_FULL = 0.05
"""A share of free bytes, or of free inodes, below which it is told."""


@dataclass(frozen=True, slots=True)
class PathFacts:
    """One file or folder on the way to the model: mode as `st_mode`, owner and group by number."""

    path: str
    mode: int
    uid: int
    gid: int
    owner: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """The user that Triton runs as; `uid` None where its process is not seen from here."""

    uid: int | None
    gids: frozenset[int] = frozenset()
    name: str = ""


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The file system of the repository; sizes in bytes. `missing` says what is not there."""

    total: int = 0
    free: int = 0
    inodes: int = 0
    free_inodes: int = 0
    read_only: bool = False
    writable: bool = True
    missing: str = ""


def check(
    paths: Sequence[PathFacts], reader: Reader, disk: DiskFacts, *, needed: int, on_node: bool
) -> list[Finding]:
    """What of owners, modes and space keeps Triton from the files; `needed` bytes to place them."""
    if disk.missing:
        return [Finding("repository_missing", "bad", {"path": disk.missing})]
    found = [*_access(paths, reader), *_space(disk, needed, on_node=on_node)]
    if not on_node:
        found.append(Finding("not_on_node", "good"))
    if not any(one.verdict == "bad" for one in found):
        who = reader.name or (str(reader.uid) if reader.uid is not None else "")
        data = {"paths": len(paths), "free": disk.free, "user": who}
        found.append(Finding("files_readable" if who else "files_open", "good", data))
    return found


def may_read(facts: PathFacts, reader: Reader) -> bool:
    """Whether the reader opens this file, or passes this folder; root may everything.

    Plain modes only: access control lists are not looked at.
    """
    if reader.uid == 0:
        return True
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(facts.mode) else stat.S_IROTH
    if reader.uid is None:
        # Nobody known: what everybody may read is safe to say.
        return facts.mode & needed == needed
    if facts.uid == reader.uid:
        needed <<= 6
    elif facts.gid in reader.gids:
        needed <<= 3
    return facts.mode & needed == needed


def _access(paths: Sequence[PathFacts], reader: Reader) -> Iterator[Finding]:
    listing = "\n".join(
        f"{stat.filemode(one.mode)}  {one.owner or one.uid}:{one.group or one.gid}  {one.path}"
        for one in paths
    )
    for one in paths:
        if may_read(one, reader):
            continue
        data = {
            "path": one.path,
            "mode": stat.filemode(one.mode),
            "owner": one.owner or str(one.uid),
            "user": reader.name or (str(reader.uid) if reader.uid is not None else ""),
        }
        known = reader.uid is not None
        yield Finding(
            "not_readable" if known else "perhaps_unreadable",
            "bad" if known else "warn",
            data,
            listing,
        )


def _space(disk: DiskFacts, needed: int, *, on_node: bool) -> Iterator[Finding]:
    lacking = needed + SPARE_BYTES - disk.free
    if disk.read_only or not disk.writable:
        yield Finding("repository_unwritable", "warn" if on_node else "bad")
    if lacking > 0 and not on_node:
        yield Finding("disk_full", "bad", {"needed": needed, "free": disk.free, "lacking": lacking})
    elif disk.total and disk.free < NEARLY_FULL * disk.total:
        yield Finding("disk_nearly_full", "warn", {"free": disk.free, "total": disk.total})
    if disk.inodes and disk.free_inodes == 0:
        yield Finding("inodes_gone", "bad")
    elif disk.inodes and disk.free_inodes < NEARLY_FULL * disk.inodes:
        yield Finding("inodes_few", "warn", {"free": disk.free_inodes})
