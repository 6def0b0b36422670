"""What a file is, by its content: every format that people try, told apart without a framework."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from models_registry.adapters import formats
from models_registry.exporting import pickles
from tests.models_registry import model_files


def _torchscript(folder: Path) -> Path:
    path = folder / "model.onnx"  # the name lies
    torch.jit.script(torch.nn.Linear(3, 2)).save(str(path))
    return path


def _program(folder: Path) -> Path:
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),)), path)
    return path


def _state_dict(folder: Path) -> Path:
    path = folder / "weights.pth"
    torch.save(torch.nn.Linear(3, 2).state_dict(), path)
    return path


def _old_state_dict(folder: Path) -> Path:
    path = folder / "old.pth"
    torch.save(torch.nn.Linear(3, 2).state_dict(), path, _use_new_zipfile_serialization=False)
    return path


def _checkpoint(folder: Path) -> Path:
    path = folder / "last.ckpt"
    net = torch.nn.Linear(3, 2)
    kept = {"state_dict": net.state_dict(), "epoch": 3, "optimizer": OrderedDict(lr=0.1)}
    torch.save(kept, path)
    return path


def _pickled_module(folder: Path) -> Path:
    path = folder / "model.pt"
    torch.save(torch.nn.Linear(3, 2), path)
    return path


def _evil_checkpoint(folder: Path) -> Path:
    path = folder / "model.pt"
    torch.save({"w": torch.zeros(2), "hook": model_files.Payload()}, path)
    return path


def _bytes(data: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "model.pt"
        path.write_bytes(data)
        return path

    return make


def _keras(folder: Path) -> Path:
    path = folder / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", b"\x89HDF")
    return path


GOOD = model_files.plain().SerializeToString()
SAFETENSORS = struct.pack("<Q", 2) + b"{}" + bytes(16)
SKLEARN = b"\x80\x04\x8c\x18sklearn.ensemble._forest\x94\x8c\x16RandomForestClassifier\x94\x93."
LIGHTGBM = b"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\n"
XGBOOST = b'{"learner":{"attributes":{},"feature_names":[]},"version":[3,2,0]}'


@pytest.mark.parametrize(
    ("make", "kind", "accepted"),
    [
        (_bytes(GOOD), "onnx", True),
        (_torchscript, "torchscript", True),
        (_program, "torch_export", True),
        (_state_dict, "torch_state_dict", True),
        (_old_state_dict, "torch_state_dict", True),
        (_checkpoint, "torch_state_dict", True),
        (lambda folder: model_files.external(folder)[0], "onnx_archive", True),
        (_bytes(gzip.compress(GOOD)), "onnx_archive", True),
        (_pickled_module, "torch_pickled_module", False),
        (_evil_checkpoint, "unsafe_pickle", False),
        (model_files.evil_pickle, "unsafe_pickle", False),
        (_bytes(pickle.dumps({"a": 1})), "pickle", False),
        (_bytes(SKLEARN), "sklearn", True),
        (_bytes(zlib.compress(SKLEARN)), "sklearn", True),
        (_bytes(LIGHTGBM), "lightgbm", True),
        (_bytes(XGBOOST), "xgboost", True),
        (_bytes(b"{L\x00\x00\x00\x07learner{L"), "xgboost", True),
        (_keras, "keras", True),
        (_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64)), "keras", True),
        (_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64)), "tflite", False),
        (_bytes(b"GGUF\x03\x00\x00\x00"), "gguf", False),
        (_bytes(SAFETENSORS), "safetensors", True),
        (_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40)), "png", False),
        (_bytes(b"# my model\nplease download it\n"), "text", False),
        (_bytes(json.dumps({"a": 1}).encode()), "json", False),
        (_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "git_lfs_pointer", False),
        (_bytes(b""), "empty", False),
        (_bytes(GOOD[: len(GOOD) * 6 // 10]), "onnx_damaged", False),
        (_bytes(bytes(range(128, 256)) * 4), "unknown", False),
        (model_files.zip_bomb, "archive_bomb", False),
        (model_files.evil_zip, "archive_unsafe", False),
        (model_files.evil_tar, "archive_unsafe", False),
        (_bytes(b"PK\x03\x04" + bytes(60)), "archive_damaged", False),
    ],
)
def test_a_file_is_told_by_its_content(
    tmp_path: Path, make: Callable[[Path], Path], kind: str, accepted: bool
) -> None:
    found = formats.sniff(make(tmp_path))

    assert (found.format, found.accepted) == (kind, accepted), found
    assert found.reason.endswith(".")
    assert accepted or found.hint
    assert not model_files.MARKER.exists()


def test_only_weights_alone_ask_for_code(tmp_path: Path) -> None:
    assert formats.sniff(_state_dict(tmp_path)).needs_code
    assert formats.sniff(_bytes(SAFETENSORS)(tmp_path)).needs_code
    assert not formats.sniff(_torchscript(tmp_path)).needs_code


def test_a_torch_file_cut_in_the_middle_is_damaged(tmp_path: Path) -> None:
    whole = _torchscript(tmp_path).read_bytes()
    cut = tmp_path / "cut.pt"
    cut.write_bytes(whole[: len(whole) // 2])

    assert formats.sniff(cut).format == "archive_damaged"


def test_dangerous_imports_are_named(tmp_path: Path) -> None:
    assert "posix.system" in formats.sniff(model_files.evil_pickle(tmp_path)).reason


def test_a_string_of_false_length_does_not_fill_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.pkl"
    path.write_bytes(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x")

    with path.open("rb") as stream:
        assert not pickles.scan(stream).complete
    assert formats.sniff(path).format == "pickle"


def test_a_computed_import_is_never_expected(tmp_path: Path) -> None:
    # Two names that are not plain strings on the stack: what would be imported cannot be told.
    path = tmp_path / "model.pkl"
    path.write_bytes(b"\x80\x04)\x81)\x81\x93.")

    with path.open("rb") as stream:
        assert pickles.scan(stream).unexpected == ("?.?",)
