"""The bytes of an upload on disk: one file, one writer at a time, flat memory."""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import hashlib
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from os import fsync
from pathlib import Path
from typing import Protocol

from django.conf import settings

from console.errors import Invalid
from models_registry.services import artifacts
from models_registry.services.upload_faults import ChecksumMismatch, UploadBusy

CHUNK_BYTES = 1024**2
BUSY_SECONDS = 5.0
CHECKSUMS = ("sha256", "sha1")


class Source(Protocol):
    """Where a chunk is read from: at most `size` bytes, b"" at the end."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Checksum:
    """What the sender says the chunk's digest is."""

    algorithm: str
    digest: bytes

    @classmethod
    def parse(cls, header: str) -> Checksum:
        """The header `Upload-Checksum: sha256 <base64>`. Raises Invalid."""
        algorithm, _, encoded = header.strip().partition(" ")
        try:
            digest = base64.b64decode(encoded.strip(), validate=True)
        except (binascii.Error, ValueError):
            digest = b""
        if algorithm not in CHECKSUMS or not digest:
            raise Invalid(
                f"Upload-Checksum “{header[:80]}” is not understood.",
                code="bad_checksum_header",
                hint=f"Use one of {', '.join(CHECKSUMS)}, a space, and the digest in base64.",
            )
        return cls(algorithm, digest)


def upload_path(upload_id: uuid.UUID) -> Path:
    """Where the bytes lie until the upload is complete; never built from the file's name."""
    return upload_folder() / str(upload_id)


def upload_folder() -> Path:
    """The folder of all uploads under way; only this user may look into it."""
    folder: Path = settings.UPLOAD_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def writing(path: Path, filename: str, *, wait: float = BUSY_SECONDS) -> Iterator[FileIO]:
    """The file, open for appending by us alone; UploadBusy after `wait` seconds.

    The lock belongs to the open file, so the system lets it go with the process that held it.
    """
    with FileIO(path, "a") as file:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise UploadBusy(
                        f"Another request is writing to {filename}.",
                        hint="Try again in a few seconds.",
                    ) from None
            time.sleep(0.05)
        yield file


def append(
    file: FileIO,
    filename: str,
    length: int,
    start: int,
    source: Source,
    checksum: Checksum | None,
) -> int:
    """Write the chunk at `start`, the file's end, and give where it ends.

    When the sender goes away what had arrived stays, unless there is a checksum for the whole
    chunk. On any other fault the file is as it was before.
    """
    digest = hashlib.new(checksum.algorithm, usedforsecurity=False) if checksum else None
    position, intact = start, True
    try:
        while True:
            try:
                piece = source.read(CHUNK_BYTES)
            except OSError:
                # The sender is gone.
                intact = False
                break
            if not piece:
                break
            if position + len(piece) > length:
                raise Invalid(
                    f"{filename} was announced with {length:,} bytes, but more came.",
                    code="beyond_length",
                    hint="Create a new upload with the right length.",
                )
            _write(file, piece)
            position += len(piece)
            if digest is not None:
                digest.update(piece)
        if checksum and digest and (not intact or digest.digest() != checksum.digest):
            raise ChecksumMismatch(
                "The chunk did not arrive as it was sent: its checksum differs.",
                hint="Send the same chunk again.",
            )
        fsync(file.fileno())
    except OSError as error:
        file.truncate(start)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise artifacts.disk_full(upload_folder(), length - start) from error
        raise
    except Invalid:
        file.truncate(start)
        raise
    return position


def _write(file: FileIO, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]
