"""The weights of an ONNX graph: inside its file, or in files beside it (ONNX, "External Data").

One protobuf message ends at 2 GB, and everything that handles it holds it in memory several times.
So weights beyond a limit are written to one file beside the graph, streamed, each at a page's
start, where ONNX Runtime maps them instead of reading them. What a stranger's graph says of places
is checked first: names stay in the graph's folder, ranges in their file, and lengths are what the
shape needs.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import onnx
from onnx import TensorProto, numpy_helper

from models_registry.exporting import archives
from models_registry.exporting.protocol import MODEL_DATA, Refused

MAX_MESSAGE_BYTES: Final = 2 * 1024**3 - 1  # one protobuf message (protobuf.dev, "Encoding")
ALIGNMENT: Final = (
    4096  # "offset … SHOULD be multiples 4096 (page size) to enable mmap" (onnx.proto)
)
MAX_ELEMENTS: Final = 64 * 1024**3  # of one tensor: the largest upload has no more bytes
SMALL_BYTES: Final = 1024
"""Tensors up to this size stay in the graph: shapes and axes, whose values inference reads."""

_CHUNK: Final = 4 * archives.MIB
_NARROW_BITS: Final = {
    TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    **{getattr(TensorProto, name): 2 for name in ("UINT2", "INT2") if hasattr(TensorProto, name)},
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's bytes lie."""

    path: Path
    offset: int
    length: int


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all graphs inside its nodes (If, Loop, Scan)."""
    yield graph
    yield from _inner(graph.node)


def _inner(nodes: object) -> Iterator[onnx.GraphProto]:
    for node in nodes:  # type: ignore[attr-defined] # a repeated field, no stubs
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from graphs(inner)


def tensors(model: onnx.ModelProto) -> Iterator[tuple[TensorProto, bool]]:
    """Every tensor of the model, functions included; whether it may lie beside the graph.

    Only initializers may: what an attribute or a sparse tensor holds is read while loading.
    """
    trained = [
        part for info in model.training_info for part in (info.initialization, info.algorithm)
    ]
    roots = [model.graph, *trained]
    parts = [part for root in roots for part in graphs(root)]
    parts += [part for function in model.functions for part in _inner(function.node)]
    for part in parts:
        for tensor in part.initializer:
            yield tensor, True
        for sparse in part.sparse_initializer:
            yield from ((sparse.values, False), (sparse.indices, False))
    for nodes in (*(part.node for part in parts), *(one.node for one in model.functions)):
        for node in nodes:
            for attribute in node.attribute:
                yield from ((tensor, False) for tensor in _held(attribute))


def _held(attribute: onnx.AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = [*attribute.sparse_tensors]
    if attribute.HasField("sparse_tensor"):
        sparse.append(attribute.sparse_tensor)
    for one in sparse:
        yield from (one.values, one.indices)


def is_external(tensor: TensorProto) -> bool:
    """Whether its bytes lie in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def beside(model: onnx.ModelProto) -> tuple[str, ...]:
    """Names of the other files that the graph refers to, as it writes them."""
    return tuple(
        sorted({_entries(t).get("location", "") for t, _ in tensors(model) if is_external(t)})
    )


