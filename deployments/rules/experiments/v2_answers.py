"""An answer of the v2 inference protocol, in JSON or with binary tensors, as numpy arrays."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

_TYPES = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


class UnreadableAnswer(ValueError):
    """The bytes are no answer of the v2 protocol."""


@dataclass(frozen=True, slots=True)
class TensorAnswer:
    """One output; `values` has the shape that the answer claims (texts are of dtype object)."""

    datatype: str
    values: Values


def parse_answer(body: bytes, described: int | None = None) -> dict[str, TensorAnswer]:
    """The outputs by name; `described` is how many bytes of JSON stand before binary tensors.

    Raises UnreadableAnswer when it is no v2 answer, or holds other data than its shapes say.
    """
    return _tensors(body, described, "outputs")


def parse_inputs(body: bytes, described: int | None = None) -> dict[str, TensorAnswer]:
    """The inputs of a request, in the same form. Raises UnreadableAnswer."""
    return _tensors(body, described, "inputs")


def _tensors(body: bytes, described: int | None, member: str) -> dict[str, TensorAnswer]:
    length = len(body) if described is None else described
    try:
        found, at = {}, length
        for one in json.loads(body[:length])[member]:
            size = (one.get("parameters") or {}).get("binary_data_size")
            if size is None:
                values = _from_json(one)
            else:
                values = _from_bytes(one, body[at : at + int(size)])
                at += int(size)
            found[str(one["name"])] = TensorAnswer(str(one["datatype"]), values)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        struct.error,
    ) as error:
        raise UnreadableAnswer(str(error) or type(error).__name__) from error
    return found


def _shape(one: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(length) for length in one["shape"])


def _from_json(one: Mapping[str, Any]) -> Values:
    data, shape = one["data"], _shape(one)
    if one["datatype"] == "BYTES":
        return np.array(_flat(data), dtype=object).reshape(shape)
    dtype = "<f4" if one["datatype"] == "BF16" else _TYPES[one["datatype"]]
    if "f" in dtype:
        # Triton writes what JSON has no number for as null or as a word.
        data = [math.nan if value is None else value for value in _flat(data)]
    return np.asarray(data, dtype=dtype).reshape(shape)


def _flat(data: Any) -> list[Any]:
    if not isinstance(data, list):
        return [data]
    if data and isinstance(data[0], list):
        return [value for part in data for value in _flat(part)]
    return data


def _from_bytes(one: Mapping[str, Any], data: bytes) -> Values:
    shape = _shape(one)
    if one["datatype"] == "BYTES":
        return np.array(_texts(data), dtype=object).reshape(shape)
    if one["datatype"] == "BF16":
        # The upper half of an FP32.
        upper = np.frombuffer(data, "<u2").astype("<u4") << 16
        return upper.view("<f4").reshape(shape)
    return np.frombuffer(data, _TYPES[one["datatype"]]).reshape(shape)


def _texts(data: bytes) -> list[str]:
    """Each text is its length in 4 bytes and its UTF-8."""
    texts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        texts.append(data[at + 4 : at + 4 + length].decode("utf-8", "replace"))
        at += 4 + length
    return texts


def wanted_outputs(body: bytes, described: int | None = None) -> frozenset[str]:
    """The outputs that a request names; none stands for all of them.

    Raises UnreadableAnswer for a request that no answer can be judged by: one that is no JSON, or
    that asks for the classes of an output in place of its values.
    """
    try:
        outputs = json.loads(body if described is None else body[:described]).get("outputs") or []
        if any("classification" in (one.get("parameters") or {}) for one in outputs):
            raise UnreadableAnswer("classes are asked for")
        return frozenset(str(one["name"]) for one in outputs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableAnswer(str(error)) from error
