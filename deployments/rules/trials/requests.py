"""A sample that somebody wants to try on a version: is it a v2 request that the version takes?

Checked here, each fault with a pointer to its place, so that a person need not read a runtime's
words about buffers. Source: the KServe v2 protocol (docs/predict-api/v2/required_api.md).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from console.errors import FieldError, Invalid, TooLarge

Json = dict[str, Any]

MAX_BYTES: Final = 1024**2
MAX_FAULTS: Final = 10
MAX_DEPTH: Final = 40

_INTEGERS: Final = {
    f"{sign}INT{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if not sign else (0, 2**bits - 1)
    for sign in ("", "U")
    for bits in (8, 16, 32, 64)
}
_LARGEST: Final = {"FP16": 65_504.0, "FP32": 3.4028235e38, "FP64": sys.float_info.max}
_WORDS: Final = ("NaN", "Infinity", "-Infinity")  # what JSON has no numbers for, as texts
_KNOWN: Final = frozenset({"id", "inputs", "outputs", "parameters"})
_OF_A_TENSOR: Final = frozenset({"name", "datatype", "shape", "data", "parameters"})


@dataclass(frozen=True, slots=True)
class Declared:
    """An input as the version declares it: v2 data type, sizes (-1 where free), axis names."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """The shape with its names, as in [batch, 10]."""
        names = self.dims if len(self.dims) == len(self.shape) else ("",) * len(self.shape)
        parts = [name or str(size) for name, size in zip(names, self.shape, strict=True)]
        return f"[{', '.join(parts)}]"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a checked request; `data` is flat, in row-major order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: tuple[Any, ...]


def declared(inputs: Sequence[Mapping[str, Any]]) -> tuple[Declared, ...]:
    """Inputs as versions keep them: {name, dtype, shape, dims}."""
    return tuple(
        Declared(
            str(one["name"]),
            str(one["dtype"]),
            tuple(int(size) for size in one.get("shape", ())),
            tuple(str(name) for name in one.get("dims", ())),
        )
        for one in inputs
    )


def read_request(text: str) -> Json:
    """A request that a person wrote. Raises TooLarge above 1 MiB, Invalid (`bad_json`)."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise _too_large()
    try:
        document = json.loads(text, parse_constant=_no_number)
        json.dumps(document, ensure_ascii=False).encode()
    except RecursionError as error:
        raise _bad_json("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise _bad_json("a text has half of a surrogate pair") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _bad_json(f"{error.msg} in {where}") from error
    except ValueError as error:
        raise _bad_json(str(error)) from error
    if not isinstance(document, dict):
        raise _bad_json("it has to be an object with the member inputs")
    return document


def check_request(document: Mapping[str, Any], inputs: Sequence[Declared]) -> tuple[Tensor, ...]:
    """The tensors of a v2 request, in the order in which the version declares its inputs.

    What it says of outputs and parameters is not followed: all outputs are asked for.
    Raises Invalid (`request_does_not_fit`) with a pointer to each of the first faults.
    """
    faults = [
        FieldError(_pointer(member), "A v2 request has no such member.")
        for member in sorted(set(document) - _KNOWN)
    ]
    given = document.get("inputs")
    if not isinstance(given, list) or not given:
        faults.append(FieldError("/inputs", "Give a list with one entry for each input."))
        raise _does_not_fit(faults, inputs)
    wanted = {one.name: one for one in inputs}
    found: dict[str, Tensor] = {}
    for index, one in enumerate(given[: len(wanted) + MAX_FAULTS]):
        at = f"/inputs/{index}"
        try:
            tensor = _tensor(one, at, wanted, found)
        except _Fault as fault:
            faults.append(fault.where)
            wanted.pop(str(one.get("name")) if isinstance(one, Mapping) else "", None)
        else:
            found[tensor.name] = tensor
    missing = [name for name in wanted if name not in found]
    faults += [FieldError("/inputs", f"The input {name} is missing.") for name in missing]
    if faults:
        raise _does_not_fit(faults, inputs)
    return tuple(found[one.name] for one in inputs)


class _Fault(Exception):
    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.where = FieldError(pointer, detail)


def _tensor(
    one: Any, at: str, wanted: Mapping[str, Declared], found: Mapping[str, Tensor]
) -> Tensor:
    if not isinstance(one, Mapping):
        raise _Fault(at, "Give an object with name, datatype, shape and data.")
    if unknown := sorted(set(one) - _OF_A_TENSOR):
        raise _Fault(at + _pointer(unknown[0]), "A v2 tensor has no such member.")
    name = one.get("name")
    if not isinstance(name, str) or name not in wanted:
        names = ", ".join(wanted) or "none"
        raise _Fault(f"{at}/name", f"The version has no such input; it takes {names}.")
    if name in found:
        raise _Fault(f"{at}/name", f"The input {name} is given twice.")
    spec = wanted[name]
    if one.get("datatype") != spec.datatype:
        raise _Fault(f"{at}/datatype", f"{name} is {spec.datatype}.")
    shape = _shape(one.get("shape"), spec, f"{at}/shape")
    if "data" not in one:
        raise _Fault(f"{at}/data", "Give the values, as a list.")
    data = tuple(_flat(one["data"], f"{at}/data"))
    count = math.prod(shape)
    if len(data) != count:
        said = f"{len(data)} values, but the shape {list(shape)} holds {count}."
        raise _Fault(f"{at}/data", said)
    for index, value in enumerate(data):
        if fault := _misfit(value, spec.datatype):
            raise _Fault(f"{at}/data/{index}", fault)
    if spec.datatype in _LARGEST:
        data = tuple(float(value) for value in data)
    return Tensor(name, spec.datatype, shape, data)


def _shape(given: Any, spec: Declared, at: str) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(size) is int for size in given):
        raise _Fault(at, f"Give a list of whole numbers that fits {spec.written}.")
    if len(given) != len(spec.shape):
        raise _Fault(at, f"{spec.name} has {len(spec.shape)} axes: {spec.written}.")
    for axis, (size, fixed) in enumerate(zip(given, spec.shape, strict=True)):
        if size < 1 or size > MAX_BYTES or (fixed >= 0 and size != fixed):
            raise _Fault(f"{at}/{axis}", f"{size} does not fit {spec.written}.")
    return tuple(given)


