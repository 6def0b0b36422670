"""Archives, told by the names in them: torch, Keras, skops, ONNX with its data, and others."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from models_registry.adapters.formats import magic, pickled, protobuf, text
from models_registry.adapters.formats.detected import (
    HEAD_BYTES,
    KERAS,
    ONNX_ARCHIVE,
    SKOPS,
    TORCH_EXPORT,
    TORCHSCRIPT,
    WAY_OUT,
    Detected,
    taken,
)
from models_registry.exporting import archives, pickles
from models_registry.exporting.protocol import Refused

_PICKLE_BYTES: Final = 64 * archives.MIB


def of_zip(path: Path) -> Detected:
    """What a zip is; `Refused` when it is no sound one."""
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
        return taken(TORCH_EXPORT, "torch.export program", "A program saved by torch.export.save.")
    if "data.pkl" in inner:
        if any(name.startswith("code/") for name in inner) or "constants.pkl" in inner:
            return taken(TORCHSCRIPT, "TorchScript", "A TorchScript archive (torch.jit.save).")
        return _torch_zip(archive, next(name for name in names if name.endswith("data.pkl")))
    if "model.weights.h5" in plain and "config.json" in plain:
        return taken(KERAS, "Keras", "A Keras archive (.keras).")
    if "schema.json" in plain and _is_skops(archive):
        return taken(SKOPS, "skops", "A scikit-learn model saved by skops.")
    return by_names(names)


def _torch_zip(archive: zipfile.ZipFile, name: str) -> Detected:
    if archive.getinfo(name).file_size > _PICKLE_BYTES:
        raise Refused(
            "pickle_too_large", "The file's index (data.pkl) is too large for a checkpoint."
        )
    with archive.open(name) as stream:
        return pickled.of_torch(pickles.scan(stream))


def _is_skops(archive: zipfile.ZipFile) -> bool:
    """skops writes its version at the end of the schema, which is otherwise a tree of nodes."""
    with archive.open("schema.json") as stream:
        return b"__class__" in stream.read(4096)


def of_tar(path: Path) -> Detected:
    """What a tar is, compressed or not; one that is too large to walk is left to the sandbox."""
    try:
        names = [member.name for member in archives.members(path)]
    except Refused as refused:
        if refused.refusal.code != "archive_too_large":
            raise
        return _packed()
    return by_names(names)


def _packed() -> Detected:
    return taken(
        ONNX_ARCHIVE,
        "Packed archive",
        "A tar or compressed archive; it is unpacked in the sandbox and must hold one ONNX file.",
    )


def of_packed(path: Path, head: bytes) -> Detected:
    """One file behind gzip, bzip2 or xz: its own beginning says what it is."""
    start = pickled.inflated(head)
    if not start:
        return Detected(
            "archive_damaged",
            "Damaged archive",
            "The file begins like a compressed one, but cannot be unpacked.",
            "It is probably cut off: pack it again and upload it once more.",
        )
    if len(start) >= 262 and start[257:262] == b"ustar":
        return of_tar(path)
    if start.startswith((b"X\n\x00\x00\x00", b"RDX2\n", b"RDX3\n")):
        return Detected(
            "r_rds",
            "R object",
            "This is an R object (.rds or .RData).",
            "R objects are not taken. Save the model with xgb.save or lgb.save, or train it in "
            "Python.",
        )
    inner = start[:HEAD_BYTES]
    found = magic.by_magic(inner, len(start))
    if found is None and magic.is_text(inner):
        found = text.told(inner)
    if found is None:
        return _packed()
    if not found.accepted:
        return found
    return Detected(
        "packed_model",
        f"Compressed {found.label}",
        f"A compressed file with a model of {found.label} in it.",
        "Unpack it (gunzip, bunzip2 or unxz) and upload the model itself.",
    )


def by_names(names: list[str]) -> Detected:
    """An archive that no one framework wrote as a whole: by what lies in it."""
    lower = [name.lower() for name in names]
    onnx_files = [name for name in names if name.lower().endswith(".onnx")]
    if onnx_files:
        return taken(
            ONNX_ARCHIVE,
            "ONNX archive",
            "An archive with an ONNX file and what belongs to it.",
            detail=", ".join(sorted(onnx_files))[:200],
        )
    for pattern, make in _CONTENTS:
        if any(re.search(pattern, name) for name in lower):
            return make()
    models = [name for name in names if re.search(_MODEL_FILE, name.lower())]
    if len(models) == 1:
        return Detected(
            "zip",
            "Archive around a model",
            f"An archive with {models[0][:120]} in it, and {len(names) - 1} other files.",
            f"Upload {models[0][:120]} itself.",
        )
    if names and all(name.endswith(".npy") for name in names):
        return Detected("numpy", "NumPy arrays", "A numpy archive (.npz), not a model.", WAY_OUT)
    listed = ", ".join(sorted(names)[:5])
    return Detected(
        "zip", "Archive", "An archive without a model that is known here.", WAY_OUT, listed[:300]
    )


_MODEL_FILE: Final = (
    r"(^|/)[^/]*\.(pt|pth|pt2|ckpt|jit|joblib|pkl|pickle|skops|keras|h5|ubj|cbm|safetensors)$"
)


def _named(kind: str, label: str, hint: str) -> Callable[[], Detected]:
    def make() -> Detected:
        return Detected(kind, label, f"An archive with {label}.", hint)

    return make


_CONTENTS: Final[tuple[tuple[str, Callable[[], Detected]], ...]] = (
    (r"(^|/)saved_model\.pb(txt)?$", protobuf.saved_model),
    (r"\.(pdmodel|pdiparams)$", protobuf.paddle),
    (r"com\.apple\.coreml|\.mlmodel$|\.mlmodelc/", _named("coreml", "a Core ML model",
     "Core ML runs on Apple devices. Export the original model to ONNX and upload that.")),
    (r"(^|/)\[content_types\]\.xml$", _named("office", "an Office document", WAY_OUT)),
    (r"(^|/)mar-inf/manifest\.json$", _named("torchserve", "a TorchServe archive (.mar)",
     "Upload the TorchScript file, or the weights and the source, that were packed into it.")),
    (r"(^|/)(experimental/modeldetails|model)\.ini$", _named("h2o_mojo", "a MOJO model of H2O",
     "H2O is not taken. Train the same model with XGBoost, LightGBM or scikit-learn.")),
    (r"(^|/)metadata/part-00000", _named("spark_ml", "a model of Spark ML",
     "Spark ML is not taken. Convert it with onnxmltools.convert_sparkml where it was trained and "
     "upload the ONNX file.")),
    (r"\.tflite$", _named("tflite", "a TensorFlow Lite model",
     "Convert it with python -m tf2onnx.convert --tflite and upload the ONNX file.")),
    (r"\.(gguf|ggml)$", _named("gguf", "a GGUF model of llama.cpp",
     "Export the original model to ONNX and upload that.")),
    (r"\.(engine|plan|trt)$", _named("tensorrt_plan", "a TensorRT plan",
     "Upload the ONNX file that it was built from.")),
    (r"\.mnn$", _named("mnn", "a model of MNN", "Export the original model to ONNX.")),
    (r"(^|/)meta-inf/manifest\.mf$", _named("program", "a Java program (.jar)", WAY_OUT)),
    (r"-symbol\.json$", _named("mxnet", "a model of MXNet",
     "Export with mxnet.onnx.export_model and upload the ONNX file.")),
    (r"\.caffemodel$", _named("caffe", "a Caffe network",
     "Convert it to ONNX (caffe2onnx) and upload that.")),
)  # fmt: skip
