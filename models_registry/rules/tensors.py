"""Data types, shapes and axis names of inputs and outputs, as people write and we keep them.

Names of data types are those of the KServe v2 protocol ("Tensor Data Types"), which Triton speaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from models_registry.exporting.protocol import TensorSpec

# KServe v2 name -> (numpy name, ONNX TensorProto.DataType number).
DTYPES: Final[dict[str, tuple[str, int]]] = {
    "BOOL": ("bool", 9),
    "UINT8": ("uint8", 2),
    "UINT16": ("uint16", 4),
    "UINT32": ("uint32", 12),
    "UINT64": ("uint64", 13),
    "INT8": ("int8", 3),
    "INT16": ("int16", 5),
    "INT32": ("int32", 6),
    "INT64": ("int64", 7),
    "FP16": ("float16", 10),
    "FP32": ("float32", 1),
    "FP64": ("float64", 11),
    "BYTES": ("str", 8),
}
FLOATS: Final = frozenset({"FP16", "FP32", "FP64"})
INTEGERS: Final = frozenset(name for name in DTYPES if name.startswith(("INT", "UINT")))

# Types that the protocol has no name for, by their number in ONNX (onnx.proto, DataType): they may
# occur inside a model, not at its ends.
UNSENDABLE: Final[dict[int, tuple[str, str]]] = {
    14: ("complex64", "split it into its real and its imaginary part, both FP32"),
    15: ("complex128", "split it into its real and its imaginary part, both FP64"),
    16: ("bfloat16", "cast it to FP32"),
    17: ("float8e4m3fn", "cast it to FP16 or FP32"),
    18: ("float8e4m3fnuz", "cast it to FP16 or FP32"),
    19: ("float8e5m2", "cast it to FP16 or FP32"),
    20: ("float8e5m2fnuz", "cast it to FP16 or FP32"),
    21: ("uint4", "cast it to UINT8"),
    22: ("int4", "cast it to INT8"),
    23: ("float4e2m1", "cast it to FP16 or FP32"),
    24: ("float8e8m0", "cast it to FP16 or FP32"),
    25: ("uint2", "cast it to UINT8"),
    26: ("int2", "cast it to INT8"),
}

_ALIASES: Final[dict[str, str]] = {
    "float": "FP32",
    "double": "FP64",
    "half": "FP16",
    "long": "INT64",
    "int": "INT32",
    "short": "INT16",
    "byte": "UINT8",
    "string": "BYTES",
    "str": "BYTES",
    "object": "BYTES",
} | {numpy_name: name for name, (numpy_name, _) in DTYPES.items()}

MAX_RANK: Final = 16
MAX_NAME: Final = 256
MAX_SIZE: Final = 2**31 - 1
BATCH: Final = "batch"


class SpecError(ValueError):
    """One field of a tensor's description is wrong; `pointer` is an RFC 6901 JSON pointer."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}")
        self.pointer = pointer
        self.detail = detail


def dtype(text: str) -> str:
    """The KServe name for FP32, float32, torch.float32, tensor(float) and the like.

    Raises ValueError with the list of names that are taken.
    """
    plain = text.strip()
    if plain.upper() in DTYPES:
        return plain.upper()
    if plain.upper().startswith("TYPE_"):
        return dtype("BYTES" if plain.upper() == "TYPE_STRING" else plain[5:])
    inner = re.fullmatch(r"tensor\((\w+)\)", plain)
    plain = (inner.group(1) if inner else plain).lower().removeprefix("torch.")
    plain = plain.removeprefix("numpy.").removeprefix("np.")
    if plain in _ALIASES:
        return _ALIASES[plain]
    for name, mend in UNSENDABLE.values():
        if plain.replace("_", "") in (name, {"bfloat16": "bf16", "complex64": "complex"}.get(name)):
            raise ValueError(f"{name} cannot be sent to Triton: {mend} inside the model")
    raise ValueError(f"“{text}” is not a data type; use one of {', '.join(DTYPES)}")


def from_onnx(number: int) -> str:
    """KServe name of an ONNX TensorProto.DataType; ValueError when Triton has none for it."""
    for name, (_, onnx_number) in DTYPES.items():
        if onnx_number == number:
            return name
    name, mend = UNSENDABLE.get(number, (f"ONNX data type number {number}", "cast it to FP32"))
    raise ValueError(f"{name} cannot be sent to Triton: {mend} inside the model")


def parse(
    documents: Sequence[Mapping[str, Any]], *, pointer: str = "/inputs"
) -> tuple[TensorSpec, ...]:
    """Inputs or outputs as a person or a program wrote them, made exact.

    A size may be an integer, -1 or null (free), or a name (free, with that name); `dims` may hold
    names and sizes in the same way and wins where both speak. `SpecError` at the first fault.
    """
    if not isinstance(documents, Sequence) or isinstance(documents, str | bytes):
        raise SpecError(pointer, "give a list, one entry for each tensor")
    specs = tuple(_one(document, f"{pointer}/{index}") for index, document in enumerate(documents))
    seen: set[str] = set()
    for index, spec in enumerate(specs):
        if spec.name in seen:
            raise SpecError(f"{pointer}/{index}/name", f"the name “{spec.name}” is used twice")
        seen.add(spec.name)
    return specs