def _flat(data: Any, at: str, depth: int = 0) -> Iterator[Any]:
    if depth > MAX_DEPTH:
        raise _Fault(at, "The lists are nested deeper than any tensor.")
    if not isinstance(data, list):
        if depth == 0:
            raise _Fault(at, "Give the values as a list.")
        yield data
        return
    for part in data:
        yield from _flat(part, at, depth + 1)


def _misfit(value: Any, datatype: str) -> str:
    """What is wrong with one value; "" when it can be sent as this type."""
    shown = json.dumps(value)[:40]
    if datatype == "BYTES":
        return "" if isinstance(value, str) else f"{shown} is no text."
    if datatype == "BOOL":
        return "" if isinstance(value, bool) else f"{shown} is neither true nor false."
    if datatype in _LARGEST and value in _WORDS:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{shown} is no number."
    if datatype in _INTEGERS:
        low, high = _INTEGERS[datatype]
        if not isinstance(value, int):
            return f"{shown} is no whole number, as {datatype} has to be."
        return "" if low <= value <= high else f"{shown} is not within {low} to {high}."
    # Compared as it is: a whole number may have more digits than any float.
    if not abs(value) <= _LARGEST.get(datatype, sys.float_info.max):
        return f"{shown} is too large for {datatype}."
    return ""


def _pointer(name: Any) -> str:
    return "/" + str(name).replace("~", "~0").replace("/", "~1")[:100]


def _no_number(name: str) -> NoReturn:
    raise ValueError(f'{name} is no number there; write it as the text "{name}"')


def _too_large() -> TooLarge:
    return TooLarge(
        f"The request has more than {MAX_BYTES // 1024} KiB.",
        code="request_too_large",
        hint="Try the version with fewer rows; large requests go to the endpoint's own address.",
    )


def check_size(size: int) -> None:
    """Raise TooLarge for a request of more than 1 MiB."""
    if size > MAX_BYTES:
        raise _too_large()


def _bad_json(what: str) -> Invalid:
    return Invalid(
        f"The request is no JSON: {what}.",
        code="bad_json",
        hint="Write it as {“inputs”: [{“name”, “datatype”, “shape”, “data”}]}.",
    )


def _does_not_fit(faults: list[FieldError], inputs: Sequence[Declared]) -> Invalid:
    takes = "; ".join(f"{one.name} {one.datatype} {one.written}" for one in inputs)
    return Invalid(
        "The request does not fit the version's inputs.",
        code="request_does_not_fit",
        hint=f"It takes {takes}.",
        errors=tuple(faults[:MAX_FAULTS]),
    )
