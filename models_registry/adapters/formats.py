"""What an uploaded file is, told from its content: a few bounded reads, no framework, nothing run.

The name of the file plays no part. The answer says in plain words what was seen and, where the
format is not taken, the way out. A file that lies about itself is caught later, in the sandbox.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from models_registry.exporting import archives, pickles
from models_registry.exporting.protocol import Refused

TORCHSCRIPT: Final = "torchscript"
TORCH_EXPORT: Final = "torch_export"
TORCH_STATE_DICT: Final = "torch_state_dict"
TORCH_PICKLED_MODULE: Final = "torch_pickled_module"
ONNX: Final = "onnx"
ONNX_ARCHIVE: Final = "onnx_archive"
UNKNOWN: Final = "unknown"

ACCEPTED: Final = frozenset({TORCHSCRIPT, TORCH_EXPORT, TORCH_STATE_DICT, ONNX, ONNX_ARCHIVE})

_HEAD_BYTES: Final = 4096
_PICKLE_BYTES: Final = 64 * archives.MIB
# torch.save before 1.6 wrote a pickle of this number first (torch.serialization.MAGIC_NUMBER).
_TORCH_LEGACY: Final = bytes.fromhex("8a0a6cfc9c46f9206aa85019")

_TABULAR: Final = (
    ("sklearn", "scikit-learn"),
    ("lightgbm", "LightGBM"),
    ("xgboost", "XGBoost"),
)

_WAY_OUT: Final = (
    "Upload a TorchScript file, a torch.export program (.pt2), a state dict with its module's "
    "source, or an ONNX file."
)
_NOT_YET: Final = (
    "This format is not taken yet. Export the model to ONNX (skl2onnx or onnxmltools, opset 17) "
    "and upload the ONNX file."
)


@dataclass(frozen=True, slots=True)
class Detected:
    """What was seen.

    `format` is a stable word (the constants above, or a word for what is not taken); `label` its
    name for people; `detail` facts for the page; `reason` one sentence; `hint` the way out.
    `needs_code` says that the module's source must come with it.
    """

    format: str
    label: str
    reason: str
    hint: str = ""
    detail: str = ""
    accepted: bool = False
    needs_code: bool = False


def sniff(path: Path) -> Detected:
    """Tell what `path` is; reads a few KiB of most files, never raises on bad content.

    OSError when the file itself cannot be read.
    """
    size = path.stat().st_size
    if size == 0:
        return Detected("empty", "Empty file", "The file is empty (0 bytes).", "Upload it again.")
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
        try:
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                return _zip(path)
            if head.startswith(b"\x80") and _TORCH_LEGACY in head[:24]:
                return _torch_legacy(stream)
            if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5:
                return _pickle(stream)
            known = _by_magic(head, size)
            if known is not None:
                return known
            if (
                head[:1] == b"x"
                and head[1:2] in b"\x01\x5e\x9c\xda"
                and (int.from_bytes(head[:2]) % 31 == 0)
            ):
                return _compressed_pickle(head)
            if _is_tar(head) or head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")):
                return _packed(head)
            structured = _xgboost_or_json(head)
            if structured is not None:
                return structured
            if _is_text(head):
                return _text(head)
            return _protobuf(stream, size)
        except Refused as refused:
            return _refused(refused)


def _refused(refused: Refused) -> Detected:
    refusal = refused.refusal
    return Detected(refusal.code, "Not usable", refusal.message, refusal.hint or _WAY_OUT)


def _taken(
    kind: str, label: str, reason: str, *, detail: str = "", needs_code: bool = False
) -> Detected:
    return Detected(kind, label, reason, detail=detail, accepted=True, needs_code=needs_code)


# Zip containers: torch, ONNX with external data, Keras, numpy.


def _zip(path: Path) -> Detected:
    with archives.open_zip(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        archives.refuse_unsafe_names(names)
        limit = max(256 * archives.MIB, 20 * path.stat().st_size)
        if path.stat().st_size < 16 * archives.MIB:
            limit = 64 * archives.MIB + 20 * path.stat().st_size
        if archives.count_inflated(archive, limit=limit) > limit:
            return Detected(
                "archive_bomb",
                "Archive that unpacks without end",
                f"The archive unpacks to more than {limit // archives.MIB} MiB, far more than its "
                "own size; model files do not compress like that.",
                "Save the model again with its framework and upload that file.",
            )
        return _zip_by_names(archive, names)


def _zip_by_names(archive: zipfile.ZipFile, names: list[str]) -> Detected:
    inner = {name.partition("/")[2] or name for name in names}
    plain = set(names)
    if "models/model.json" in inner or "serialized_exported_program.json" in plain | inner:
        return _taken(TORCH_EXPORT, "torch.export program", "A program saved by torch.export.save.")
    if "data.pkl" in inner:
        if any(name.startswith("code/") for name in inner) or "constants.pkl" in inner:
            return _taken(TORCHSCRIPT, "TorchScript", "A TorchScript archive (torch.jit.save).")
        return _torch_zip(archive, next(name for name in names if name.endswith("data.pkl")))
    onnx_files = [name for name in names if name.lower().endswith(".onnx")]
    if onnx_files:
        return _taken(
            ONNX_ARCHIVE,
            "ONNX archive",
            "A zip archive with an ONNX file and what belongs to it.",
            detail=", ".join(sorted(onnx_files))[:200],
        )
    if "model.weights.h5" in plain:
        return Detected("keras", "Keras", "A Keras v3 archive (.keras).", _keras_hint())
    if names and all(name.endswith(".npy") for name in names):
        return Detected("numpy", "NumPy arrays", "A numpy archive (.npz), not a model.", _WAY_OUT)
    listed = ", ".join(sorted(names)[:5])
    return Detected(
        "zip", "Zip archive", "A zip archive without a model that is known here.", _WAY_OUT, listed
    )


def _torch_zip(archive: zipfile.ZipFile, name: str) -> Detected:
    if archive.getinfo(name).file_size > _PICKLE_BYTES:
        raise Refused(
            "pickle_too_large", "The file's index (data.pkl) is too large for a checkpoint."
        )
    with archive.open(name) as stream:
        return _torch_pickle(pickles.scan(stream))


def _torch_pickle(scan: pickles.Scan) -> Detected:
    if scan.dangerous:
        return _unsafe(scan)
    if not scan.complete:
        return Detected(
            "torch_damaged",
            "Damaged torch file",
            "The file was made by torch.save, but its index cannot be read to the end.",
            "It is probably cut off: save it again and upload it once more.",
        )
    if any(module.startswith("__torch__") for module, _ in scan.imports):
        return _taken(TORCHSCRIPT, "TorchScript", "A TorchScript archive (torch.jit.save).")
    if scan.unexpected:
        return Detected(
            TORCH_PICKLED_MODULE,
            "Pickled torch module",
            "The file holds a whole Python object (torch.save(model)); loading it would run code: "
            f"{pickles.names(scan.unexpected)}.",
            "Save only the weights with torch.save(model.state_dict(), …) and upload them with the "
            "module's source, or save TorchScript with torch.jit.save.",
        )
    return _taken(
        TORCH_STATE_DICT,
        "State dict",
        "Weights saved by torch.save; the architecture is not in the file, so the module's source "
        "must come with it.",
        needs_code=True,
    )


def _unsafe(scan: pickles.Scan) -> Detected:
    return Detected(
        "unsafe_pickle",
        "Unsafe pickle",
        f"Loading this file would run commands: {pickles.names(scan.dangerous)}.",
        "Do not open this file. Get the weights from a source you trust, saved as a state dict, "
        "safetensors or ONNX.",
    )


def _torch_legacy(stream: IO[bytes]) -> Detected:
    stream.seek(0)
    scans = []
    for _ in range(4):  # magic number, protocol version, system information, then the object
        scans.append(pickles.scan(stream))
        if not scans[-1].complete:
            break
    imports = frozenset().union(*(scan.imports for scan in scans))
    whole = pickles.Scan(imports, len(scans) == 4 and scans[-1].complete, 0)
    return _torch_pickle(whole)


def _pickle(stream: IO[bytes]) -> Detected:
    stream.seek(0)
    scan = pickles.scan(stream)
    for root, label in _TABULAR:
        if root in scan.roots:
            return Detected(root, label, f"A pickled {label} model.", _NOT_YET)
    if scan.dangerous:
        return _unsafe(scan)
    if "joblib" in scan.roots:
        return Detected(
            "sklearn", "joblib", "A joblib pickle, as scikit-learn models are saved.", _NOT_YET
        )
    return Detected(
        "pickle",
        "Python pickle",
        "A Python pickle; loading it could run any code.",
        _WAY_OUT,
        pickles.names(sorted(f"{module}.{name}" for module, name in scan.imports)),
    )


def _compressed_pickle(head: bytes) -> Detected:
    """A zlib stream (RFC 1950), as joblib.dump(compress=…) writes; its start tells the family."""
    try:
        start = zlib.decompressobj().decompress(head, archives.MIB)
    except zlib.error:
        return _unknown()
    scan = pickles.scan(io.BytesIO(start))
    for root, label in _TABULAR:
        if root in scan.roots:
            return Detected(root, label, f"A compressed pickle of a {label} model.", _NOT_YET)
    if start[:1] == b"\x80":
        return Detected("pickle", "Compressed pickle", "A compressed Python pickle.", _NOT_YET)
    return _unknown()


def _unknown() -> Detected:
    reason = "The content is of no format that is known here."
    return Detected(UNKNOWN, "Unknown", reason, _WAY_OUT)


# Other containers, by their first bytes.


def _keras_hint() -> str:
    return "Keras and TensorFlow are not taken. Convert it with tf2onnx and upload the ONNX file."


def _by_magic(head: bytes, size: int) -> Detected | None:
    if head[4:8] == b"TFL3":
        hint = "TensorFlow Lite is not taken. Convert it with tf2onnx --tflite and upload the ONNX."
        return Detected("tflite", "TensorFlow Lite", "A TensorFlow Lite model.", hint)
    if head.startswith(b"GGUF"):
        hint = "GGUF is for llama.cpp. Export the original model to ONNX."
        return Detected("gguf", "GGUF", "Weights in GGUF, a format of llama.cpp.", hint)
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return Detected(
            "keras", "HDF5", "An HDF5 file, as Keras saves models and weights.", _keras_hint()
        )
    for magic, kind, label in _MAGIC:
        if head.startswith(magic):
            return Detected(kind, label, f"This is {label}, not a model.", _WAY_OUT)
    length = int.from_bytes(head[:8], "little")
    if size > 10 and 2 <= length <= min(size - 8, 100 * archives.MIB) and head[8:9] == b"{":
        return Detected(
            "safetensors",
            "Safetensors",
            "Weights in safetensors; the architecture is not in the file and the format "
            "is not taken yet.",
            "Load it in PyTorch and save torch.save(model.state_dict(), …), or export ONNX.",
        )
    return None


_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "png", "a PNG image"),
    (b"\xff\xd8\xff", "image", "a JPEG image"),
    (b"GIF8", "image", "a GIF image"),
    (b"%PDF", "pdf", "a PDF document"),
    (b"\x7fELF", "program", "a Linux program or library"),
    (b"MZ", "program", "a Windows program"),
    (b"7z\xbc\xaf\x27\x1c", "archive", "a 7-Zip archive"),
    (b"Rar!", "archive", "a RAR archive"),
    (b"\x93NUMPY", "numpy", "a numpy array"),
    (b"SQLite format 3", "database", "an SQLite database"),
)


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _packed(head: bytes) -> Detected:
    return _taken(
        ONNX_ARCHIVE,
        "Packed archive",
        "A tar or compressed archive; it is unpacked in the sandbox and must hold one ONNX file.",
    )


def _xgboost_or_json(head: bytes) -> Detected | None:
    if head.startswith(b"{L") and b"learner" in head:
        return Detected("xgboost", "XGBoost", "An XGBoost model (UBJSON).", _NOT_YET)
    if head.lstrip()[:1] == b"{" and b'"learner"' in head:
        return Detected("xgboost", "XGBoost", "An XGBoost model (JSON).", _NOT_YET)
    if head.startswith(b"binf"):
        return Detected("xgboost", "XGBoost", "An XGBoost model (old binary form).", _NOT_YET)
    if head.startswith(b"tree\n") and b"num_class=" in head:
        return Detected("lightgbm", "LightGBM", "A LightGBM model (text).", _NOT_YET)
    return None


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < _HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\r\n\t\f" for character in text)


def _text(head: bytes) -> Detected:
    first = head.decode("utf-8", "replace").strip().partition("\n")[0][:80]
    try:
        json.loads(head)
    except ValueError:
        if head.startswith(b"version https://git-lfs"):
            return Detected(
                "git_lfs_pointer",
                "Git LFS pointer",
                "This is a Git LFS pointer, not the model that it stands for.",
                "Fetch the file with git lfs pull and upload that.",
            )
        return Detected(
            "text", "Text", f"This is text, not a model; it begins “{first}”.", _WAY_OUT
        )
    return Detected("json", "JSON", "This is JSON, not a model that is known here.", _WAY_OUT)


# ONNX: a protobuf without magic bytes, told by walking its top-level fields.
# ModelProto (onnx.proto): 1 ir_version, 2-4, 6 strings, 5 model_version, 7 graph, 8 opset_import …
_MAX_FIELDS: Final = 200_000
_VARINT_FIELDS: Final = frozenset({1, 5})
_LENGTH_FIELDS: Final = frozenset({2, 3, 4, 6, 7, 8, 14, 20, 25, 26})


def _protobuf(stream: IO[bytes], size: int) -> Detected:
    unknown = _unknown()
    seen: set[int] = set()
    position = 0
    steps = 0
    while position < size:
        steps += 1
        if steps > _MAX_FIELDS:
            return unknown
        stream.seek(position)
        piece = stream.read(24)
        key, used = _varint(piece)
        field, wire = key >> 3, key & 7
        if field in _VARINT_FIELDS and wire == 0:
            _, more = _varint(piece[used:])
            position += used + more
        elif field in _LENGTH_FIELDS and wire == 2:
            length, more = _varint(piece[used:])
            position += used + more + length
        else:
            return _onnx_cut(size, position, seen) if seen >= {1, 7} else unknown
        if used == 0 or more == 0:
            return _onnx_cut(size, position, seen) if 7 in seen else unknown
        seen.add(field)
    if position > size:
        return _onnx_cut(size, position, seen) if 7 in seen else unknown
    if 7 in seen and seen & {1, 8}:
        return _taken(ONNX, "ONNX", "An ONNX model.")
    return unknown


def _onnx_cut(size: int, position: int, seen: set[int]) -> Detected:
    return Detected(
        "onnx_damaged",
        "Damaged ONNX file",
        f"The file begins like an ONNX model but is cut off or damaged: it has {size} bytes where "
        f"at least {max(position, size + 1)} belong.",
        "Save it again, compare its SHA-256, and upload it once more.",
    )


def _varint(data: bytes) -> tuple[int, int]:
    """Value and length of a protobuf varint; length 0 when there is none."""
    value = 0
    for index, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    return 0, 0
