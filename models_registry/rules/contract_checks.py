"""What a JSON Schema cannot say about a contract: facts that must fit each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from console.errors import FieldError
from console.rules.canonical import pointer_of

MAX_WINDOW_DAYS = 366
BATCH = "batch"
# Bidirectional overrides and isolates (Unicode TR 9): what is read is not what is signed.
_TURNS_TEXT = frozenset(chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))

_FLOAT_LIMITS = {
    "FP16": 65504.0,
    "BF16": 3.3895313892515355e38,
    "FP32": 3.4028234663852886e38,
    "FP64": 1.7976931348623157e308,
}
_INTEGER_LIMITS = {
    f"{sign}INT{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for sign in ("", "U")
    for bits in (8, 16, 32, 64)
}


def semantic_faults(body: Mapping[str, Any]) -> list[FieldError]:
    """Faults of a body that the schema accepts; empty when the document makes sense."""
    return [
        *_texts(body, ()),
        *_valid_until(body.get("valid_until")),
        *_tensors(body["interface"]),
        *_objectives(body["objectives"]),
        *_timeout(body),
        *_errors(body["errors"]),
        *_fallback(body["fallback"], body["interface"]["outputs"]),
        *_rollout(body.get("rollout", {})),
    ]


def _texts(value: object, at: tuple[str | int, ...]) -> Iterator[FieldError]:
    if isinstance(value, str) and (fault := _text_fault(value)):
        yield FieldError(pointer_of(*at), fault)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(name, (*at, name))
            yield from _texts(item, (*at, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*at, index))


def _text_fault(text: str) -> str:
    """Two people who see the same text must sign the same bytes, and see all of it."""
    if "\x00" in text:
        return "holds the character U+0000, which cannot be stored"
    if not unicodedata.is_normalized("NFC", text):
        return "is not in Unicode's normal form C: it would look like another text; write it in NFC"
    if turned := next((one for one in text if one in _TURNS_TEXT), ""):
        return f"holds U+{ord(turned):04X}, which makes text read otherwise than it is written"
    return ""


def _valid_until(written: str | None) -> Iterator[FieldError]:
    if written is None:
        return
    try:
        date.fromisoformat(written)
    except ValueError:
        detail = f"is {written}, a day that no calendar has"
        yield FieldError(pointer_of("valid_until"), detail)


def _tensors(interface: Mapping[str, Any]) -> Iterator[FieldError]:
    batched = {
        side: any(BATCH in tensor["dims"] for tensor in interface[side])
        for side in ("inputs", "outputs")
    }
    for side in ("inputs", "outputs"):
        seen: set[str] = set()
        for index, tensor in enumerate(interface[side]):
            at = ("interface", side, index)
            if tensor["name"] in seen:
                yield FieldError(pointer_of(*at, "name"), f"“{tensor['name']}” is named twice")
            seen.add(tensor["name"])
            if tensor["dims"].count(BATCH) > 1:
                yield FieldError(pointer_of(*at, "dims"), "has the batch dimension more than once")
            if side == "outputs" and BATCH in tensor["dims"] and not batched["inputs"]:
                detail = "has a batch dimension, but no input has one"
                yield FieldError(pointer_of(*at, "dims"), detail)
            yield from _range(tensor, at)
            yield from _sum(tensor, at, side)


def _sum(tensor: Mapping[str, Any], at: tuple[str | int, ...], side: str) -> Iterator[FieldError]:
    if "sums_to" not in tensor:
        return
    if side == "inputs":
        yield FieldError(pointer_of(*at, "sums_to"), "is promised of outputs, not of inputs")
    elif tensor["dtype"] not in _FLOAT_LIMITS:
        detail = f"makes no sense for {tensor['dtype']}: shares are floating point numbers"
        yield FieldError(pointer_of(*at, "sums_to"), detail)
    elif not tensor["dims"] or tensor["dims"] == [BATCH]:
        detail = "needs an axis to add up along, beside the batch"
        yield FieldError(pointer_of(*at, "sums_to"), detail)


def _range(tensor: Mapping[str, Any], at: tuple[str | int, ...]) -> Iterator[FieldError]:
    dtype = tensor["dtype"]
    if "nan" in tensor and dtype not in _FLOAT_LIMITS:
        yield FieldError(pointer_of(*at, "nan"), f"makes no sense for {dtype}: it has no NaN")
    for name in ("min", "max"):
        if name in tensor and (fault := _number_fault(tensor[name], dtype)):
            yield FieldError(pointer_of(*at, name), fault)
    if "min" in tensor and "max" in tensor and tensor["min"] >= tensor["max"]:
        detail = f"{tensor['min']} is not below max, {tensor['max']}"
        yield FieldError(pointer_of(*at, "min"), detail)


def _number_fault(value: float, dtype: str) -> str:
    """Why `value` is no value of a numeric `dtype`, or an empty string."""
    if dtype in _FLOAT_LIMITS:
        limit = _FLOAT_LIMITS[dtype]
        return "" if abs(value) <= limit else f"{value} is beyond {dtype}'s largest, {limit}"
    if dtype not in _INTEGER_LIMITS:
        return f"makes no sense for {dtype}: it is not a number"
    low, high = _INTEGER_LIMITS[dtype]
    if value != int(value):
        return f"{value} is not a whole number, as {dtype} needs"
    return "" if low <= value <= high else f"{value} is outside {dtype}'s range, {low} to {high}"


def _objectives(objectives: list[Mapping[str, Any]]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, objective in enumerate(objectives):
        if objective["name"] in seen:
            detail = f"“{objective['name']}” is promised twice"
            yield FieldError(pointer_of("objectives", index, "name"), detail)
        seen.add(objective["name"])
        window = objective["window"]
        if window.endswith("d") and int(window[:-1]) > MAX_WINDOW_DAYS:
            detail = f"is {window}; at most {MAX_WINDOW_DAYS}d can be measured"
            yield FieldError(pointer_of("objectives", index, "window"), detail)


def _timeout(body: Mapping[str, Any]) -> Iterator[FieldError]:
    timeout = body.get("request", {}).get("timeout_ms")
    for objective in body["objectives"]:
        if timeout is not None and timeout < objective.get("threshold_ms", 0):
            detail = f"ends requests before the {objective['threshold_ms']} ms of the latency limit"
            yield FieldError("/request/timeout_ms", detail)


def _errors(errors: list[Mapping[str, Any]]) -> Iterator[FieldError]:
    seen: set[tuple[int, str]] = set()
    for index, error in enumerate(errors):
        pair = (int(error["status"]), error["code"])
        if pair in seen:
            yield FieldError(pointer_of("errors", index), f"{pair[0]} {pair[1]} is listed twice")
        seen.add(pair)
        if error["status"] >= 500 and error["counts_against"] == "caller":
            detail = "a 5xx is never the caller's fault; provider or none is expected"
            yield FieldError(pointer_of("errors", index, "counts_against"), detail)


def _fallback(
    fallback: Mapping[str, Any], outputs: list[Mapping[str, Any]]
) -> Iterator[FieldError]:
    fixed = fallback["response"]
    yield from _response(fixed, outputs, ("fallback", "response"))
    seen: set[str] = set()
    for index, rule in enumerate(fallback.get("rules", ())):
        at = ("fallback", "rules", index)
        if rule["name"] in seen:
            yield FieldError(pointer_of(*at, "name"), f"“{rule['name']}” is named twice")
        seen.add(rule["name"])
        yield from _response(rule["response"], outputs, (*at, "response"))
        yield from _alike(rule["response"], fixed, outputs, (*at, "response"))


def _response(
    response: Mapping[str, Any], outputs: list[Mapping[str, Any]], at: tuple[str | int, ...]
) -> Iterator[FieldError]:
    named = [output for output in outputs if output["name"] in response]
    if named and len(named) < len(outputs):
        for output in outputs:
            if output["name"] not in response:
                detail = "has no fallback value; give every output one, or none"
                yield FieldError(pointer_of(*at, output["name"]), detail)
    for output in named:
        dims = output["dims"]
        shape = dims[1:] if dims[:1] == [BATCH] else dims
        place = (*at, output["name"])
        yield from _value(response[output["name"]], output, shape, place)


def _alike(
    response: Mapping[str, Any],
    fixed: Mapping[str, Any],
    outputs: list[Mapping[str, Any]],
    at: tuple[str | int, ...],
) -> Iterator[FieldError]:
    """Rows of one request may be answered by different rules: their answers make one tensor."""
    for output in outputs:
        name = output["name"]
        if (name in response) != (name in fixed):
            detail = "is in this response and not in the fixed one, or the other way round"
            yield FieldError(pointer_of(*at, name), detail)
        elif name in fixed and any(isinstance(size, str) for size in output["dims"][1:]):
            counts = _count(response[name]), _count(fixed[name])
            if counts[0] != counts[1]:
                detail = f"has {counts[0]} values a row, where the fixed response has {counts[1]}"
                yield FieldError(pointer_of(*at, name), detail)


def _count(value: object) -> int:
    return sum(_count(item) for item in value) if isinstance(value, list) else 1


def _value(
    value: object, output: Mapping[str, Any], shape: list[int | str], at: tuple[str | int, ...]
) -> Iterator[FieldError]:
    """A single value (it fills the tensor), or lists nested as the shape without the batch."""
    if isinstance(value, list):
        if not shape:
            yield FieldError(pointer_of(*at), f"is nested deeper than {output['dims']}")
        elif isinstance(shape[0], int) and len(value) != shape[0]:
            yield FieldError(pointer_of(*at), f"has {len(value)} values; {shape[0]} are expected")
        else:
            for index, item in enumerate(value):
                yield from _value(item, output, shape[1:], (*at, index))
        return
    if fault := _element_fault(value, output):
        yield FieldError(pointer_of(*at), fault)


def _element_fault(value: object, output: Mapping[str, Any]) -> str:
    dtype = output["dtype"]
    if dtype == "BYTES":
        return "" if isinstance(value, str) else "is not a text, as BYTES needs"
    if dtype == "BOOL":
        return "" if isinstance(value, bool) else "is not true or false, as BOOL needs"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"is not a number, as {dtype} needs"
    if "min" in output and value < output["min"]:
        return f"is {value}, below the output's min, {output['min']}"
    if "max" in output and value > output["max"]:
        return f"is {value}, above the output's max, {output['max']}"
    return _number_fault(value, dtype)


def _rollout(rollout: Mapping[str, Any]) -> Iterator[FieldError]:
    for name in ("start", "step"):
        share = rollout.get(name, 5)
        # Weights are kept in basis points, hundredths of a percent.
        if abs(share * 100 - round(share * 100)) > 1e-6 or round(share * 100) < 1:
            detail = f"is {share}; a share is given in steps of 0.01 percent"
            yield FieldError(pointer_of("rollout", name), detail)
