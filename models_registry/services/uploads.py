"""Uploads that resume (tus 1.0.0): the file's size is the truth, the row only follows it.

Bytes go straight into COVENANT_HOME/uploads/<id>, with flat memory. A killed process loses
nothing that had arrived: the next request reads the offset from the file. One request writes at a
time, held by a lock on the file, which the system lets go with its process.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from io import FileIO
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.services import audit
from models_registry.adapters import formats
from models_registry.models import Artifact, Upload, UploadState
from models_registry.rules.names import clean_filename
from models_registry.services import artifacts
from models_registry.services.upload_faults import (
    UploadBusy,
    UploadGone,
    UploadTooLarge,
    WrongOffset,
)
from models_registry.services.upload_files import (
    BUSY_SECONDS,
    Checksum,
    Source,
    append,
    upload_folder,
    upload_path,
    writing,
)

LIFETIME = timedelta(hours=24)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def create_upload(*, filename: str, length: int, sha256: str = "", actor: Actor) -> Upload:
    """Begin an upload of `length` bytes.

    Raises Invalid for a bad name, length or digest, UploadTooLarge, and DiskFull when the bytes
    could not be kept.
    """
    require(actor, "upload.create")
    name = clean_filename(filename)
    if length < 1:
        raise Invalid(
            "The file is empty (0 bytes).",
            code="empty_file",
            hint="Choose the file that holds the model.",
            errors=(FieldError("/length", "is less than 1"),),
        )
    if length > settings.MAX_UPLOAD_BYTES:
        raise UploadTooLarge(
            f"The file has {length:,} bytes; at most {settings.MAX_UPLOAD_BYTES:,} are taken.",
            hint="Upload the weights alone, without optimizer state.",
        )
    expected = sha256.strip().lower()
    if expected and not _SHA256.fullmatch(expected):
        raise Invalid(
            "sha256 is not a SHA-256 digest of 64 hex digits.",
            code="bad_sha256",
            errors=(FieldError("/sha256", "is not 64 hex digits"),),
        )
    if shutil.disk_usage(upload_folder()).free < length:
        raise artifacts.disk_full(upload_folder(), length)
    with transaction.atomic():
        upload = Upload.objects.create(
            owner=actor.user,
            filename=name,
            length=length,
            expected_sha256=expected,
            expires_at=timezone.now() + LIFETIME,
        )
        audit.record(
            actor=actor,
            action="upload.create",
            subject=f"upload {upload.pk}",
            after={"filename": name, "length": length},
        )
    return upload


def receive(
    *,
    upload_id: uuid.UUID,
    offset: int,
    source: Source,
    actor: Actor,
    checksum: Checksum | None = None,
) -> Upload:
    """Append what `source` gives at `offset`; the last byte completes the upload.

    When the sender goes away what had arrived is kept (with a checksum: nothing, since it cannot
    be checked). Raises WrongOffset, UploadBusy, ChecksumMismatch, DiskFull, Invalid for bytes
    beyond the length; then nothing of the chunk is kept.
    """
    require(actor, "upload.create")
    upload = find_upload(upload_id=upload_id, actor=actor)
    with _writing(upload) as file:
        upload.refresh_from_db()
        _check_receiving(upload)
        start = file.seek(0, 2)
        if offset != start:
            raise WrongOffset(
                f"The chunk begins at byte {offset:,}, but {start:,} bytes have arrived.",
                hint="Ask where to go on (HEAD) and send the rest from there.",
            )
        _release_connection()
        end = append(file, upload.filename, upload.length, start, source, checksum)
        upload.offset, upload.expires_at = end, timezone.now() + LIFETIME
        upload.save(update_fields=["offset", "expires_at"])
        if end == upload.length:
            _complete(upload, actor)
    return upload


def find_upload(*, upload_id: uuid.UUID, actor: Actor) -> Upload:
    """One's own upload with the offset as it is now. NotFound, or UploadGone once it expired."""
    upload = (
        Upload.objects.filter(pk=upload_id, owner=actor.user).select_related("artifact").first()
    )
    if upload is None:
        raise NotFound(
            "There is no such upload of yours.",
            code="upload_not_found",
            hint="Uploads are kept for a day. Upload the file again.",
        )
    if upload.expires_at < timezone.now():
        raise UploadGone("This upload has expired.", hint="Upload the file again.")
    if upload.state == UploadState.RECEIVING:
        upload.offset = _size(upload)
    return upload


