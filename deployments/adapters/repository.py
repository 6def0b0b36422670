"""A node's Triton model repository on its disk: whole versions appear and disappear, never halves.

Files are gathered in a staging folder beside the repository (same disk), checked, flushed, and
moved in by one rename. Triton reads only what was renamed.

    <home>/repository/<triton model>/config.pbtxt
    <home>/repository/<triton model>/warmup/<input>
    <home>/repository/<triton model>/<version>/model.onnx
    <home>/repository/<triton model>/<version>/model.onnx.data   (weights of a large model)
    <home>/staging/<random>/…
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from console.errors import Conflict, Invalid, Unavailable

CONFIG = "config.pbtxt"
STAGING = "staging"
SPARE_BYTES = 64 * 1024 * 1024
"""Left free on the disk: a full disk hurts what serves."""

_CHUNK = 1024 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}\Z")

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file to place: where it goes below its folder, where its bytes are, what they must be."""

    path: str
    source: Path | bytes
    sha256: str
    size: int

    @classmethod
    def of_bytes(cls, path: str, data: bytes) -> FilePart:
        """A part whose bytes are at hand, and are what they should be."""
        return cls(path, data, hashlib.sha256(data).hexdigest(), len(data))


@dataclass(frozen=True, slots=True)
class Placed:
    """What was new; both False when everything stood there already."""

    created_model: bool
    created_version: bool


@dataclass(frozen=True, slots=True, order=True)
class PresentVersion:
    triton_model: str
    version: int


@dataclass(frozen=True, slots=True)
class SetAside:
    """A version moved out of the repository, not yet deleted."""

    path: Path
    origin: Path


def place(
    root: Path,
    *,
    triton_model: str,
    version: int,
    config: Sequence[FilePart],
    files: Sequence[FilePart],
    progress: Progress | None = None,
) -> Placed:
    """Put a version into the repository at `root`; safe to run again after any interruption.

    `config` holds `config.pbtxt` and the warm-up files; it is written only with a new Triton
    model, since any change of a serving model's config would reload all of its versions.
    `progress(done, total)` is told of the bytes; what it raises ends the placement, and nothing
    stays behind.

    Raises Invalid `digest_mismatch`; Conflict `config_differs` or `files_differ` when something
    else stands there already; Unavailable `disk_full`, which says the space needed.
    """
    _check_names(triton_model, version, [*config, *files])
    model_folder = root / triton_model
    target = model_folder / str(version)
    _check_config(model_folder, config)
    if target.exists():
        verify(root, triton_model, version, files)
        return Placed(created_model=False, created_version=False)
    new_model = not model_folder.exists()
    parts = [(PurePosixPath(str(version)) / part.path, part) for part in files]
    if new_model:
        parts = [*((PurePosixPath(part.path), part) for part in config), *parts]
    with _staging(root, sum(part.size for _, part in parts)) as staged:
        _write_all(staged, parts, progress)
        source = staged if new_model else staged / str(version)
        moved = _rename(source, model_folder if new_model else target)
    if not moved:
        # Another attempt was quicker; what it placed must be what this one would have.
        return place(root, triton_model=triton_model, version=version, config=config, files=files)
    return Placed(created_model=new_model, created_version=True)


def verify(root: Path, triton_model: str, version: int, files: Sequence[FilePart]) -> None:
    """Compare every file of a placed version with what it must be.

    Raises Conflict `files_differ` at the first that differs, is missing, or is too many.
    """
    folder = root / triton_model / str(version)
    wanted = {part.path: part.sha256 for part in files}
    for path, fault in _differences(folder, wanted):
        raise _differs(folder / path, fault)