def total_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all tensors, wherever they lie, by their shapes."""
    # Asking the message for its own size would write it out once more in memory.
    return sum(_size(tensor) for tensor, _ in tensors(model))


def attach(model: onnx.ModelProto, folder: Path, *, keep_above: int) -> None:
    """Check every place that the graph names, and read the weights into it.

    A model of more than `keep_above` bytes in all keeps its weights where they are. `Refused` for
    a place outside `folder`, a missing file, a wrong length, and tensors that overlap.
    """
    found = _places(model, folder)
    if total_bytes(model) > keep_above:
        return
    for tensor, _, place in found:
        if place is not None:
            _merge(tensor, place)


def write(model: onnx.ModelProto, folder: Path, path: Path, *, keep_above: int) -> None:
    """Write the model to `path`, its weights beside it as model.onnx.data above `keep_above` bytes.

    `folder` is where weights that are not in the model lie. The model is changed: it is what was
    written. The same model gives the same bytes.
    """
    if total_bytes(model) <= keep_above:
        attach(model, folder, keep_above=keep_above)
    else:
        _refuse_large_constants(model)
        _part(model, folder, path.with_name(MODEL_DATA))
    path.write_bytes(model.SerializeToString(deterministic=True))


def _refuse_large_constants(model: onnx.ModelProto) -> None:
    kept = sum(_size(tensor) for tensor, movable in tensors(model) if not movable)
    if kept > MAX_MESSAGE_BYTES:
        raise Refused(
            "onnx_too_large",
            f"The graph has constants of {kept:,} bytes, which cannot lie beside it; one ONNX file "
            "holds 2 GB.",
            "Make large constants of the graph initializers, or store them in FP16.",
        )


def _part(model: onnx.ModelProto, folder: Path, data: Path) -> None:
    """Move the weights from the graph, or from other files, into one file, counted and aligned."""
    found = _places(model, folder)
    written: dict[Place, int] = {}
    with data.open("xb") as out:
        for tensor, movable, place in found:
            if place is not None and (not movable or place.length <= SMALL_BYTES):
                _merge(tensor, place)
            elif place is not None:
                # Tied weights share a place and go on sharing it.
                if place not in written:
                    written[place] = _pad(out)
                    _copy(place, out)
                _point(tensor, written[place], place.length)
            elif movable and (raw := _raw(tensor)) is not None:
                offset = _pad(out)
                out.write(raw)
                _point(tensor, offset, len(raw))
        out.flush()
        os.fsync(out.fileno())


def _places(model: onnx.ModelProto, folder: Path) -> list[tuple[TensorProto, bool, Place | None]]:
    """Each tensor, whether it may lie beside the graph, and where it lies outside of it now."""
    found: list[tuple[TensorProto, bool, Place | None]] = []
    missing: set[str] = set()
    for tensor, movable in tensors(model):
        _refuse_huge(tensor)
        if not is_external(tensor):
            found.append((tensor, movable, None))
            continue
        entries = _entries(tensor)
        target = _target(tensor, entries.get("location", ""), folder)
        if target.is_file():
            found.append((tensor, movable, _place(tensor, target, entries)))
        else:
            missing.add(entries["location"])
    if missing:
        raise Refused(
            "external_data_missing",
            "The model's weights are in another file that is not here: "
            f"{', '.join(sorted(missing))[:300]}.",
            "Upload that file as well, under this name, or a zip archive with the .onnx file "
            "and that file side by side.",
            "/data_uploads",
        )
    _refuse_overlap(found)
    return found


def _target(tensor: TensorProto, location: str, folder: Path) -> Path:
    try:
        target = (folder / location).resolve()
        inside = bool(location) and target.is_relative_to(folder.resolve())
        link = (folder / location).is_symlink()
    except (OSError, ValueError):  # a name that no file can have
        target, inside, link = folder, False, False
    if not inside or link or not archives.is_safe(location):
        raise Refused(
            "external_data_unsafe",
            f"The tensor “{tensor.name[:80]}” wants its data from outside the model's folder: "
            f"{location[:120]!r}.",
            "Save the model again with onnx.save_model(…, save_as_external_data=True, "
            "location='model.onnx.data').",
        )
    return target


def _place(tensor: TensorProto, target: Path, entries: dict[str, str]) -> Place:
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or -1)
    except ValueError:
        offset, length = -1, -1
    size, needed = target.stat().st_size, _needed(tensor)
    name = f"The tensor “{tensor.name[:80]}”"
    if offset < 0 or offset + needed > size:
        raise Refused(
            "external_data_damaged",
            f"{name} lies beyond the end of {target.name[:120]!r}: it ends at byte "
            f"{max(offset, 0) + needed:,}, the file has {size:,}.",
            "The data file is cut off or another one: upload the file that was saved with this "
            "graph.",
        )
    if length not in (-1, needed):
        raise Refused(
            "external_data_damaged",
            f"{name} has {length:,} bytes in {target.name[:120]!r} where its shape "
            f"{list(tensor.dims)} needs {needed:,}.",
            "The graph does not belong to this data file, or was damaged: save both again.",
        )
    return Place(target, offset, needed)


def _refuse_overlap(found: list[tuple[TensorProto, bool, Place | None]]) -> None:
    """Two tensors may share all of their bytes (tied weights), or none."""
    ordered = sorted(
        ((place, tensor) for tensor, _, place in found if place and place.length),
        key=lambda item: (str(item[0].path), item[0].offset, item[0].length),
    )
    for (one, tensor), (other, follower) in itertools.pairwise(ordered):
        apart = one.path != other.path or other.offset >= one.offset + one.length
        if not apart and one != other:
            raise Refused(
                "external_data_damaged",
                f"The tensors “{tensor.name[:80]}” and “{follower.name[:80]}” overlap in "
                f"{one.path.name[:120]!r}.",
                "The graph does not belong to this data file, or was damaged: save both again.",
            )


def _needed(tensor: TensorProto) -> int:
    """Bytes that a tensor's shape and type need. `Refused` for what cannot lie in a file."""
    if tensor.data_type in _NARROW_BITS:
        return -(-math.prod(tensor.dims) * _NARROW_BITS[tensor.data_type] // 8)
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, ValueError, TypeError):
        dtype = None
    if dtype is None or tensor.data_type == TensorProto.STRING:
        raise Refused(
            "external_data_damaged",
            f"The tensor “{tensor.name[:80]}” has a type that cannot lie in another file.",
            "Save the model again; text stays in the .onnx file.",
        )
    return math.prod(tensor.dims) * int(dtype.itemsize)


