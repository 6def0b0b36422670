"""Protobufs have no magic bytes: they are told by walking their top-level fields.

ModelProto (onnx.proto): 1 ir_version, 2-4, 6 strings, 5 model_version, 7 graph, 8 opset_import.
SavedModel (saved_model.proto): 1 schema version, 2 meta graphs. GraphDef (graph.proto): 1 nodes,
2 library, 3 version, 4 versions. Model of Core ML (Model.proto): 1 specification version,
2 description, 10 is updatable, from 200 on the kinds of models. NetParameter (caffe.proto):
1 name, 2 and 100 layers. ProgramDesc (framework.proto of Paddle): 1 blocks, 4 version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import IO, Final

from models_registry.adapters.formats.detected import (
    ONNX,
    TENSORFLOW,
    Detected,
    taken,
    unknown,
)

_MAX_FIELDS: Final = 200_000
_ONNX_FIELDS: Final = {
    **dict.fromkeys((1, 5), 0),
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), 2),
}


@dataclass
class _Walk:
    """Fields as (number, wire type) with the place of the first one's content, and how it ended.

    `position` is where the walk stood; `whole` that it ended exactly at the end of the file.
    """

    seen: dict[tuple[int, int], int] = field(default_factory=dict)
    position: int = 0
    whole: bool = False
    is_onnx: bool = True

    def has(self, number: int) -> bool:
        """Whether a field of that number was met, of any wire type."""
        return any(one == number for one, _ in self.seen)

    @property
    def numbers(self) -> set[int]:
        """All field numbers."""
        return {number for number, _ in self.seen}


def told(stream: IO[bytes], size: int) -> Detected:
    """An ONNX model, another framework's protobuf by name, or unknown."""
    walk = _walked(stream, size)
    if walk.is_onnx and walk.whole and walk.has(7) and walk.numbers & {1, 8}:
        return taken(ONNX, "ONNX", "An ONNX model.")
    if (other := _other(stream, walk)) is not None:
        return other
    if not walk.whole and walk.has(7) and (walk.is_onnx or walk.has(1)):
        return _cut(size, walk.position)
    return unknown()


def _walked(stream: IO[bytes], size: int) -> _Walk:
    walk = _Walk()
    for _ in range(_MAX_FIELDS):
        if walk.position >= size:
            break
        stream.seek(walk.position)
        piece = stream.read(24)
        key, used = varint(piece)
        number, wire = key >> 3, key & 7
        if not used or not number or number > 10_000:
            return walk
        start = walk.position + used
        end = _end(piece, used, start, wire)
        if end is None:
            return walk
        walk.is_onnx = walk.is_onnx and _ONNX_FIELDS.get(number) == wire
        walk.seen.setdefault((number, wire), start)
        walk.position = end
    walk.whole = walk.position == size
    return walk


def _end(piece: bytes, used: int, start: int, wire: int) -> int | None:
    """Where a field ends; None for wire types that no model uses."""
    if wire == 0:
        _, more = varint(piece[used:])
        return start + more if more else None
    if wire == 2:
        length, more = varint(piece[used:])
        return start + more + length if more else None
    return start + {1: 8, 5: 4}[wire] if wire in {1, 5} else None


def _content(stream: IO[bytes], walk: _Walk, number: int) -> bytes:
    """The first bytes inside of a field with a length."""
    start = walk.seen.get((number, 2))
    if start is None:
        return b""
    stream.seek(start)
    piece = stream.read(512)
    _, used = varint(piece)
    return piece[used:]


def _other(stream: IO[bytes], walk: _Walk) -> Detected | None:
    numbers = walk.numbers
    first = _content(stream, walk, 1)
    if {1, 2} <= numbers and (1, 0) in walk.seen and any(200 <= n <= 3000 for n in numbers):
        return Detected(
            "coreml",
            "Core ML",
            "This is a Core ML model (.mlmodel).",
            "Core ML runs on Apple devices. Export the original model to ONNX and upload that.",
        )
    if numbers == {1, 2} and (1, 0) in walk.seen and _content(stream, walk, 2)[:1] == b"\x0a":
        return saved_model()
    if first[:2] == b"\x08\x00" and first[2:3] == b"\x10" and numbers <= {1, 4, 5}:
        return paddle()
    if numbers & {2, 100} and (1, 2) in walk.seen and numbers <= set(range(1, 9)) | {100}:
        layer = _content(stream, walk, 100 if walk.has(100) else 2)
        if first[:1].isalpha() and layer[:1] in {b"\x0a", b"\x12", b"\x22"} and not walk.has(7):
            return Detected(
                "caffe",
                "Caffe",
                "This is a Caffe network (.caffemodel).",
                "Convert it with caffe2onnx or MMdnn where it was trained, or load its weights "
                "in PyTorch, and upload ONNX.",
            )
    if numbers <= {1, 2, 3, 4} and _is_node(first):
        return Detected(
            "tensorflow_graph",
            "TensorFlow graph",
            "This is a frozen TensorFlow graph (.pb).",
            "Convert it with python -m tf2onnx.convert --graphdef model.pb --inputs … "
            "--outputs … and upload the ONNX file.",
        )
    return None


def _is_node(data: bytes) -> bool:
    """Whether a NodeDef begins here: its name (1), then its operator (2), both plain text."""
    if data[:1] != b"\x0a":
        return False
    length, used = varint(data[1:])
    name = data[1 + used : 1 + used + length]
    rest = data[1 + used + length :]
    if not used or not name or rest[:1] != b"\x12":
        return False
    length, used = varint(rest[1:])
    operator = rest[1 + used : 1 + used + length]
    return name.isascii() and len(operator) == length > 0 and operator.isalnum()


def saved_model() -> Detected:
    """TensorFlow's SavedModel, alone or in an archive."""
    return Detected(
        "tensorflow_saved_model",
        "TensorFlow SavedModel",
        "This is a TensorFlow SavedModel.",
        TENSORFLOW.replace("python -m tf2onnx.convert", "tf2onnx.convert --saved-model"),
    )


def paddle() -> Detected:
    """PaddlePaddle's program, alone or in an archive."""
    return Detected(
        "paddle",
        "PaddlePaddle",
        "This is a PaddlePaddle model (.pdmodel).",
        "Convert it with paddle2onnx --model_dir … --save_file model.onnx and upload the ONNX "
        "file.",
    )


def _cut(size: int, position: int) -> Detected:
    return Detected(
        "onnx_damaged",
        "Damaged ONNX file",
        f"The file begins like an ONNX model but is cut off or damaged: it has {size} bytes where "
        f"at least {max(position, size + 1)} belong.",
        "Save it again, compare its SHA-256, and upload it once more.",
    )


def varint(data: bytes) -> tuple[int, int]:
    """Value and length of a protobuf varint; length 0 when there is none."""
    value = 0
    for index, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, index + 1
    return 0, 0
