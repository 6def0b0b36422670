"""Zip and tar archives from strangers: look inside and unpack within limits.

Sizes are counted while bytes are read, never believed; names that leave the folder, links and
special files are refused. Standard library only.
"""

from __future__ import annotations

import errno
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from models_registry.exporting.protocol import Refused

MIB: Final = 1 << 20
MAX_MEMBERS: Final = 20_000
MAX_DIRECTORY_BYTES: Final = 16 * MIB
_BAD_NAME: Final = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EILSEQ}
_NO_SPACE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ENCRYPTED: Final = 0x1  # general purpose bit 0 (APPNOTE.TXT 4.4.4)
COUNTED_BYTES: Final = 256 * MIB


@dataclass(frozen=True, slots=True)
class Bounds:
    """Members, and bytes after unpacking, that are taken."""

    members: int = 1_000
    total_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class Member:
    """One file in an archive; `compressed`: it may unpack to more than is stored."""

    name: str
    size: int
    compressed: bool


def is_safe(name: str) -> bool:
    """Whether a member's name stays inside the folder that it is unpacked to."""
    path = PurePosixPath(name.replace("\\", "/"))
    return (
        not path.is_absolute() and ".." not in path.parts and ":" not in name and "\0" not in name
    )


def zip_directory_bytes(stream: IO[bytes], size: int) -> int:
    """Length of a zip's central directory as its end record says; -1 when there is no end record.

    Looked at before `zipfile` reads the whole directory into memory. (APPNOTE.TXT 4.3.14, 4.3.16)
    """
    tail = min(size, 65_557)
    stream.seek(size - tail)
    data = stream.read(tail)
    at = data.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(data):
        return -1
    length = int(struct.unpack_from("<I", data, at + 12)[0])
    at64 = data.rfind(b"PK\x06\x06", 0, at)
    if length == 0xFFFFFFFF and at64 >= 0 and at64 + 48 <= len(data):
        length = int(struct.unpack_from("<Q", data, at64 + 40)[0])
    return length


@contextmanager
def open_zip(path: Path | IO[bytes]) -> Iterator[zipfile.ZipFile]:
    """A zip whose directory is small enough to read; `Refused` when it is not a sound zip."""
    try:
        with path.open("rb") if isinstance(path, Path) else nullcontext(path) as stream:
            length = zip_directory_bytes(stream, stream.seek(0, io.SEEK_END))
        if length > MAX_DIRECTORY_BYTES:
            raise Refused(
                "archive_too_large",
                f"The archive lists more files than can be taken ({length} bytes of names).",
                "Upload the model file alone.",
            )
        with zipfile.ZipFile(path) as archive:
            if len(archive.filelist) > MAX_MEMBERS:
                raise Refused(
                    "archive_too_large",
                    f"The archive holds {len(archive.filelist)} files; at most "
                    f"{MAX_MEMBERS} are taken.",
                    "Upload the model file alone.",
                )
            if any(info.flag_bits & _ENCRYPTED for info in archive.filelist):
                raise Refused(
                    "archive_encrypted",
                    "The archive is protected by a password.",
                    "Make it again without one: what it holds is read before anybody approves it.",
                )
            yield archive
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        EOFError,
        RuntimeError,
        zlib.error,
        struct.error,
        UnicodeDecodeError,
    ) as error:
        raise Refused(
            "archive_damaged",
            f"The file starts like a zip archive but cannot be read as one ({error}).",
            "It is probably cut off: save it again, compare its SHA-256, and upload it once more.",
        ) from error


def refuse_unsafe_names(names: list[str]) -> None:
    """Raise `Refused` for the first name that would be written outside its folder."""
    for name in names:
        if not is_safe(name):
            raise Refused(
                "archive_unsafe",
                f"The archive has a file that would be written outside its folder: {name[:200]!r}.",
                "Make the archive again from inside the model's folder, with plain relative names.",
            )


