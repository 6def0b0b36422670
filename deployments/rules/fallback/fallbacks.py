"""What the gateway answers by itself when no model may: the contract's fallback as v2 tensors.

A v2 caller sent a batch and its client library will look for the contract's outputs in that
batch's shape, so the fallback's plain values are turned into one row per output here, once;
the gateway only repeats the row for the batch size of each request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from console.errors import FieldError, Invalid

_NOT_NUMBERS: dict[str, type] = {
    "BOOL": bool,
    "BYTES": str,
}
"""v2 datatypes whose JSON value is no number; every other datatype takes int or float."""

DATATYPES = frozenset(
    {"BOOL", "BYTES", "FP16", "FP32", "FP64", "BF16"}
    | {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
)


@dataclass(frozen=True, slots=True)
class Output:
    """One output of the contract; a named first dimension (a str) is the batch."""

    name: str
    datatype: str
    dims: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Fallback:
    """The contract's L2 answer: `response` as plain callers get it, `outputs` for v2 callers."""

    response: Mapping[str, object]
    outputs: tuple[Output, ...] = ()
    reason: str = "model_down"


@dataclass(frozen=True, slots=True)
class AnswerTensor:
    """One output ready to be written; `row` is one batch item's values as JSON, comma-joined."""

    name: str
    datatype: str
    batched: bool
    row_shape: tuple[int, ...]
    row: str


@dataclass(frozen=True, slots=True)
class FallbackAnswer:
    """Everything the gateway needs to answer in fallback mode, as plain text."""

    plain: str
    reason: str
    tensors: tuple[AnswerTensor, ...] = field(default=())


def fallback_answer(fallback: Fallback) -> FallbackAnswer:
    """Turn a contract's fallback into what the gateway writes.

    An output that the fallback does not mention is left out of the v2 answer. Dynamic dimensions
    other than the batch become 1, or the length of the fallback's list when that says more.

    Raises Invalid when a value does not fit its output's datatype or shape.
    """
    reason = fallback.response.get("reason")
    faults: list[FieldError] = []
    tensors: list[AnswerTensor] = []
    for output in fallback.outputs:
        if output.name not in fallback.response:
            continue
        try:
            tensors.append(_tensor(output, fallback.response[output.name]))
        except ValueError as fault:
            faults.append(FieldError(f"/fallback/response/{output.name}", str(fault)))
    if faults:
        raise Invalid(
            "The fallback's response does not fit the contract's outputs.",
            code="invalid_fallback",
            hint="Give each output a value of its own datatype and shape.",
            errors=tuple(faults),
        )
    try:
        plain = json.dumps(dict(fallback.response), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as fault:
        raise Invalid(
            f"The fallback's response is no JSON document: {fault}.", code="invalid_fallback"
        ) from fault
    return FallbackAnswer(
        plain=plain,
        reason=reason if isinstance(reason, str) and reason else fallback.reason,
        tensors=tuple(tensors),
    )


def _tensor(output: Output, value: object) -> AnswerTensor:
    if output.datatype not in DATATYPES:
        raise ValueError(f"the v2 protocol has no datatype {output.datatype}")
    batched = bool(output.dims) and isinstance(output.dims[0], str)
    values = _flat(value)
    shape = _row_shape(output.dims[1:] if batched else output.dims, len(values))
    size = math.prod(shape)
    if len(values) == 1:
        values = values * size
    if len(values) != size:
        raise ValueError(
            f"{len(values)} values were given, one row of shape {list(shape)} holds {size}"
        )
    for item in values:
        _check_type(output.datatype, item)
    row = ",".join(json.dumps(item, ensure_ascii=False) for item in values)
    return AnswerTensor(output.name, output.datatype, batched, shape, row)


def _row_shape(dims: tuple[int | str, ...], count: int) -> tuple[int, ...]:
    named = [dim for dim in dims if isinstance(dim, str) or dim < 0]
    fixed = math.prod(dim for dim in dims if isinstance(dim, int) and dim >= 0)
    free = count // fixed if len(named) == 1 and fixed and count > 1 and count % fixed == 0 else 1
    return tuple(dim if isinstance(dim, int) and dim >= 0 else free for dim in dims)


def _flat(value: object) -> list[object]:
    if not isinstance(value, list | tuple):
        return [value]
    return [item for part in value for item in _flat(part)]


def _check_type(datatype: str, value: object) -> None:
    wanted = _NOT_NUMBERS.get(datatype)
    if wanted is not None:
        if not isinstance(value, wanted):
            raise ValueError(f"{value!r} is no {datatype}")
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    if "INT" in datatype and (not float(value).is_integer() or (datatype[0] == "U" and value < 0)):
        raise ValueError(f"{value!r} is no {datatype}")
