"""Formats that their first bytes tell: other frameworks' files, and what is no model at all."""

from __future__ import annotations

import re
from typing import Final

from models_registry.adapters.formats.detected import (
    CATBOOST,
    HEAD_BYTES,
    KERAS,
    SAFETENSORS,
    WAY_OUT,
    Detected,
    taken,
)

_MIB: Final = 1 << 20

# Model formats with a magic number: first bytes, word, name, the way out.
_MODELS: Final = (
    (b"GGUF", "gguf", "GGUF, a format of llama.cpp", "llama.cpp serves these. Export the original "
     "model to ONNX (optimum-cli export onnx) and upload that."),
    *((magic, "ggml", "GGML, the earlier format of llama.cpp", "Export the original model to ONNX "
       "and upload that.") for magic in (b"lmgg", b"tjgg", b"fmgg", b"algg")),
    (b"ftrt", "tensorrt_plan", "a TensorRT plan", "A plan runs on one kind of GPU and one release "
     "of TensorRT only. Upload the ONNX file that it was built from; plans are built from it on "
     "the nodes that serve."),
    (b"ptrt", "tensorrt_plan", "a TensorRT plan", "Upload the ONNX file that it was built from."),
    (b"7767517\n", "ncnn", "an ncnn network (.param)", "Export the original model to ONNX, from "
     "which ncnn files are made, and upload that."),
    (b"7767517\r\n", "ncnn", "an ncnn network (.param)", "Export the original model to ONNX and "
     "upload that."),
    (b"\x12\x01\x00\x00\x00\x00\x00\x00", "mxnet", "parameters of MXNet (.params)", "Export with "
     "mxnet.onnx.export_model(symbol, params, …) and upload the ONNX file."),
    (b"binf", "xgboost_binary", "an XGBoost model in the old binary form", "Load it with XGBoost "
     "before 3.1 (Booster.load_model) and save it as model.ubj or model.json."),
    (b"RDX", "r_data", "an R workspace (.RData)", "R objects are not taken. Save xgboost or "
     "lightgbm models of R with xgb.save or lgb.save as JSON or text, or train it in Python."),
    (b"X\n\x00\x00\x00", "r_rds", "an R object (.rds)", "R objects are not taken. Save the model "
     "with xgb.save or lgb.save, or train it in Python."),
    (b"DLC\x00", "snpe", "a Qualcomm DLC file", "Upload the ONNX file that it was made from."),
    (b"RKNN", "rknn", "a Rockchip RKNN model", "Upload the ONNX file that it was made from."),
)  # fmt: skip