def _one(document: Mapping[str, Any], at: str) -> TensorSpec:
    if not isinstance(document, Mapping):
        raise SpecError(at, "give an object with name, dtype and shape")
    unknown = set(document) - {"name", "dtype", "shape", "dims", "min", "max", "nan", "description"}
    if unknown:
        raise SpecError(f"{at}/{min(unknown)}", "is not a field of a tensor")
    name = document.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise SpecError(f"{at}/name", f"give a name of 1 to {MAX_NAME} printable characters")
    try:
        kind = dtype(str(document.get("dtype", "")))
    except ValueError as error:
        raise SpecError(f"{at}/dtype", str(error)) from None
    shape, dims = _axes(document, at)
    low, high = _bound(document, "min", at), _bound(document, "max", at)
    if low is not None and high is not None and low > high:
        raise SpecError(f"{at}/min", f"min {low:g} is above max {high:g}")
    return TensorSpec(name, kind, shape, dims, low, high)


def _bound(document: Mapping[str, Any], key: str, at: str) -> float | None:
    value = document.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        raise SpecError(f"{at}/{key}", "give a number")
    return float(value)


def _axes(document: Mapping[str, Any], at: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    shape, dims = document.get("shape"), document.get("dims")
    if shape is None and dims is None:
        raise SpecError(f"{at}/shape", "give the shape, for example [-1, 10]")
    for key, value in (("shape", shape), ("dims", dims)):
        if value is not None and not isinstance(value, list | tuple):
            raise SpecError(f"{at}/{key}", "give a list, one entry for each axis")
    rows = list(shape) if shape is not None else [None] * len(dims or ())
    names = list(dims) if dims is not None else [""] * len(rows)
    if dims is not None and not dims and rows:
        names = [""] * len(rows)
    if len(rows) != len(names):
        raise SpecError(f"{at}/dims", f"names {len(names)} axes where the shape has {len(rows)}")
    if len(rows) > MAX_RANK:
        raise SpecError(f"{at}/shape", f"has {len(rows)} axes; at most {MAX_RANK} are possible")
    pairs = [
        _axis(size, name, index, at)
        for index, (size, name) in enumerate(zip(rows, names, strict=True))
    ]
    return tuple(size for size, _ in pairs), tuple(name for _, name in pairs)


def _axis(size: object, name: object, index: int, at: str) -> tuple[int, str]:
    if isinstance(name, int) and not isinstance(name, bool):
        if isinstance(size, int) and size not in (-1, name):
            raise SpecError(f"{at}/dims/{index}", f"says {name} where the shape says {size}")
        size, name = name, ""
    if isinstance(size, str):
        size, name = -1, name or size
    number = -1 if size is None else size
    if (
        isinstance(number, bool)
        or not isinstance(number, int)
        or number == 0
        or not -1 <= number <= MAX_SIZE
    ):
        raise SpecError(f"{at}/shape/{index}", "give a size of at least 1, or -1 where it is free")
    if name is not None and not isinstance(name, str):
        raise SpecError(f"{at}/dims/{index}", "give a name, or a size")
    label = (name or "").strip()
    if label.lstrip("-").isdigit():
        return (
            _axis(number, int(label), index, at) if int(label) > 0 else _axis(number, "", index, at)
        )
    if len(label) > 128 or not label.isprintable():
        raise SpecError(f"{at}/dims/{index}", "give a name of at most 128 printable characters")
    if number == -1 and not label:
        label = BATCH if index == 0 else f"dim_{index}"
    return number, label


def is_free(spec: TensorSpec, axis: int) -> bool:
    """Whether callers may choose this size (it has a name)."""
    return bool(spec.dims[axis]) if axis < len(spec.dims) else spec.shape[axis] == -1


def free_names(specs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Names of all free axes, each once, in order of appearance."""
    names: dict[str, None] = {}
    for spec in specs:
        for axis in range(len(spec.shape)):
            if is_free(spec, axis):
                names[spec.dims[axis]] = None
    return tuple(names)


def batch_name(specs: Sequence[TensorSpec]) -> str | None:
    """The name of the axis that counts requests: the first free axis 0 of any input, or None."""
    for spec in specs:
        if spec.shape and is_free(spec, 0):
            return spec.dims[0]
    return None


def size_hints(specs: Sequence[TensorSpec]) -> dict[str, int]:
    """Sizes that the person gave beside the names of free axes; the first one wins."""
    hints: dict[str, int] = {}
    for spec in specs:
        for size, name in zip(spec.shape, spec.dims, strict=True):
            if name and size > 0:
                hints.setdefault(name, size)
    return hints


def concrete(spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape with each free axis at its size in `sizes`."""
    return tuple(
        sizes[name] if name else size for size, name in zip(spec.shape, spec.dims, strict=True)
    )


def as_served(spec: TensorSpec, *, batched: bool) -> TensorSpec:
    """What callers see of a graph's tensor: Triton has at least one axis beside the batch.

    A row without a shape is configured as [1] and reshaped; a plain number of a model without
    batching is [1], which the backend gives the graph as it is. (Triton, "Model Configuration",
    Reshape; onnxruntime_backend pull request 213, release 23.10)
    """
    if len(spec.shape) != (1 if batched else 0):
        return spec
    return replace(spec, shape=(*spec.shape, 1), dims=(*spec.dims, ""))
