"""JSON that is signed: read strictly, written in exactly one way (RFC 8785), named by SHA-256.

Two programs that read one signed text must see one meaning, so everything that readers of JSON
are known to disagree about (a name given twice, NaN, numbers that a double cannot carry, lone
surrogates) is refused here instead of being silently mended.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import rfc8785

from console.errors import FieldError, Invalid

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1
"""The largest whole number that every IEEE 754 double reader agrees about (RFC 7493)."""

# From here on ECMAScript, and with it RFC 8785, writes numbers with an exponent.
_FIRST_EXPONENT = 1e21
_MAX_FAULTS = 20
_HEX_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def pointer_of(*parts: str | int) -> str:
    """The RFC 6901 JSON pointer of the member reached by `parts` from the document's root."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def digest(data: bytes) -> str:
    """SHA-256 of `data` as 64 lowercase hex digits: the form kept in rows and in documents."""
    return hashlib.sha256(data).hexdigest()


def digest_text(hex_digest: str) -> str:
    """The form shown to people, `sha256:<64 hex>`."""
    return f"sha256:{parse_digest(hex_digest)}"


def parse_digest(text: str) -> str:
    """64 lowercase hex digits from either form; raises `Invalid` for anything else."""
    match = _HEX_DIGEST.fullmatch(text.strip().lower())
    if match is None:
        raise Invalid(
            f"{text[:80]!r} is not a SHA-256 digest.",
            code="invalid_digest",
            hint="Give 64 hexadecimal digits, with or without “sha256:” before them.",
        )
    return match.group(1)


@dataclass(frozen=True, slots=True)
class _Members:
    """An object as it was written: its pairs in order, names that repeat still there."""

    pairs: list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as it was written."""

    text: str


def loads_strict(data: bytes | str) -> JsonValue:
    """The value of a JSON text (RFC 8259, UTF-8), or `Invalid` with a pointer for each fault.

    Refused: more than `MAX_BYTES`, nesting deeper than `MAX_DEPTH`, a byte order mark, names
    given twice, NaN and Infinity, whole numbers beyond `MAX_SAFE_INTEGER`, numbers too large for
    a double, lone surrogates (the restrictions of I-JSON, RFC 7493, which RFC 8785 builds on).
    """
    written = _scan(_decode(data))
    faults: list[FieldError] = []
    value = _settle(written, (), faults)
    if faults:
        raise _refusal(faults)
    return value


def canonical_bytes(document: object) -> bytes:
    """`document` in canonical form (RFC 8785): the same value always gives the same bytes.

    Takes what `loads_strict` gives: dict with text keys, list or tuple, str, int, finite float,
    bool, None. Raises `Invalid` for anything else, and for numbers and texts that JSON readers
    would not agree about.
    """
    faults: list[FieldError] = []
    _check_value(document, (), faults)
    if faults:
        raise _refusal(faults)
    return rfc8785.dumps(document)  # type: ignore[arg-type]


def read_number(text: str) -> int | float:
    """The number that `text` writes; raises `ValueError` in plain words if readers would differ."""
    whole = text.lstrip("-+").isdecimal()
    if whole and len(text) > 17:
        raise ValueError(f"{text[:24]}… is beyond what every JSON reader keeps exactly (2^53 - 1)")
    value: int | float = int(text) if whole else float(text)
    fault = _number_fault(value)
    # 1e20 is written 100000000000000000000 in canonical form: beyond 2^53 like that one.
    if not fault and MAX_SAFE_INTEGER < abs(value) < _FIRST_EXPONENT:
        fault = f"{text[:24]} is beyond what every JSON reader keeps exactly (2^53 - 1)"
    if fault:
        raise ValueError(fault)
    return value


def text_fault(text: str) -> str:
    """Why `text` cannot stand in a signed document, or an empty string."""
    if _LONE_SURROGATE.search(text):
        return "holds half of a surrogate pair, which is not a character"
    return ""


def _decode(data: bytes | str) -> str:
    if len(data) > MAX_BYTES:
        raise _refusal([FieldError("", f"is larger than {MAX_BYTES} bytes")], code="too_large")
    if isinstance(data, str):
        text = data
    else:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = FieldError("", f"is not UTF-8 text (byte {error.start})")
            raise _refusal([fault]) from error
    if text.startswith("\ufeff"):
        raise _refusal([FieldError("", "starts with a byte order mark; save it as plain UTF-8")])
    return text


def _scan(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_Members,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
        )
    except json.JSONDecodeError as error:
        fault = FieldError("", f"line {error.lineno}, column {error.colno}: {error.msg}")
        raise _refusal([fault]) from error
    except RecursionError as error:
        raise _refusal([FieldError("", f"is nested deeper than {MAX_DEPTH}")]) from error


def _settle(written: Any, at: tuple[str | int, ...], faults: list[FieldError]) -> JsonValue:
    """Turn what was written into values; collect a fault for each place where readers differ."""
    if isinstance(written, _Number):
        try:
            return read_number(written.text)
        except ValueError as error:
            faults.append(FieldError(pointer_of(*at), str(error)))
            return None
    if isinstance(written, str):
        _note(text_fault(written), at, faults)
        return written
    if isinstance(written, _Members | list) and len(at) >= MAX_DEPTH:
        faults.append(FieldError(pointer_of(*at), f"is nested deeper than {MAX_DEPTH}"))
        return None
    if isinstance(written, list):
        return [_settle(item, (*at, index), faults) for index, item in enumerate(written)]
    if isinstance(written, _Members):
        members: dict[str, JsonValue] = {}
        for name, item in written.pairs:
            here = (*at, name.encode("utf-8", "replace").decode("utf-8"))
            _note(text_fault(name), here, faults)
            _note("is given twice" if name in members else "", here, faults)
            members[name] = _settle(item, here, faults)
        return members
    if isinstance(written, bool):
        return written
    return None


def _check_value(value: object, at: tuple[str | int, ...], faults: list[FieldError]) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int | float):
        _note(_number_fault(value), at, faults)
    elif isinstance(value, str):
        _note(text_fault(value), at, faults)
    elif not isinstance(value, dict | list | tuple):
        faults.append(FieldError(pointer_of(*at), f"is a {type(value).__name__}, not JSON"))
    elif len(at) >= MAX_DEPTH:
        faults.append(FieldError(pointer_of(*at), f"is nested deeper than {MAX_DEPTH}"))
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                faults.append(FieldError(pointer_of(*at), f"has the name {name!r}, not a text"))
                continue
            _note(text_fault(name), at, faults)
            _check_value(item, (*at, name), faults)
    else:
        for index, item in enumerate(value):
            _check_value(item, (*at, index), faults)


def _number_fault(value: int | float) -> str:
    if isinstance(value, int):
        if abs(value) > MAX_SAFE_INTEGER:
            return f"{value} is beyond what every JSON reader keeps exactly (2^53 - 1)"
        return ""
    if math.isnan(value):
        return "is not a number (NaN)"
    return "is infinite or too large for a double" if math.isinf(value) else ""


def _note(detail: str, at: tuple[str | int, ...], faults: list[FieldError]) -> None:
    if detail:
        faults.append(FieldError(pointer_of(*at), detail))


def _refusal(faults: list[FieldError], code: str = "invalid_json") -> Invalid:
    first = faults[0]
    place = f"at {first.pointer} " if first.pointer else ""
    return Invalid(
        f"The JSON text cannot be used: {place}{first.detail}.",
        code=code,
        hint="Mend the places named and send it again; each name once, plain numbers, UTF-8.",
        errors=tuple(faults[:_MAX_FAULTS]),
    )