def completed(*, upload_id: uuid.UUID, actor: Actor) -> Upload:
    """One's own upload once it is complete, for use; its `artifact` is set.

    Raises NotFound, Conflict (`upload_incomplete`) while bytes are missing, Invalid
    (`upload_refused`) when the content was refused.
    """
    upload = find_upload(upload_id=upload_id, actor=actor)
    if upload.state == UploadState.RECEIVING and upload.offset == upload.length:
        # The process died between the last byte and the check of the whole.
        with _writing(upload):
            upload.refresh_from_db()
            if upload.state == UploadState.RECEIVING:
                _complete(upload, actor)
    if upload.state == UploadState.REFUSED:
        raise Invalid(upload.refusal, code="upload_refused", hint="Upload the file again.")
    if upload.state == UploadState.RECEIVING:
        raise Conflict(
            f"{upload.filename} is not complete: {upload.offset:,} of {upload.length:,} bytes.",
            code="upload_incomplete",
            hint="Go on with the upload, then create the version.",
        )
    return upload


def refuse_upload(*, upload: Upload, reason: str, actor: Actor) -> None:
    """Refuse a complete upload for its content and drop the content; its next use says why."""
    with transaction.atomic():
        upload.state, upload.refusal = UploadState.REFUSED, reason
        artifact, upload.artifact = upload.artifact, None
        upload.save(update_fields=["state", "refusal", "artifact"])
        audit.record(
            actor=actor,
            action="upload.refuse",
            subject=f"upload {upload.pk}",
            after={"filename": upload.filename},
            reason=reason,
        )
    if artifact is not None:
        artifacts.discard(artifact)


def terminate_upload(*, upload_id: uuid.UUID, actor: Actor) -> None:
    """Give up an upload: its row and bytes go. What a version already uses stays."""
    require(actor, "upload.create")
    upload = find_upload(upload_id=upload_id, actor=actor)
    with _writing(upload), transaction.atomic():
        audit.record(
            actor=actor,
            action="upload.terminate",
            subject=f"upload {upload.pk}",
            before={"filename": upload.filename, "offset": upload.offset},
        )
        upload.delete()


def expire_uploads(*, now: datetime) -> int:
    """Remove uploads whose time is over, and files that no row knows; gives how many went."""
    gone = 0
    for upload in Upload.objects.filter(expires_at__lt=now):
        try:
            with _writing(upload, wait=0):
                upload.refresh_from_db()
                if upload.expires_at >= now:
                    continue
                upload.delete()
        except UploadBusy:
            continue
        gone += 1
    for path in upload_folder().iterdir():
        old = path.stat().st_mtime < (now - LIFETIME).timestamp()
        if old and not Upload.objects.filter(pk=path.name, state=UploadState.RECEIVING).exists():
            path.unlink(missing_ok=True)
    return gone


@contextmanager
def _writing(upload: Upload, *, wait: float = BUSY_SECONDS) -> Iterator[FileIO]:
    """The upload's file, for us alone; it goes once the upload is not receiving any more."""
    with writing(upload_path(upload.pk), upload.filename, wait=wait) as file:
        path = Path(str(file.name))
        try:
            yield file
        finally:
            if upload.pk is None or upload.state != UploadState.RECEIVING:
                path.unlink(missing_ok=True)


def _size(upload: Upload) -> int:
    try:
        return min(upload_path(upload.pk).stat().st_size, upload.length)
    except FileNotFoundError:
        return 0


def _check_receiving(upload: Upload) -> None:
    if upload.state == UploadState.REFUSED:
        raise Invalid(upload.refusal, code="upload_refused", hint="Upload the file again.")
    if upload.state == UploadState.COMPLETE:
        raise WrongOffset(
            f"{upload.filename} is complete already ({upload.length:,} bytes).",
            hint="Nothing is left to send.",
        )


def _release_connection() -> None:
    """Give the database connection back while bytes arrive: slow senders must not hold them all."""
    if not connection.in_atomic_block:
        connection.close()


def _complete(upload: Upload, actor: Actor) -> None:
    """Check the whole, find out what it is, and keep it under its digest."""
    path = upload_path(upload.pk)
    sha256 = artifacts.file_digest(path)
    if upload.expected_sha256 and sha256 != upload.expected_sha256:
        reason = (
            f"{upload.filename} did not arrive as it was announced: its SHA-256 is "
            f"{sha256[:12]}…, not {upload.expected_sha256[:12]}…."
        )
        refuse_upload(upload=upload, reason=reason, actor=actor)
        raise Invalid(reason, code="digest_mismatch", hint="Upload the file again.")
    upload.detected_format = formats.sniff(path).format
    artifact = artifacts.store_file(path, sha256=sha256, move=True)
    with transaction.atomic():
        _mark_complete(upload, artifact, actor)


def _mark_complete(upload: Upload, artifact: Artifact, actor: Actor) -> None:
    upload.state, upload.artifact, upload.offset = UploadState.COMPLETE, artifact, upload.length
    upload.save(update_fields=["state", "artifact", "offset", "detected_format"])
    audit.record(
        actor=actor,
        action="upload.complete",
        subject=f"upload {upload.pk}",
        after={
            "filename": upload.filename,
            "sha256": artifact.sha256,
            "format": upload.detected_format,
        },
    )