def count_inflated(archive: zipfile.ZipFile, *, limit: int) -> int:
    """Bytes that all members give when unpacked; stops counting once beyond `limit`.

    Of a large archive what the members declare is taken: unpacking never reads beyond that, and
    counts again. Inflating gigabytes here would hold up whoever uploads them.
    """
    members = archive.infolist()
    if sum(info.compress_size for info in members) > COUNTED_BYTES:
        return sum(info.file_size for info in members)
    total = 0
    for info in members:
        if info.compress_type == zipfile.ZIP_STORED:
            total += info.compress_size
            continue
        with archive.open(info) as stream:
            while chunk := stream.read(MIB):
                total += len(chunk)
                if total > limit:
                    return total
    return total


def members(path: Path) -> list[Member]:
    """All files in a zip or tar; `Refused` for unsafe names, links and damaged archives."""
    if zipfile.is_zipfile(path):
        with open_zip(path) as archive:
            found = [
                Member(info.filename, info.file_size, info.compress_type != zipfile.ZIP_STORED)
                for info in archive.infolist()
                if not info.is_dir()
            ]
    else:
        found = [Member(info.name, info.size, True) for _, info in _tar_files(path)]
    refuse_unsafe_names([member.name for member in found])
    return found


@contextmanager
def _sound_tar() -> Iterator[None]:
    """Say what a damaged tar raises while it is walked and read; a full disk is none of that."""
    try:
        yield
    except (
        tarfile.TarError,
        EOFError,
        ValueError,
        OverflowError,
        zlib.error,
        lzma.LZMAError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            raise
        raise Refused(
            "archive_damaged",
            f"The archive cannot be read ({error}).",
            "Make the archive again and upload it once more.",
        ) from error


def _tar_files(
    path: Path, budget: int = 512 * MIB
) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Walk a tar; the walk inflates what it skips, so it is bounded by `budget` bytes."""
    with _sound_tar(), tarfile.open(path, "r:*") as archive:
        for number, info in enumerate(archive):
            if number >= MAX_MEMBERS or info.offset_data + info.size > budget:
                raise Refused(
                    "archive_too_large",
                    f"The archive unpacks to more than {budget // MIB} MiB or {MAX_MEMBERS} files.",
                    "Upload the model file alone, or as a zip archive.",
                )
            if info.isdir():
                continue
            if not info.isfile() or info.size < 0:
                raise Refused(
                    "archive_unsafe",
                    f"The archive has a link or a special file: {info.name[:200]!r}.",
                    "Pack plain files only.",
                )
            yield archive, info


def _new_file(into: Path, name: str) -> IO[bytes]:
    target = into / PurePosixPath(name.replace("\\", "/"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb")
    except FileExistsError as error:
        raise Refused("archive_unsafe", f"The archive holds {name[:200]!r} twice.") from error
    except OSError as error:
        if error.errno not in _BAD_NAME:
            raise
        raise Refused(
            "archive_unsafe",
            f"The archive has a file that cannot be written: {name[:200]!r} ({error.strerror}).",
            "Make the archive again with short names, none of which is a file and a folder.",
        ) from error


def extract(
    path: Path, into: Path, bounds: Bounds, wanted: Callable[[str], bool] | None = None
) -> list[Path]:
    """Unpack a zip or tar into `into`; returns the files. `Refused` on anything out of bounds.

    Only members whose names are `wanted` are written; the names of all are checked.
    """
    budget = bounds.total_bytes
    written: list[Path] = []

    def keep(name: str, stream: IO[bytes]) -> None:
        nonlocal budget
        if len(written) >= bounds.members:
            raise Refused(
                "archive_too_large", f"The archive holds more than {bounds.members} files."
            )
        refuse_unsafe_names([name])
        if wanted is not None and not wanted(name):
            return
        with _new_file(into, name) as out:
            while chunk := stream.read(MIB):
                budget -= len(chunk)
                if budget < 0:
                    raise Refused(
                        "archive_too_large",
                        f"The archive unpacks to more than {bounds.total_bytes // MIB} MiB.",
                        "Pack only what the model needs.",
                    )
                out.write(chunk)
        written.append(Path(out.name))

    if zipfile.is_zipfile(path):
        with open_zip(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    with archive.open(info) as stream:
                        keep(info.filename, stream)
    else:
        with _sound_tar():
            for tar, entry in _tar_files(path, budget=bounds.total_bytes):
                source = tar.extractfile(entry)
                if source is not None:
                    keep(entry.name, source)
    return written
