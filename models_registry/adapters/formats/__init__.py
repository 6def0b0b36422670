"""What an uploaded file is, told from its content: a few bounded reads, no framework, nothing run.

The name of the file plays no part. The answer says in plain words what was seen and, where the
format is not taken, the way out. A file that lies about itself is caught later, in the sandbox.
"""

from __future__ import annotations

from pathlib import Path

from models_registry.adapters.formats import archives_seen, magic, pickled, protobuf, text
from models_registry.adapters.formats.detected import (
    ACCEPTED,
    CATBOOST,
    HEAD_BYTES,
    KERAS,
    LIGHTGBM,
    NAMES_ITS_INPUTS,
    NEEDS_CODE,
    ONNX,
    ONNX_ARCHIVE,
    SAFETENSORS,
    SKLEARN,
    SKOPS,
    TABULAR,
    TORCH_EXPORT,
    TORCH_PICKLED_MODULE,
    TORCH_STATE_DICT,
    TORCHSCRIPT,
    UNKNOWN,
    WAY_OUT,
    XGBOOST,
    Detected,
)
from models_registry.exporting.protocol import Refused

__all__ = [
    "ACCEPTED",
    "CATBOOST",
    "KERAS",
    "LIGHTGBM",
    "NAMES_ITS_INPUTS",
    "NEEDS_CODE",
    "ONNX",
    "ONNX_ARCHIVE",
    "SAFETENSORS",
    "SKLEARN",
    "SKOPS",
    "TABULAR",
    "TORCHSCRIPT",
    "TORCH_EXPORT",
    "TORCH_PICKLED_MODULE",
    "TORCH_STATE_DICT",
    "UNKNOWN",
    "XGBOOST",
    "Detected",
    "sniff",
]

_COMPRESSED_HEAD = 256 * 1024


def sniff(path: Path) -> Detected:
    """Tell what `path` is; reads a few KiB of most files, never raises on bad content.

    OSError when the file itself cannot be read.
    """
    size = path.stat().st_size
    if size == 0:
        return Detected("empty", "Empty file", "The file is empty (0 bytes).", "Upload it again.")
    try:
        return _told(path, size)
    except Refused as refused:
        known = refused.refusal
        return Detected(known.code, "Not usable", known.message, known.hint or WAY_OUT)


def _told(path: Path, size: int) -> Detected:
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return archives_seen.of_zip(path)
        if head.startswith(b"\x80") and pickled.TORCH_LEGACY in head[:24]:
            return pickled.torch_legacy(stream)
        if pickled.looks_like_pickle(head):
            return pickled.bare(stream, head)
        if head[257:262] == b"ustar":
            return archives_seen.of_tar(path)
        if (found := _compressed(path, head)) is not None:
            return found
        stream.seek(max(0, size - HEAD_BYTES))
        known = magic.by_magic(head, size, stream.read(HEAD_BYTES)) or text.xgboost_ubj(head)
        if known is not None:
            return known
        if magic.is_text(head):
            return text.told(head)
        return protobuf.told(stream, size)


def _compressed(path: Path, head: bytes) -> Detected | None:
    zlib = head[:1] == b"x" and head[1:2] in b"\x01\x5e\x9c\xda" and len(head) > 2
    packed = head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x5d\x00\x00\x80\x00"))
    if not packed and not (zlib and int.from_bytes(head[:2]) % 31 == 0):
        return None
    with path.open("rb") as stream:
        start = stream.read(_COMPRESSED_HEAD)
    found = pickled.compressed(start)
    return found or archives_seen.of_packed(path, start)
