"""Formats that are not taken: each is called by its name, by content, and has a way out."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models_registry.adapters import formats
from tests.models_registry import model_files


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _zip_of(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def _tar_of(members: dict[str, bytes], mode: Any = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


SAVED_MODEL = _field(1, 1) + _field(2, _field(1, b"\x12\x05serve") + _field(2, b"graph"))
FROZEN = b"".join(
    _field(1, _field(1, name) + _field(2, operator) + _field(3, b"x"))
    for name, operator in ((b"input", b"Placeholder"), (b"logits", b"MatMul"))
) + _field(4, _field(1, 27))
COREML = _field(1, 4) + _field(2, b"\x0a\x05input") + _field(500, b"layers")
CAFFE = _field(1, b"AlexNet") + _field(100, _field(1, b"conv1") + _field(2, b"Convolution"))
PADDLE = _field(1, _field(1, 0) + _field(2, 0) + _field(3, b"vars")) + _field(4, b"\x08\x00")
PARAMETERS = bytes(16) + struct.pack("<i", 8) + b"\x08\x05\x10\x08" + bytes(40)
XGBOOST_OLD = struct.pack("<fIiiii", 0.5, 7, 0, 0, 0, 0) + bytes(112)
XGBOOST_OLD += struct.pack("<Q", 15) + b"binary:logistic" + struct.pack("<Q", 6) + b"gbtree"
PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body></body></html>"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n"

CASES: list[tuple[str, bytes, str]] = [
    ("saved_model.pb", SAVED_MODEL, "tensorflow_saved_model"),
    (
        "SavedModel as zip",
        _zip_of({"m/saved_model.pb": b"x", "m/variables/variables.index": b"y"}),
        "tensorflow_saved_model",
    ),
    ("SavedModel as tar.gz", _tar_of({"m/saved_model.pb": b"x"}), "tensorflow_saved_model"),
    ("frozen graph", FROZEN, "tensorflow_graph"),
    ("TensorFlow.js", b'{"format": "layers-model", "weightsManifest": []}', "tensorflow_js"),
    ("Keras architecture", b'{"class_name": "Sequential", "config": {}}', "keras_architecture"),
    ("TensorFlow Lite", b"\x1c\x00\x00\x00TFL3" + bytes(40), "tflite"),
    ("Core ML", COREML, "coreml"),
    (
        "mlpackage as zip",
        _zip_of({"m.mlpackage/Data/com.apple.CoreML/model.mlmodel": b"x"}),
        "coreml",
    ),
    ("pdmodel", PADDLE, "paddle"),
    ("pdiparams", PARAMETERS, "paddle"),
    ("Paddle as zip", _zip_of({"inference.pdmodel": b"x", "inference.pdiparams": b"y"}), "paddle"),
    ("Paddle JSON", b'{"base_code":{"magic":"pir","version":1},"program":{}}', "paddle"),
    ("GGUF", b"GGUF\x03\x00\x00\x00" + bytes(40), "gguf"),
    ("GGML", b"tjgg\x01\x00\x00\x00" + bytes(40), "ggml"),
    ("TensorRT", b"ftrt\x00\x00\x00\x00" + bytes(40), "tensorrt_plan"),
    ("ncnn", b"7767517\n75 83\nInput data 0 1 data\n", "ncnn"),
    ("MNN", b"\x18\x00\x00\x00" + bytes(30) + b"MNN\x00" + bytes([200]) * 60, "mnn"),
    (
        "OpenVINO",
        b'<?xml version="1.0"?>\n<net name="m" version="11"><layers></layers></net>',
        "openvino",
    ),
    ("MXNet symbol", b'{"nodes": [{"op": "null"}], "arg_nodes": [0], "heads": []}', "mxnet"),
    ("MXNet parameters", b"\x12\x01" + bytes(40), "mxnet"),
    ("caffemodel", CAFFE, "caffe"),
    ("prototxt", b'name: "net"\nlayer {\n  name: "conv1"\n}\n', "caffe"),
    ("rds", gzip.compress(b"X\n\x00\x00\x00\x03" + bytes(40)), "r_rds"),
    ("RData", bz2.compress(b"RDX3\nX\n" + bytes(40)), "r_rds"),
    ("PMML", b'<?xml version="1.0"?><PMML version="4.4"></PMML>', "pmml"),
    ("old XGBoost", XGBOOST_OLD, "xgboost_binary"),
    ("older XGBoost", b"binf" + bytes(40), "xgboost_binary"),
    ("XGBoost dump", b"booster[0]:\n0:[f0<0.5] yes=1,no=2\n", "xgboost_dump"),
    ("LightGBM dump", b'{"name":"tree","num_class":1,"tree_info":[]}', "lightgbm_dump"),
    ("LIBSVM", b"svm_type c_svc\nkernel_type rbf\n", "libsvm"),
    ("TorchServe", _zip_of({"MAR-INF/MANIFEST.json": b"{}", "model.pt": b"x"}), "torchserve"),
    ("joblib in a zip", _zip_of({"a/model.joblib": b"x", "a/readme.md": b"y"}), "zip"),
    ("Git LFS pointer", LFS, "git_lfs_pointer"),
    ("DVC pointer", b"outs:\n- md5: abc\n  size: 1\n  path: model.pt\n", "dvc_pointer"),
    ("login page", PAGE, "html"),
    ("S3 error", b"<?xml?><Error><Code>AccessDenied</Code></Error>", "object_store_error"),
    ("API error", b'{"error": "Repository not found"}', "error_message"),
    ("notebook", b'{"cells": [], "nbformat": 4}', "notebook"),
    ("module source", b"import torch\n\nclass Net(torch.nn.Module):\n    pass\n", "python_source"),
    ("Office", _zip_of({"[Content_Types].xml": b"x", "word/document.xml": b"y"}), "office"),
    ("old Office", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(40), "office"),
    ("MP4", b"\x00\x00\x00\x20ftypisom" + bytes(40), "video"),
    ("WebM", b"\x1aE\xdf\xa3" + bytes(40), "video"),
    ("WAV", b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40), "audio"),
    ("WebP", b"RIFF\x24\x00\x00\x00WEBPVP8 " + bytes(40), "image"),
    ("HEIC", b"\x00\x00\x00\x18ftypheic" + bytes(40), "image"),
    ("Parquet", b"PAR1" + bytes(40), "data"),
    ("private key", b"-----BEGIN PRIVATE KEY-----\nMIIB\n", "key"),
    ("LightGBM text as gz", gzip.compress(b"tree\nversion=v4\nnum_class=1\n"), "packed_model"),
    ("a PNG as xz", lzma.compress(b"\x89PNG\r\n\x1a\n" + bytes(40)), "png"),
    ("bzip2 of text, cut", bz2.compress(b"a" * 500)[:20], "archive_damaged"),
]


@pytest.mark.parametrize(("data", "kind"), [(data, kind) for _, data, kind in CASES],
                         ids=[name for name, _, _ in CASES])  # fmt: skip
def test_a_format_that_is_not_taken_is_named_with_its_way_out(
    tmp_path: Path, data: bytes, kind: str
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)

    found = formats.sniff(path)

    assert (found.format, found.accepted) == (kind, False), found
    assert found.label
    assert found.reason.endswith(".")
    assert len(found.hint) > 20


def test_every_family_of_tables_is_taken_in_every_packing(tmp_path: Path) -> None:
    head = b"\x80\x02csklearn.linear_model._logistic\nLogisticRegression\n)\x81."
    packings = {
        "plain": head,
        "gzip": gzip.compress(head),
        "bz2": bz2.compress(head),
        "xz": lzma.compress(head),
        "lzma": lzma.compress(head, format=lzma.FORMAT_ALONE),
        "protocol 0": b"ccopy_reg\n_reconstructor\n(csklearn.linear_model._logistic\n"
        b"LogisticRegression\nc__builtin__\nobject\nNtR.",
    }
    for name, data in packings.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert formats.sniff(path).format == formats.SKLEARN, name


SEEDS = [
    *(data for _, data, _ in CASES),
    model_files.plain().SerializeToString(),
    json.dumps({"learner": {}, "version": [3, 2, 0]}).encode(),
    pickle.dumps({"a": [1, 2.5, "x"], "b": (None, b"y")}),
    _zip_of({"a/data.pkl": pickle.dumps([1]), "a/version": b"3"}),
    _zip_of({"schema.json": b'{"__class__": 1}', "0.npy": b"\x93NUMPY"}),
    _tar_of({"model.onnx": b"\x08\x08"}, "w"),
    struct.pack("<Q", 2) + b"{}" + bytes(8),
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.sampled_from(SEEDS),
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6),
    tail=st.binary(max_size=40),
)
def test_no_bytes_make_it_raise(
    tmp_path_factory: pytest.TempPathFactory,
    seed: bytes,
    cut: float,
    changes: list[tuple[float, int]],
    tail: bytes,
) -> None:
    data = bytearray(seed[: max(1, int(len(seed) * cut))] + tail)
    for place, value in changes:
        data[min(len(data) - 1, int(place * len(data)))] = value
    path = tmp_path_factory.getbasetemp() / "mutated.bin"
    path.write_bytes(bytes(data))

    found = formats.sniff(path)

    assert found.format
    assert found.reason
    assert found.accepted or found.hint
