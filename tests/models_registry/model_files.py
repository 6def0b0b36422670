"""Small real model files for tests: good, odd, broken and hostile ones, made on the spot.

Payloads are harmless: they would only create a marker file that tests look for.
"""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MARKER = Path("/tmp/PWNED_covenant_test")

NET = '''
import torch
from torch import nn

class Scorer(nn.Module):
    """features FP32 [batch, 6] -> risk_score FP32 [batch, 1]"""
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5)
        )
        self.head = nn.Linear(width, 1)
    def forward(self, features):
        return {"risk_score": torch.sigmoid(self.head(self.body(features)))}
'''


class Payload:
    """Unpickling this would run a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {MARKER}",)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """One ONNX node."""
    return helper.make_node(kind, list(inputs), list(outputs), **attributes)


def value(name: str, shape: Sequence[int | str] | None, dtype: int = TensorProto.FLOAT) -> Any:
    """One graph input or output."""
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: dict[str, Any] | None = None,
    *,
    opset: int = 17,
    ir: int = 8,
    domains: Sequence[tuple[str, int]] = (),
) -> onnx.ModelProto:
    """An ONNX model, unchecked."""
    tensors = [
        numpy_helper.from_array(np.asarray(array), key) for key, array in (weights or {}).items()
    ]
    built = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), tensors)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*pair) for pair in domains)]
    return helper.make_model(built, opset_imports=imports, ir_version=ir)


def layers(dtype: Any = np.float32, *, seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
    """Nodes and weights of x [N, 5] -> y [N, 2]."""
    rng = np.random.default_rng(seed)
    nodes = [
        node("MatMul", ["x", "w1"], ["m"]),
        node("Tanh", ["m"], ["t"]),
        node("MatMul", ["t", "w2"], ["y"]),
    ]
    weights = {
        "w1": rng.standard_normal((5, 9)).astype(dtype),
        "w2": rng.standard_normal((9, 2)).astype(dtype),
    }
    return nodes, weights


def plain(**options: Any) -> onnx.ModelProto:
    """x FP32 [N, 5] -> y FP32 [N, 2]."""
    nodes, weights = layers()
    return graph(nodes, [value("x", ["N", 5])], [value("y", ["N", 2])], weights, **options)


def loop(*, forever: bool) -> onnx.ModelProto:
    """x halved n times; `forever`: the count is a constant that no machine reaches."""
    body = helper.make_graph(
        [node("Mul", ["a", "half"], ["b"]), node("Identity", ["go"], ["on"])],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("a", None)],
        [value("on", [], TensorProto.BOOL), value("b", None)],
        [numpy_helper.from_array(np.float32(0.5), "half")],
    )
    weights: dict[str, Any] = {"yes": np.array(True)}
    inputs = [value("x", ["N", 3])]
    if forever:
        weights["n"] = np.int64(2**60)
    else:
        inputs.append(value("n", [], TensorProto.INT64))
    return graph(
        [node("Loop", ["n", "yes", "x"], ["y"], body=body)],
        inputs,
        [value("y", ["N", 3])],
        weights,
    )


def save(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    """Write the model as one file."""
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def external(folder: Path) -> tuple[Path, Path]:
    """model.onnx with its weights in another file: (the zip of both, the .onnx alone)."""
    nodes, weights = layers()
    model = graph(nodes, [value("x", ["N", 5])], [value("y", ["N", 2])], weights)
    path = folder / "model.onnx"
    onnx.save_model(
        model,
        str(path),
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )
    bundle = folder / "bundle.zip"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in (path, folder / "model.onnx.data"):
            archive.write(part, part.name)
    return bundle, path


def outside(folder: Path) -> Path:
    """An ONNX file that wants /etc/hostname as its weights."""
    tensor = TensorProto(name="w", data_type=TensorProto.UINT8, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", "../" * 9 + "etc/hostname"), ("length", "4")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    model = graph(
        [node("Identity", ["w"], ["y"])], [value("x", [1])], [value("y", [4], TensorProto.UINT8)]
    )
    model.graph.initializer.append(tensor)
    return save(model, folder)


def evil_tar(folder: Path) -> Path:
    """A tar.gz with a good model and a member outside its folder."""
    path = folder / "bundle.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in (
            ("model.onnx", plain().SerializeToString()),
            ("../" * 9 + str(MARKER).lstrip("/"), b"x"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def evil_zip(folder: Path) -> Path:
    """A zip with a good model and a member outside its folder."""
    path = folder / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.onnx", plain().SerializeToString())
        archive.writestr("../" * 9 + str(MARKER).lstrip("/"), b"x")
    return path


def zip_bomb(folder: Path) -> Path:
    """A torch-like zip that inflates to 256 MiB."""
    path = folder / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"w": 0}, 2))
        with archive.open("archive/data/0", "w") as member:
            for _ in range(256):
                member.write(bytes(1 << 20))
    return path


def evil_pickle(folder: Path) -> Path:
    """A bare pickle that would run a command."""
    path = folder / "model.pkl"
    path.write_bytes(pickle.dumps(Payload(), 4))
    return path
