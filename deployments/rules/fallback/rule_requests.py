"""Requests as rows that a contract's rules can judge."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from models_registry.rules.contract_types import Tensor
from models_registry.rules.expressions import MAX_VALUES, is_single, row_values
from models_registry.rules.fallback_rules import row_of, settled

MOST_ROWS = 4096
"""Rows of one request that rules are asked for."""

_FORMATS = {
    "BOOL": "?", "INT8": "b", "UINT8": "B", "INT16": "h", "UINT16": "H", "INT32": "i",
    "UINT32": "I", "INT64": "q", "UINT64": "Q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip

Row = dict[str, object]


class UnreadableRequest(ValueError):
    """The bytes are no request that rules could be asked about."""


@dataclass(frozen=True, slots=True)
class RuleRequest:
    """`rows` have only the inputs that rules read, as far as these could be read."""

    rows: tuple[Row, ...]
    id: str | None = None


def read_v2(
    body: bytes, described: int | None, tensors: Mapping[str, Tensor], wanted: Collection[str]
) -> RuleRequest:
    """A request of the v2 protocol; `described` bytes of JSON stand before binary tensors.

    Raises UnreadableRequest when it is none, or has more than MOST_ROWS rows.
    """
    try:
        length = len(body) if described is None else described
        asked = json.loads(body[:length])
        inputs = asked["inputs"]
        batched = [one for one in inputs if _is_batched(tensors.get(one["name"]))]
        count = int((batched or [{"shape": [1]}])[0]["shape"][0])
        if not 0 <= count <= MOST_ROWS:
            raise UnreadableRequest(f"{count} rows")
        columns: dict[str, Sequence[object]] = {}
        at = length
        for one in inputs:
            size = (one.get("parameters") or {}).get("binary_data_size")
            data = b"" if size is None else body[at : at + int(size)]
            at += len(data)
            name = one["name"]
            if name in wanted and (tensor := tensors[name]).dtype == one["datatype"]:
                values = one["data"] if size is None else _from_bytes(tensor.dtype, data)
                columns[name] = _column(tensor, one["shape"], values, count)
        told = asked.get("id")
        rows = tuple(
            {name: column[row] for name, column in columns.items()} for row in range(count)
        )
        return RuleRequest(rows, told if isinstance(told, str) else None)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnreadableRequest(str(error)) from error
    except (struct.error, RecursionError) as error:
        raise UnreadableRequest(str(error)) from error


def read_v1(body: bytes, tensors: Mapping[str, Tensor]) -> RuleRequest:
    """A plain JSON request: `instances`, each an object of inputs, or the value of the only one.

    Raises UnreadableRequest as `read_v2` does.
    """
    try:
        instances = json.loads(body)["instances"]
        if not isinstance(instances, list) or len(instances) > MOST_ROWS:
            raise UnreadableRequest("no list of instances")
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableRequest(str(error)) from error
    only = next(iter(tensors)) if len(tensors) == 1 else ""
    return RuleRequest(
        tuple(row_of(one if isinstance(one, dict) else {only: one}, tensors) for one in instances)
    )


def _is_batched(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dims[:1] == ("batch",)


def _column(tensor: Tensor, shape: list[int], values: Any, count: int) -> Sequence[object]:
    """The input's value of each row; None where it cannot be used."""
    none: list[object] = [None] * count
    rows = int(shape[0]) if _is_batched(tensor) else 1
    size = prod(int(one) for one in (shape[1:] if _is_batched(tensor) else shape))
    fixed = row_values(tensor)
    if size > MAX_VALUES or (fixed is not None and fixed != size) or rows not in (1, count):
        return none
    flat = [settled(tensor.dtype, value) for value in _flat(values)]
    if len(flat) != rows * size:
        return none
    column: list[object] = (
        list(flat)
        if is_single(tensor)
        else [flat[start : start + size] for start in range(0, rows * size, size or 1)]
    )
    # An input without a batch is the same for each row.
    return column * count if len(column) == 1 else column


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        return [value]
    if value and isinstance(value[0], list):
        return [item for part in value for item in _flat(part)]
    return list(value)


def _from_bytes(dtype: str, data: bytes) -> list[Any]:
    if dtype == "BYTES":
        return _texts(data)
    if dtype == "BF16":
        # The upper half of an FP32.
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        words = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))
        return list(struct.unpack(f"<{len(halves)}f", words))
    code = _FORMATS[dtype]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def _texts(data: bytes) -> list[str | None]:
    """Each text is its length in 4 bytes and its UTF-8; None for what is no text."""
    found: list[str | None] = []
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        try:
            found.append(data[at + 4 : at + 4 + length].decode())
        except UnicodeDecodeError:
            found.append(None)
        at += 4 + length
    return found