def _size(tensor: TensorProto) -> int:
    """Bytes of a tensor, by its shape; text, and what no file can hold, counts nothing."""
    try:
        return _needed(tensor)
    except Refused:
        return 0


def _refuse_huge(tensor: TensorProto) -> None:
    most = MAX_ELEMENTS if is_external(tensor) else MAX_MESSAGE_BYTES
    if min(tensor.dims, default=0) < 0 or math.prod(tensor.dims) > most:
        raise Refused(
            "tensor_too_large",
            f"The tensor “{tensor.name[:80]}” claims {' x '.join(map(str, tensor.dims))} elements, "
            "more than an ONNX file can hold.",
            "The file is damaged or was made to do harm; export the model again.",
        )


def _merge(tensor: TensorProto, place: Place) -> None:
    with place.path.open("rb") as stream:
        stream.seek(place.offset)
        tensor.raw_data = stream.read(place.length)
    tensor.ClearField("data_location")
    del tensor.external_data[:]


def _raw(tensor: TensorProto) -> bytes | None:
    """The bytes of a tensor that lies in the graph, if it is worth moving; they leave the graph."""
    if _size(tensor) <= SMALL_BYTES:
        return None
    if not tensor.HasField("raw_data"):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    raw = bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    return raw


def _pad(out: BinaryIO) -> int:
    """Go on at the next page; gives where that is."""
    gap = -out.tell() % ALIGNMENT
    out.write(bytes(gap))
    return out.tell()


def _copy(place: Place, out: BinaryIO) -> None:
    left = place.length
    with place.path.open("rb") as stream:
        stream.seek(place.offset)
        while left:
            chunk = stream.read(min(left, _CHUNK))
            if not chunk:
                raise OSError(f"{place.path.name} became shorter while it was read")
            out.write(chunk)
            left -= len(chunk)


def _point(tensor: TensorProto, offset: int, length: int) -> None:
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", MODEL_DATA), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}
