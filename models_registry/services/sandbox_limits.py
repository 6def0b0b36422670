"""How much a sandboxed program may use: enough for the model at hand, never the whole machine."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil
from django.conf import settings

from models_registry.adapters.bubblewrap import GIB, MIB, Limits
from models_registry.exporting import archives, protocol

MACHINE_SHARE = 0.85
SECONDS_PER_GIB = 240
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")


def limits_for(files: Mapping[str, Path], *, base: Limits | None = None) -> Limits:
    """The limits of a run that opens these files (by their names in the protocol).

    Memory for about three times the model and 1 to 3 GiB: while a graph is checked and loaded
    its weights are there as read, as parsed and as packed for running. Bounded by
    COVENANT_SANDBOX_MEMORY, or by most of the machine.
    """
    base = base or Limits()
    size = model_bytes(files)
    # What lies in the graph's own message is parsed by Python and by the checker as well:
    # validating 0.9 GiB of it took 4.3 GiB.
    wanted = 3 * size + 2 * min(size, protocol.INLINE_BYTES) + GIB
    more_seconds = int(SECONDS_PER_GIB * size / GIB)
    return replace(
        base,
        wall_seconds=base.wall_seconds + more_seconds,
        cpu_seconds=base.cpu_seconds + more_seconds,
        memory_bytes=min(max(base.memory_bytes, wanted), most_memory()),
        file_bytes=max(base.file_bytes, 2 * size),
        disk_bytes=max(base.disk_bytes, 4 * size + GIB),
        tmp_bytes=min(max(base.tmp_bytes, size // 8), GIB),
    )


def most_memory() -> int:
    """Bytes that no sandbox gets more of."""
    set_by_hand = int(settings.CONFIG.sandbox_memory_mib) * MIB
    return set_by_hand or int(MACHINE_SHARE * psutil.virtual_memory().total)


def model_bytes(files: Mapping[str, Path]) -> int:
    """Bytes of the model when unpacked: of its source with what lies beside it, or of the export.

    Both are never open in one process.
    """
    source = sum(
        _unpacked(path)
        for name, path in files.items()
        if name == protocol.SOURCE or name.startswith(protocol.BESIDE)
    )
    exported = sum(
        path.stat().st_size
        for name, path in files.items()
        if name in (protocol.MODEL, protocol.MODEL_DATA)
    )
    return max(source, exported)


def _unpacked(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(_COMPRESSED):
        return 2 * size  # weights hardly compress; what unpacks to more meets the disk limit
    if not head.startswith(b"PK"):
        return size
    try:
        with archives.open_zip(path) as archive:
            declared = sum(info.file_size for info in archive.infolist())
            return min(max(size, declared), 3 * size + GIB)
    except (protocol.Refused, zipfile.BadZipFile):
        return size
