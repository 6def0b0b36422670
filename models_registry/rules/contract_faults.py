"""Breaches of the contract's JSON Schema, said in plain words, each with its JSON pointer."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from console.errors import FieldError
from console.rules.canonical import pointer_of

_SCHEMA_FILE = Path(__file__).with_name("contract_schema.json")

_TYPE_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
}
_PATTERN_WORDS = {
    "^[a-z][a-z0-9_]*$": "lower_snake_case: a letter, then letters, digits and _",
    "^[a-z][a-z0-9_]+$": "lower_snake_case, at least 2 characters",
    "^[a-z][a-z0-9_-]*$": "lower case: a letter, then letters, digits, _ and -",
    "^([1-9][0-9]{0,2}d|calendar_month)$": "a number of days such as 28d, or calendar_month",
    "^[1-9][0-9]{0,4}[smh]$": "a whole number with s, m or h, such as 15m",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}$": "a day such as 2027-06-30",
    "^[^\\u0000-\\u001f\\u007f]*$": "a text without control characters",
}
_DIMENSION = "a whole number from 1, or a lower_snake_case name such as batch where the size varies"


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the service contract document."""
    loaded: dict[str, Any] = json.loads(_SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


def schema_faults(body: object) -> list[FieldError]:
    """Every place where `body` breaks the schema, in the document's order."""
    faults: dict[tuple[str, str], FieldError] = {}
    for error in _validator().iter_errors(body):
        for fault in _in_words(error):
            faults[fault.pointer, fault.detail] = fault
    return sorted(faults.values(), key=lambda fault: fault.pointer)


@cache
def _validator() -> Any:
    # `$` in Python also matches before a final line feed; JSON Schema's dialect does not.
    def pattern(_: Any, written: str, instance: object, __: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not re.search(written.replace("$", r"\Z"), instance):
            yield ValidationError("pattern")

    strict = extend(Draft202012Validator, {"pattern": pattern})  # type: ignore[no-untyped-call]
    return strict(schema())


def _in_words(error: Any) -> Iterator[FieldError]:
    at = tuple(error.absolute_path)
    rule, limit, found = str(error.validator), error.validator_value, error.instance
    if rule == "required":
        missing = [name for name in limit if name not in found]
        yield from (FieldError(pointer_of(*at, name), "is missing") for name in missing)
    elif rule == "additionalProperties":
        known = list(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
        for name in found:
            if name not in known:
                yield FieldError(
                    pointer_of(*at, name), f"is not a known field{_nearest(name, known)}"
                )
    elif error.parent is None and "propertyNames" in error.absolute_schema_path:
        yield FieldError(
            pointer_of(*at, str(found)), f"is not a name that can be used ({_words(error)})"
        )
    else:
        yield FieldError(pointer_of(*at), _words(error))


def _words(error: Any) -> str:
    rule, limit, found = str(error.validator), error.validator_value, error.instance
    shown = _shown(found)
    bounds = {
        "minimum": f"is {shown}; {limit} or more is expected",
        "maximum": f"is {shown}; {limit} or less is expected",
        "exclusiveMinimum": f"is {shown}; more than {limit} is expected",
        "exclusiveMaximum": f"is {shown}; less than {limit} is expected",
        "minItems": f"has too few entries; at least {limit} is expected",
        "maxItems": f"has too many entries; at most {limit} can be used",
        "minProperties": f"is empty; at least {limit} field is expected",
        "maxProperties": f"has too many fields; at most {limit} can be used",
        "minLength": "is empty",
        "maxLength": f"is longer than {limit} characters",
        "uniqueItems": "names something twice",
    }
    if rule in bounds:
        return bounds[rule]
    if rule == "type":
        return f"is {shown}; {_TYPE_WORDS.get(str(limit), str(limit))} is expected"
    if rule == "enum":
        return f"is {shown}; one of {', '.join(str(choice) for choice in limit)} is expected"
    if rule == "const":
        return f"is {shown}; {limit} is expected"
    if rule == "pattern":
        return f"is {shown}; {_PATTERN_WORDS.get(str(limit), str(limit))} is expected"
    if rule == "anyOf":
        return f"is {shown}; {_DIMENSION} is expected"
    return f"is {shown}, which the schema does not allow"


def _shown(found: object) -> str:
    if isinstance(found, Mapping):
        return "an object"
    if isinstance(found, list):
        return "a list"
    if isinstance(found, str):
        return f"the text “{found if len(found) <= 60 else found[:60] + '…'}”"
    return json.dumps(found)


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known here: {', '.join(known)}" if known else ""
