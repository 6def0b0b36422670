"""Pickles are found wherever they hide and judged by what they import; nothing of them runs."""

from __future__ import annotations

import bz2
import copyreg
import functools
import gzip
import io
import json
import logging
import lzma
import pickle
import resource
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import joblib
import numpy as np
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models_registry.exporting import scanning
from models_registry.exporting.protocol import Refused
from tests.models_registry import model_files
from tests.models_registry.model_files import MARKER, Payload

EVIL = pickle.dumps(Payload())


def _refusal(path: Path) -> str:
    with pytest.raises(Refused) as caught:
        scanning.refuse_unsafe(path)
    assert not MARKER.exists()
    return f"{caught.value.refusal.code}: {caught.value.refusal.message}"


def _joblib(value: object, **options: Any) -> bytes:
    stream = io.BytesIO()
    joblib.dump(value, stream, **options)
    return stream.getvalue()


def _npy(value: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value, allow_pickle=True)
    return stream.getvalue()


def _zip(members: dict[str, bytes], *, first: bytes = b"") -> bytes:
    stream = io.BytesIO(first)
    with zipfile.ZipFile(stream, "a") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return stream.getvalue()


def _tar(name: str, data: bytes, mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def _legacy_torch() -> bytes:
    stream = io.BytesIO()
    torch.save({"w": torch.ones(3), "x": Payload()}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def _new_torch() -> bytes:
    stream = io.BytesIO()
    torch.save({"w": torch.ones(3), "x": Payload()}, stream)
    return stream.getvalue()


NUMBERS = np.arange(40_000.0)
OBJECTS = np.array([Payload()], dtype=object)

HIDDEN: dict[str, Callable[[], bytes]] = {
    "protocol 0": lambda: pickle.dumps(Payload(), 0),
    "protocol 5": lambda: pickle.dumps(Payload(), 5),
    "second pickle": lambda: pickle.dumps(1) + EVIL,
    "torch zip": _new_torch,
    "torch before 1.6": _legacy_torch,
    "joblib behind an array": lambda: _joblib({"a": NUMBERS, "b": Payload()}),
    "joblib behind an array of objects": lambda: _joblib(
        {"a": np.array(["x", None], dtype=object), "b": Payload()}
    ),
    "joblib in an array of objects": lambda: _joblib({"a": NUMBERS, "b": OBJECTS}),
    "joblib zlib": lambda: _joblib({"a": NUMBERS, "b": Payload()}, compress=("zlib", 1)),
    "joblib gzip": lambda: _joblib({"a": NUMBERS, "b": Payload()}, compress=("gzip", 1)),
    "joblib lzma": lambda: _joblib({"a": NUMBERS, "b": Payload()}, compress=("lzma", 0)),
    "joblib xz": lambda: lzma.compress(EVIL),
    "joblib bz2": lambda: bz2.compress(EVIL),
    "joblib before 0.10": lambda: b"ZF" + b"0x10".ljust(19) + zlib.compress(EVIL),
    "numpy objects": lambda: _npy(OBJECTS),
    "npz objects": lambda: _zip({"a.npy": _npy(NUMBERS), "b.npy": _npy(OBJECTS)}),
    "tar member": lambda: _tar("model/weights.bin", EVIL),
    "plain tar": lambda: _tar("weights.bin", EVIL, "w"),
    "zip in zip": lambda: _zip({"inner.zip": _zip({"m.pkl": EVIL})}),
    "zip behind a pickle": lambda: _zip({"readme.txt": b"hello"}, first=EVIL),
}


@pytest.mark.parametrize("place", HIDDEN)
def test_a_payload_is_found_where_it_hides(place: str, tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(HIDDEN[place]())

    assert "posix.system" in _refusal(path)


def _calls(function: bytes, *arguments: str) -> bytes:
    """A protocol 4 pickle that calls module\\nname with texts."""
    said = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in arguments)
    return b"\x80\x04c" + function + b"\n(" + said + b"tR."


@pytest.mark.parametrize(
    ("data", "named"),
    [
        # A dotted name walks through what a module has imported.
        (b"\x80\x04\x8c\x07logging\x8c\x09os.system\x93\x8c\x04true\x85R.", "logging.os.system"),
        (_calls(b"importlib\nimport_module", "os"), "importlib.import_module"),
        (_calls(b"__builtin__\neval", "1"), "eval"),  # Python 2's name
        (b"\x80\x02ccommands\ngetoutput\n(U\x04truetR.", "commands.getoutput"),
        (_calls(b"builtins\nstr", "os")[:-1] + b"\x8c\x06system\x93.", "made up"),
        (b"\x80\x02\x82\x01.", "made up"),  # the extension registry of copyreg
        (_calls(b"torch.storage\n_load_from_bytes", "x"), "_load_from_bytes"),
        (_calls(b"pandas.io.pickle\nread_pickle", "x"), "read_pickle"),
        (_calls(b"functools\npartial", "x"), "functools.partial"),
    ],
)
def test_ways_around_a_list_of_names(data: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "source"
    path.write_bytes(data)

    said = _refusal(path)

    assert said.startswith("unsafe_pickle")
    assert named in said


def test_what_models_consist_of_passes_as_unknown(tmp_path: Path) -> None:
    frame = np.random.default_rng(0).normal(size=(60, 3))
    pipeline = make_pipeline(
        ColumnTransformer([("scale", StandardScaler(), [0, 1, 2])]),
        RandomForestClassifier(n_estimators=3, random_state=0),
    ).fit(frame, frame[:, 0] > 0)
    path = tmp_path / "source"
    for data in (
        _joblib(pipeline),
        _joblib(pipeline, compress=3),
        pickle.dumps(pipeline),
        pickle.dumps({"lr": 1e-3, "steps": {1, 2}, "when": None}),
    ):
        path.write_bytes(data)
        scanning.refuse_unsafe(path)
        found = scanning.scan(path)
        assert found.dangerous == ()
        assert found.damaged == {}
    torch.save(
        {"state_dict": torch.nn.Linear(40, 40).state_dict(), "opt": {"lr": 0.1}, "epoch": 3}, path
    )
    scanning.refuse_unsafe(path)
    torch.save(torch.nn.Linear(3, 3), path)  # a whole module: others decide whether it is taken
    assert ("torch.nn.modules.linear", "Linear") in scanning.scan(path).imports


def test_a_file_without_pickles_is_only_looked_at(tmp_path: Path) -> None:
    path = model_files.save(model_files.plain(), tmp_path)
    for data in (
        path.read_bytes(),
        b"tree\nversion=v4\n",
        b"\x89PNG",
        b"",
        b"{}",
        b"class,a\n1,2\n",
    ):
        path.write_bytes(data)
        assert scanning.scan(path).dangerous == ()
        scanning.refuse_unsafe(path)
    # Bytes of a tensor may begin like a pickle.
    path.write_bytes(_zip({"archive/data/0": b"\x80\x02\x82\xff" * 50}))
    scanning.refuse_unsafe(path)


def test_what_is_cut_off_or_too_deep_is_said(tmp_path: Path) -> None:
    path = tmp_path / "source"
    whole = pickle.dumps([{"name": str(number)} for number in range(2_000)])
    path.write_bytes(whole[: len(whole) // 2])
    assert _refusal(path).startswith("pickle_damaged")

    path.write_bytes(functools.reduce(lambda data, _: gzip.compress(data), range(5), EVIL))
    assert _refusal(path).startswith("archive_unsafe")

    path.write_bytes(_zip({"big.zip": b"PK\x03\x04" + bytes(65 << 20)}))
    assert _refusal(path).startswith("archive_too_large")

    path.write_bytes(b"\x80\x04\x95" + (1 << 62).to_bytes(8, "little") + b"N.")  # a huge frame
    assert _refusal(path).startswith("pickle_damaged")

    path.write_bytes(b"\x80\x04\x96" + (1 << 62).to_bytes(8, "little") + b".")  # bytearray8
    assert _refusal(path).startswith("pickle_damaged")


@pytest.mark.parametrize("cut", range(20))
def test_a_file_cut_anywhere_ends_well(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "source"
    whole = HIDDEN["torch zip" if cut % 2 else "joblib in an array of objects"]()
    path.write_bytes(whole[: len(whole) * cut // 20])

    with suppress(Refused):  # anything else would be a 500
        scanning.refuse_unsafe(path)
    assert not MARKER.exists()


def test_two_gigabytes_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "source"
    size = 2 << 30
    with path.open("wb") as file:
        file.write(b"\x80\x05\x8e" + size.to_bytes(8, "little"))
        file.seek(size, io.SEEK_CUR)  # a hole: nothing is on the disk
        file.write(b"0" + EVIL[2:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()

    assert "posix.system" in _refusal(path)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024
    assert time.monotonic() - started < 60


def test_the_scanners_are_loaded_for_pickles_only(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from models_registry.exporting import scanning; "
        f"scanning.refuse_unsafe(Path({str(model_files.save(model_files.plain(), tmp_path))!r})); "
        "print(sorted({'modelscan','picklescan','numpy','h5py','torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_keras_layers_with_code_are_refused(tmp_path: Path) -> None:
    inner = {"class_name": "Lambda", "config": {"function": {"class_name": "__lambda__"}}}
    config = {
        "class_name": "Functional",
        "config": {"layers": [{"class_name": "Sequential", "config": {"layers": [inner]}}]},
    }
    path = tmp_path / "source"
    path.write_bytes(_zip({"config.json": json.dumps(config).encode(), "metadata.json": b"{}"}))
    assert _refusal(path).startswith("unsafe_lambda")

    path.unlink()
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
    assert _refusal(path).startswith("unsafe_lambda")

    path.write_bytes(_zip({"config.json": b'{"class_name": ["x"]}'}))
    scanning.refuse_unsafe(path)


def test_nothing_is_ever_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(logging, "reached", called.append, raising=False)
    copyreg.add_extension("logging", "reached", 77)
    path = tmp_path / "source"
    try:
        path.write_bytes(b"\x80\x02\x82\x4d(U\x01xtR.")
        assert _refusal(path).startswith("unsafe_pickle")
        path.write_bytes(_calls(b"logging\nreached", "x"))
        scanning.refuse_unsafe(path)
    finally:
        copyreg.remove_extension("logging", "reached", 77)
    assert called == []