# What is no model, by first bytes.
_OTHERS: Final = (
    (b"\x89PNG\r\n\x1a\n", "png", "a PNG image"),
    (b"\xff\xd8\xff", "image", "a JPEG image"),
    (b"GIF8", "image", "a GIF image"),
    (b"BM", "image", "a BMP image"),
    (b"II*\x00", "image", "a TIFF image"),
    (b"MM\x00*", "image", "a TIFF image"),
    (b"8BPS", "image", "a Photoshop image"),
    (b"%PDF", "pdf", "a PDF document"),
    (b"%!PS", "document", "a PostScript document"),
    (b"{\\rtf", "document", "an RTF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "office", "an old Office document"),
    (b"\x1aE\xdf\xa3", "video", "a Matroska or WebM video"),
    (b"\x00\x00\x01\xba", "video", "an MPEG video"),
    (b"FLV\x01", "video", "a Flash video"),
    (b"OggS", "audio", "an Ogg recording"),
    (b"fLaC", "audio", "a FLAC recording"),
    (b"ID3", "audio", "an MP3 recording"),
    (b"\x7fELF", "program", "a Linux program or library"),
    (b"MZ", "program", "a Windows program"),
    (b"\xcf\xfa\xed\xfe", "program", "a macOS program"),
    (b"\xca\xfe\xba\xbe", "program", "a Java class or macOS program"),
    (b"\x00asm", "program", "a WebAssembly module"),
    (b"7z\xbc\xaf\x27\x1c", "archive", "a 7-Zip archive"),
    (b"Rar!", "archive", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "archive", "a Zstandard archive"),
    (b"\x04\x22\x4d\x18", "archive", "an LZ4 archive"),
    (b"\x93NUMPY", "numpy", "a numpy array"),
    (b"PAR1", "data", "a Parquet table"),
    (b"ARROW1", "data", "an Arrow table"),
    (b"FEA1", "data", "a Feather table"),
    (b"Obj\x01", "data", "an Avro file"),
    (b"ORC", "data", "an ORC table"),
    (b"MATLAB ", "data", "a MATLAB file"),
    (b"SQLite format 3", "database", "an SQLite database"),
    (b"-----BEGIN ", "key", "a key or certificate"),
)  # fmt: skip
_XGBOOST_OLD: Final = re.compile(rb"\x00(binary|reg|multi|rank|count|survival):[a-z:]{3,20}")


def by_magic(head: bytes, size: int, tail: bytes = b"") -> Detected | None:
    """A format with a magic number, or None."""
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return taken(KERAS, "Keras (HDF5)", "An HDF5 file, as Keras saves models (.h5).")
    if head.startswith(b"CBM1"):
        return taken(CATBOOST, "CatBoost", "A CatBoost model (.cbm).")
    if head[4:8] == b"TFL3":
        return Detected(
            "tflite",
            "TensorFlow Lite",
            "A TensorFlow Lite model.",
            "TensorFlow Lite is not taken. Convert it with python -m tf2onnx.convert --tflite and "
            "upload the ONNX file, or upload the model that it was made from.",
        )
    for magic, kind, label, hint in _MODELS:
        if head.startswith(magic):
            return Detected(kind, label[:1].upper() + label[1:], f"This is {label}.", hint)
    if (other := _by_place(head)) is not None:
        return other
    for magic, kind, label in _OTHERS:
        if head.startswith(magic) and (len(magic) > 3 or not is_text(head)):
            return _no_model(kind, label)
    length = int.from_bytes(head[:8], "little")
    if size > 10 and 2 <= length <= min(size - 8, 100 * _MIB) and head[8:9] == b"{":
        return taken(
            SAFETENSORS,
            "Safetensors",
            "Weights in safetensors; the architecture is not in the file, so the module's source "
            "must come with it.",
        )
    return _by_pattern(head, tail)


def _no_model(kind: str, label: str) -> Detected:
    return Detected(kind, label[:1].upper() + label[1:], f"This is {label}, not a model.", WAY_OUT)


def _by_place(head: bytes) -> Detected | None:
    """Containers whose magic does not stand first."""
    if head[4:8] == b"ftyp":
        kind = "image" if head[8:12] in {b"heic", b"avif", b"mif1"} else "video"
        return _no_model(kind, "a HEIF or AVIF image" if kind == "image" else "an MP4 video")
    if head[:4] == b"RIFF" and head[8:12] in {b"AVI ", b"WAVE", b"WEBP"}:
        words = {b"AVI ": "an AVI video", b"WAVE": "a WAV recording", b"WEBP": "a WebP image"}
        kinds = {b"AVI ": "video", b"WAVE": "audio", b"WEBP": "image"}
        return _no_model(kinds[head[8:12]], words[head[8:12]])
    return None


def _by_pattern(head: bytes, tail: bytes) -> Detected | None:
    """Formats without a magic number that still have bytes which nothing else has."""
    if b"gbtree" in head and _XGBOOST_OLD.search(head) and not head.lstrip().startswith(b"{"):
        return Detected(
            "xgboost_binary",
            "XGBoost (old binary form)",
            "This is an XGBoost model in the binary form that went away with XGBoost 3.1.",
            "Load it with XGBoost before 3.1 (Booster.load_model) and save it as model.ubj or "
            "model.json.",
        )
    if head[:16] == bytes(16) and head[20:22] == b"\x08\x05":
        return Detected(
            "paddle",
            "Paddle parameters",
            "These are parameters of PaddlePaddle (.pdiparams).",
            "Convert model and parameters together with paddle2onnx and upload the ONNX file.",
        )
    offset = int.from_bytes(head[:4], "little")
    if len(head) > 32 and 4 <= offset <= 256 and b"MNN" in head + tail:
        return Detected(
            "mnn",
            "MNN",
            "This looks like a model of MNN.",
            "Export the original model to ONNX, from which MNN files are made, and upload that.",
        )
    return None


def is_text(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-8 without control characters."""
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\r\n\t\f\ufeff" for character in text)
