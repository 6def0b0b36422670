"""Why an upload cannot go on, each with the status that tus 1.0.0 gives it."""

from __future__ import annotations

from console.errors import Conflict, Invalid, NotFound


class ChecksumMismatch(Invalid):
    """The chunk did not arrive as it was sent; nothing of it was kept."""

    status = 460
    default_code = "checksum_mismatch"


class UploadTooLarge(Invalid):
    """More bytes than this installation takes."""

    status = 413
    default_code = "upload_too_large"


class UploadBusy(Conflict):
    """Another request is writing to this upload."""

    status = 423
    default_code = "upload_busy"


class UploadGone(NotFound):
    """The upload has expired."""

    status = 410
    default_code = "upload_expired"


class WrongOffset(Conflict):
    """The chunk does not begin where the upload ends."""

    default_code = "wrong_offset"
