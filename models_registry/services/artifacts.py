"""Files by their content: stored once under their SHA-256, verified when they are used."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, cast

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import FileSystemStorage, Storage, default_storage
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, ProtectedError
from django.utils import timezone

from console.errors import Conflict, Unavailable
from models_registry.models import (
    Artifact,
    LoadTest,
    ModelVersion,
    ReferenceSample,
    Upload,
    VersionFile,
)

CHUNK_BYTES = 1024**2
# What nothing refers to yet may be about to be referred to; a day is far above any transaction.
GARBAGE_AGE = timedelta(days=1)
VERSION_FILES = (
    "source", "code", "sample", "onnx", "onnx_data", "replay", "config", "report_artifact",
)  # fmt: skip


class DiskFull(Unavailable):
    """The disk has no room; the message says how much is needed. Nothing partial is left."""

    status = 507
    default_code = "disk_full"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content in hex, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def store_file(
    path: Path,
    media_type: str = "application/octet-stream",
    *,
    sha256: str = "",
    move: bool = False,
) -> Artifact:
    """Keep a file's content and give its row; the same content is kept once.

    `sha256` saves reading the file when the caller has just computed it. `move` gives the file
    away: on the storage's own file system it is renamed instead of copied. Raises DiskFull.
    """
    size = path.stat().st_size
    digest = sha256 or file_digest(path)
    draft = path
    if not (move and _on_storage(path)) and not _is_kept(digest, size):
        draft = _copy(path, digest, size)
    artifact = _settle(draft, digest, size, media_type, ours=move or draft != path)
    if move:
        path.unlink(missing_ok=True)
    return artifact


def store_bytes(data: bytes, media_type: str = "application/octet-stream") -> Artifact:
    """`store_file` for what is already in memory."""
    digest = hashlib.sha256(data).hexdigest()
    draft = _draft(digest)
    with _no_partial_file(draft, len(data)):
        draft.write_bytes(data)
    return _settle(draft, digest, len(data), media_type, ours=True)


def key_of(sha256: str) -> str:
    """The storage key of a content."""
    return f"sha256/{sha256[:2]}/{sha256}"


def open_artifact(artifact: Artifact) -> BinaryIO:
    """The content as a binary file; the caller closes it. Conflict when the storage lost it."""
    try:
        return cast(BinaryIO, default_storage.open(artifact.storage_key, "rb"))
    except FileNotFoundError as error:
        raise _missing(artifact) from error


def read_bytes(artifact: Artifact) -> bytes:
    """The whole content, verified; for small files (configuration, reports, samples)."""
    with open_artifact(artifact) as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != artifact.sha256:
        raise _mismatch(artifact, hashlib.sha256(data).hexdigest())
    return data


@contextmanager
def local_path(artifact: Artifact) -> Iterator[Path]:
    """A real file with the content: the stored one itself where the storage is a file system.

    Never write to it. With another storage it is a copy that goes when the block ends.
    """
    storage = default_storage
    if isinstance(storage, FileSystemStorage):
        path = Path(storage.path(artifact.storage_key))
        if not path.is_file():
            raise _missing(artifact)
        yield path
        return
    with scratch_folder("artifact") as folder:
        copy = folder / artifact.sha256
        with (
            _no_partial_file(copy, artifact.size),
            open_artifact(artifact) as source,
            copy.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, CHUNK_BYTES)
        yield copy


@contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """A folder under COVENANT_HOME/work that goes when the block ends."""
    folder: Path = settings.CONFIG.home / "work" / f"{name}-{uuid.uuid4().hex}"
    folder.mkdir(parents=True, mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def verify_content(artifact: Artifact) -> None:
    """Read the stored bytes again; Conflict `digest_mismatch` when they are not what was stored."""
    with open_artifact(artifact) as file:
        digest = hashlib.sha256()
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != artifact.sha256:
        raise _mismatch(artifact, digest.hexdigest())


def discard(artifact: Artifact) -> bool:
    """Delete a content now, unless something refers to it; gives whether it went."""
    return _collect(artifact.sha256, timezone.now() + GARBAGE_AGE)


def collect_garbage(*, now: datetime | None = None) -> int:
    """Delete what has had no reference for a day; gives how many contents went.

    Drafts that a crash left behind go as well.
    """
    limit = (now or timezone.now()) - GARBAGE_AGE
    references = [
        Exists(Upload.objects.filter(artifact=OuterRef("pk"))),
        Exists(LoadTest.objects.filter(report_html=OuterRef("pk"))),
        Exists(VersionFile.objects.filter(artifact=OuterRef("pk"))),
        Exists(ReferenceSample.objects.filter(artifact=OuterRef("pk"))),
        *(Exists(ModelVersion.objects.filter(**{n: OuterRef("pk")})) for n in VERSION_FILES),
    ]
    candidates = Artifact.objects.filter(created_at__lt=limit)
    for reference in references:
        candidates = candidates.filter(~reference)
    gone = sum(_collect(d, limit) for d in list(candidates.values_list("sha256", flat=True)))
    for draft in _draft_folder().iterdir():
        if draft.stat().st_mtime < limit.timestamp():
            draft.unlink(missing_ok=True)
    return gone


def _collect(digest: str, limit: datetime) -> bool:
    try:
        with transaction.atomic():
            artifact = (
                Artifact.objects.select_for_update(skip_locked=True)
                .filter(sha256=digest, created_at__lt=limit)
                .first()
            )
            if artifact is None:
                return False
            artifact.delete()
            # Inside, under the row's lock: whoever stores the same content now waits for us and
            # then writes it anew.
            default_storage.delete(artifact.storage_key)
    except (ProtectedError, IntegrityError):
        return False
    return True


def _settle(draft: Path, digest: str, size: int, media_type: str, *, ours: bool) -> Artifact:
    """Give the finished file its row and then its name.

    In this order a crash in between leaves a row without a reference, which the collector finds,
    and not a file that nobody knows of.
    """
    storage: Storage = default_storage
    artifact = _row(digest, size, media_type)
    if not _is_kept(digest, size):
        if isinstance(storage, FileSystemStorage):
            _rename(draft, Path(storage.path(artifact.storage_key)))
        else:
            with draft.open("rb") as file:
                storage.save(artifact.storage_key, File(file))
    if ours:
        draft.unlink(missing_ok=True)
    return artifact


def _row(digest: str, size: int, media_type: str) -> Artifact:
    while True:
        artifact, created = Artifact.objects.get_or_create(
            sha256=digest,
            defaults={"size": size, "media_type": media_type, "storage_key": key_of(digest)},
        )
        # Stored again is as good as new: the collector must give it another day. No row updated
        # means that the collector has just taken it.
        if created or Artifact.objects.filter(pk=artifact.pk).update(created_at=timezone.now()):
            return artifact


def _rename(draft: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = cast(FileSystemStorage, default_storage).file_permissions_mode
    if mode is not None:
        draft.chmod(mode)
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(target)


def _copy(path: Path, digest: str, size: int) -> Path:
    if not isinstance(default_storage, FileSystemStorage):
        return path
    draft = _draft(digest)
    with _no_partial_file(draft, size):
        shutil.copyfile(path, draft)
    return draft


def _is_kept(digest: str, size: int) -> bool:
    key = key_of(digest)
    return default_storage.exists(key) and default_storage.size(key) == size


def _draft(digest: str) -> Path:
    return _draft_folder() / f"{digest[:12]}-{uuid.uuid4().hex}"


def _draft_folder() -> Path:
    storage: Storage = default_storage
    root = (
        Path(storage.location) if isinstance(storage, FileSystemStorage) else settings.CONFIG.home
    )
    folder = root / "drafts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _on_storage(path: Path) -> bool:
    return path.stat().st_dev == _draft_folder().stat().st_dev


@contextmanager
def _no_partial_file(path: Path, needed: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path.parent, needed) from error
        raise


def disk_full(folder: Path, needed: int) -> DiskFull:
    """The error that says how many bytes are needed and how many are free in `folder`."""
    free = shutil.disk_usage(folder).free
    return DiskFull(
        f"The disk is full: {needed:,} bytes are needed and {free:,} are free.",
        hint="Nothing partial was kept. Make room on that disk, then go on.",
    )


def _missing(artifact: Artifact) -> Conflict:
    return Conflict(
        f"The stored file {artifact.sha256[:12]} is missing.",
        code="artifact_missing",
        hint="Restore the artifact storage from its backup; the file's name is its SHA-256.",
    )


def _mismatch(artifact: Artifact, found: str) -> Conflict:
    return Conflict(
        f"The stored file {artifact.sha256[:12]} has changed: its digest is now {found[:12]}.",
        code="digest_mismatch",
        hint="Do not use it. Restore the artifact storage from its backup.",
    )
