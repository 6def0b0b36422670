"""A contract written as YAML, read as plain JSON values.

YAML 1.2's core schema, so that what a person means is what is signed: `NO` and `on` are texts,
`1.0e-5` is a number, dates stay texts. Left out on purpose, and refused with their line: anchors
and aliases (a small file could grow without bound), tags (they name types of a program), names
given twice, several documents in one file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from console.errors import FieldError, Invalid
from console.rules.canonical import (
    MAX_DEPTH,
    MAX_SAFE_INTEGER,
    JsonValue,
    pointer_of,
    read_number,
    text_fault,
)

MAX_BYTES = 256 * 1024

# YAML 1.2.2, section 10.3.2 (core schema).
_NULL = re.compile(r"(?:null|Null|NULL|~|)")
_TRUE = re.compile(r"(?:true|True|TRUE)")
_FALSE = re.compile(r"(?:false|False|FALSE)")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class _Frame:
    """An open mapping or sequence: what it holds so far, and where it stands."""

    value: dict[str, JsonValue] | list[JsonValue]
    at: tuple[str | int, ...]
    name: str | None = None
    """The name read last in a mapping, while its value is awaited."""


@dataclass(slots=True)
class _Builder:
    """Builds the value from the parser's events with a stack of its own: no recursion."""

    stack: list[_Frame] = field(default_factory=list)
    root: JsonValue = None
    documents: int = 0
    faults: list[FieldError] = field(default_factory=list)

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _refusal([FieldError("", f"line {line}: a second document starts here")])
        elif isinstance(event, yaml.AliasEvent):
            self._fault(line, "uses an alias; write the value out")
            self._put(None, line)
        elif isinstance(event, yaml.ScalarEvent):
            self._refuse_extras(event, line)
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._refuse_extras(event, line)
            self._open({} if isinstance(event, yaml.MappingStartEvent) else [], line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.stack.pop()

    def _at(self) -> tuple[str | int, ...]:
        """Where the value that comes next will stand."""
        if not self.stack:
            return ()
        frame = self.stack[-1]
        if isinstance(frame.value, list):
            return (*frame.at, len(frame.value))
        return frame.at if frame.name is None else (*frame.at, frame.name)

    def _fault(self, line: int, detail: str) -> None:
        self.faults.append(FieldError(pointer_of(*self._at()), f"line {line}: {detail}"))

    def _refuse_extras(self, event: Any, line: int) -> None:
        if event.anchor is not None:
            self._fault(
                line, f"has the anchor &{event.anchor}; write the value out where it is used"
            )
        if event.tag is not None:
            self._fault(
                line, f"has the tag {event.tag}; leave it away (quote a text that must be one)"
            )

    def _open(self, value: dict[str, JsonValue] | list[JsonValue], line: int) -> None:
        at = self._at()
        if len(at) >= MAX_DEPTH:
            raise _refusal([FieldError("", f"line {line}: is nested deeper than {MAX_DEPTH}")])
        if self._awaits_name():
            message = "a mapping or a list cannot be a name"
            raise _refusal([FieldError(pointer_of(*at), f"line {line}: {message}")])
        self._put(value, line)
        self.stack.append(_Frame(value, at))

    def _awaits_name(self) -> bool:
        return (
            bool(self.stack)
            and isinstance(self.stack[-1].value, dict)
            and (self.stack[-1].name is None)
        )

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        value: JsonValue = event.value
        if not event.style or event.style == "plain":
            try:
                value = plain_value(event.value)
            except ValueError as error:
                self._fault(line, str(error))
                value = None
        elif fault := text_fault(event.value):
            self._fault(line, fault)
        if self._awaits_name():
            self._name(event.value, is_text=isinstance(value, str), line=line)
        else:
            self._put(value, line)

    def _name(self, name: str, *, is_text: bool, line: int) -> None:
        frame = self.stack[-1]
        frame.name = name
        if not is_text:
            self._fault(line, "is used as a name but is not a text; put it in quotes")
        if isinstance(frame.value, dict) and name in frame.value:
            self._fault(line, "is given twice")

    def _put(self, value: JsonValue, line: int) -> None:
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.name is None:
            frame.name = ""  # an alias stood where a name belongs: already a fault
        else:
            frame.value[frame.name] = value
            frame.name = None


def load_yaml(source: str) -> JsonValue:
    """The value of one YAML document, or `Invalid` (`invalid_yaml`) with line and pointer."""
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        raise _refusal([FieldError("", f"is larger than {MAX_BYTES} bytes")], code="too_large")
    builder = _Builder()
    try:
        for event in yaml.parse(source, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise _refusal([FieldError("", f"{place}{error.problem}")]) from error
    except yaml.YAMLError as error:
        raise _refusal([FieldError("", str(error).splitlines()[0])]) from error
    if builder.faults:
        raise _refusal(builder.faults)
    return builder.root


def plain_value(text: str) -> JsonValue:
    """The value of a scalar without quotes; raises `ValueError` where JSON has no such value."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text):
        return read_number(text)
    if _OCTAL.fullmatch(text):
        return _whole(int(text[2:], 8))
    if _HEXADECIMAL.fullmatch(text):
        return _whole(int(text[2:], 16))
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"is {text}, which is no number that can be promised")
    if fault := text_fault(text):
        raise ValueError(fault)
    return text


def _whole(value: int) -> int:
    if value > MAX_SAFE_INTEGER:
        raise ValueError("is beyond what every JSON reader keeps exactly (2^53 - 1)")
    return value


def _refusal(faults: list[FieldError], code: str = "invalid_yaml") -> Invalid:
    first = faults[0]
    place = f"{first.pointer} " if first.pointer else ""
    return Invalid(
        f"The YAML text cannot be used: {place}{first.detail}.",
        code=code,
        hint="Mend the lines named. Plain YAML 1.2 is read: no aliases, no tags, each name once.",
        errors=tuple(faults[:50]),
    )