def differences(
    root: Path,
    triton_model: str,
    version: int,
    *,
    config: Mapping[str, str],
    files: Mapping[str, str],
    check: Callable[[], None] = lambda: None,
) -> list[str]:
    """Everything that is not as it was signed, in words; empty when all is.

    `config` and `files` map paths, in the Triton model's folder and in the version's, to SHA-256
    digests in hex. `check` is called between files and may raise to stop.
    """
    model_folder = root / triton_model
    found = []
    for path, sha256 in config.items():
        check()
        digest = _digest(model_folder / path)
        if digest != sha256:
            fault = "is missing" if digest is None else "is not the file that was signed"
            found.append(f"{triton_model}/{path} {fault}")
    for path, fault in _differences(model_folder / str(version), files):
        found.append(f"{triton_model}/{version}/{path} {fault}")
        check()
    return found


def _differences(folder: Path, wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # A link is no file of ours, wherever it leads.
    present = {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}
    for path in sorted(present ^ set(wanted)):
        yield path, "is missing" if path not in present else "does not belong there"
    for path in sorted(present & set(wanted)):
        if (folder / path).is_symlink() or _digest(folder / path) != wanted[path]:
            yield path, "is not the file that was signed"


def config_text(root: Path, triton_model: str) -> str | None:
    """The `config.pbtxt` of a Triton model; None when it is not there."""
    try:
        return (root / triton_model / CONFIG).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None


def present(root: Path) -> tuple[PresentVersion, ...]:
    """Every version that stands in the repository, by name and number."""
    found = (
        PresentVersion(folder.name, int(entry.name))
        for folder in _folders(root)
        if (folder / CONFIG).is_file()
        for entry in _folders(folder)
        if entry.name.isdecimal()
    )
    return tuple(sorted(found))


def set_aside(root: Path, triton_model: str, version: int) -> SetAside | None:
    """Move a version out of the repository by one rename; None when it is not there.

    Load the model in Triton next, which drops the version; then `discard`, or `put_back`.
    """
    _check_names(triton_model, version, [])
    return _move_away(root, root / triton_model / str(version))


def put_back(aside: SetAside) -> None:
    """Undo `set_aside`. Raises Conflict when something stands in its place by now."""
    if not _rename(aside.path, aside.origin):
        raise Conflict(f"{aside.origin} exists again.", code="files_differ")


def discard(aside: SetAside) -> None:
    """Delete what was set aside; what is gone already is no error."""
    shutil.rmtree(aside.path, ignore_errors=True)


def remove_version(root: Path, triton_model: str, version: int) -> bool:
    """Take a version out of the repository and delete it; False when it was not there."""
    aside = set_aside(root, triton_model, version)
    if aside is not None:
        discard(aside)
    return aside is not None


def remove_model(root: Path, triton_model: str) -> bool:
    """Take a Triton model with its config out of the repository and delete it.

    Returns False when it was not there. Raises Conflict while it still has versions.
    """
    _check_names(triton_model, 1, [])
    if any(found.triton_model == triton_model for found in present(root)):
        raise Conflict(
            f"{triton_model} still has versions in the model repository.",
            code="versions_present",
            hint="Unload its versions first.",
        )
    aside = _move_away(root, root / triton_model)
    if aside is not None:
        discard(aside)
    return aside is not None


def clean(root: Path, *, older_than_s: float, now: float) -> int:
    """Delete what interrupted attempts left in staging longer ago than that; returns how many.

    `now` is in seconds of the clock that dates files (`time.time()`).
    """
    count = 0
    for leftover in _folders(root.parent / STAGING):
        if now - leftover.stat().st_mtime > older_than_s:
            shutil.rmtree(leftover, ignore_errors=True)
            count += 1
    return count


@contextmanager
def _staging(root: Path, size: int) -> Iterator[Path]:
    """A fresh folder beside the repository, gone afterwards whatever happened."""
    parent = root.parent / STAGING
    try:
        root.mkdir(parents=True, exist_ok=True)
        parent.mkdir(exist_ok=True)
    except OSError as fault:
        raise _unwritable(fault) from fault
    free = shutil.disk_usage(parent).free
    if free < size + SPARE_BYTES:
        raise _disk_full(parent, size, free)
    folder = parent / uuid.uuid4().hex
    folder.mkdir()
    try:
        yield folder
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(parent, size, shutil.disk_usage(parent).free) from fault
        raise _unwritable(fault) from fault
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_all(
    folder: Path, parts: Sequence[tuple[PurePosixPath, FilePart]], progress: Progress | None
) -> None:
    total = sum(part.size for _, part in parts)
    done = 0
    for path, part in parts:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        done = _write(target, part, done, total, progress)
    for directory in {folder, *(p for p in folder.rglob("*") if p.is_dir())}:
        directory.chmod(0o755)
        _flush(directory)


def _write(target: Path, part: FilePart, done: int, total: int, progress: Progress | None) -> int:
    digest = hashlib.sha256()
    with _open(part) as source, target.open("xb") as out:
        while chunk := source.read(_CHUNK):
            out.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(min(done, total), total)
        out.flush()
        os.fsync(out.fileno())
    target.chmod(0o644)
    if digest.hexdigest() != part.sha256:
        raise Invalid(
            f"The file {part.path} has the digest {digest.hexdigest()[:12]}…, "
            f"{part.sha256[:12]}… was signed.",
            code="digest_mismatch",
            hint="The stored file was changed or damaged. Restore it, or release a new version.",
        )
    return done


def _open(part: FilePart) -> BinaryIO:
    if not isinstance(part.source, Path):
        return io.BytesIO(part.source)
    try:
        return part.source.open("rb")
    except OSError as fault:
        raise Unavailable(
            f"The stored file {part.source} cannot be read: {fault.strerror}.",
            code="source_unreadable",
            hint="Check that the storage is mounted on this node.",
        ) from fault


def _rename(source: Path, target: Path) -> bool:
    """Rename a folder to a free name; False when the name is taken."""
    if target.exists():
        return False
    try:
        source.rename(target)
    except OSError as fault:
        if fault.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        raise
    _flush(target.parent)
    return True


def _move_away(root: Path, folder: Path) -> SetAside | None:
    parent = root.parent / STAGING
    parent.mkdir(exist_ok=True)
    aside = SetAside(parent / uuid.uuid4().hex, folder)
    try:
        folder.rename(aside.path)
    except FileNotFoundError:
        return None
    # Its age in staging counts from now, not from when it was placed.
    os.utime(aside.path)
    _flush(folder.parent)
    return aside


def _check_config(model_folder: Path, config: Sequence[FilePart]) -> None:
    if not config or config[0].path != CONFIG:
        raise Invalid("A placement begins with its config.pbtxt.", code="config_missing")
    if model_folder.exists() and _digest(model_folder / CONFIG) != config[0].sha256:
        raise Conflict(
            f"{model_folder.name} is here with another config.pbtxt, which is never rewritten.",
            code="config_differs",
            hint="Place the version under the next generation's name.",
        )


def _check_names(triton_model: str, version: int, parts: Sequence[FilePart]) -> None:
    if not _NAME.match(triton_model) or version < 1:
        raise Invalid(
            f"{triton_model!r}/{version} is no name of a Triton model.", code="invalid_name"
        )
    for part in parts:
        path = PurePosixPath(part.path)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in part.path:
            raise Invalid(f"{part.path!r} leads out of the version's folder.", code="invalid_name")


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as source:
            return hashlib.file_digest(source, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _folders(root: Path) -> list[Path]:
    return sorted(entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def _flush(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _differs(path: Path, fault: str) -> Conflict:
    return Conflict(
        f"{path} {fault}.",
        code="files_differ",
        hint="Somebody changed the model repository by hand. Unload the version, then deploy it.",
    )


def _unwritable(fault: OSError) -> Unavailable:
    return Unavailable(
        f"The model repository cannot be written: {fault}.",
        code="repository_unwritable",
        hint="Check the folder's owner and its disk.",
        retryable=False,
    )


def _disk_full(folder: Path, size: int, free: int) -> Unavailable:
    needed = size + SPARE_BYTES
    return Unavailable(
        f"The disk of {folder} is too full: {_mib(needed)} are needed, {_mib(free)} are free.",
        code="disk_full",
        hint=f"Free at least {_mib(max(needed - free, 0))} on the node, or unload old versions.",
        retryable=False,
    )


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.0f} MiB"
