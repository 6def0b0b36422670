"""Places in a contract: on which line of its YAML each stands, and which can be spoken of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from console.rules.canonical import JsonValue, pointer_of

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_SHOWN = 80
_MAX_POINTER = 200
# Sections whose parts have parts of their own that people speak of.
_DEEP = frozenset(
    {"inputs", "outputs", "objectives", "response", "model_output_entropy", "analysis", "derived"}
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A place to comment on: its pointer, its path for people and, in short, what stands there."""

    pointer: str
    path: str
    shown: str


@dataclass(slots=True)
class _Open:
    at: tuple[str | int, ...]
    is_list: bool
    count: int = 0
    name: str | None = None


def line_numbers(text: str) -> dict[str, int]:
    """The line (from 1) of each place by its pointer, as far as the YAML can be read."""
    lines: dict[str, int] = {"": 1}
    stack: list[_Open] = []
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                stack.pop()
            elif isinstance(event, yaml.NodeEvent):
                _note(event, stack, lines)
    except yaml.YAMLError:
        pass
    return lines


def line_of(pointer: str, lines: Mapping[str, int]) -> int:
    """The line of a place, or of the nearest around it where it is missing."""
    while pointer and pointer not in lines:
        pointer = pointer.rpartition("/")[0]
    return lines.get(pointer, 1)


def clauses(body: JsonValue) -> tuple[Clause, ...]:
    """The places of a document that a comment can be about, in its order."""
    return tuple(_clauses(body, (), ""))


def _note(event: yaml.NodeEvent, stack: list[_Open], lines: dict[str, int]) -> None:
    line = event.start_mark.line + 1 if event.start_mark else 1
    at: tuple[str | int, ...] = ()
    if stack:
        holder = stack[-1]
        if holder.is_list:
            at = (*holder.at, holder.count)
            holder.count += 1
            lines.setdefault(pointer_of(*at), line)
        elif holder.name is None:
            # A name opens its place: a fault is shown where the name stands.
            holder.name = event.value if isinstance(event, yaml.ScalarEvent) else ""
            lines.setdefault(pointer_of(*holder.at, holder.name), line)
            return
        else:
            at = (*holder.at, holder.name)
            holder.name = None
    if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
        stack.append(_Open(at, isinstance(event, yaml.SequenceStartEvent)))


def _clauses(value: Any, at: tuple[str | int, ...], path: str) -> Iterator[Clause]:
    named = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for part, item in named:
        if not at and part in ("apiVersion", "kind"):
            continue
        pointer = pointer_of(*at, part)
        if len(pointer) > _MAX_POINTER:
            continue
        label = f"{path} › {_name(part, item)}" if path else _name(part, item)
        yield Clause(pointer, label, _short(item))
        if len(at) < 1 or at[-1] in _DEEP or part in _DEEP:
            yield from _clauses(item, (*at, part), label)


def _name(part: str | int, item: Any) -> str:
    """A list's entry is called by what it is called itself."""
    if isinstance(part, str):
        return part
    if isinstance(item, dict):
        own = item.get("name") or " ".join(str(item[k]) for k in ("status", "code") if k in item)
        return own if isinstance(own, str) and own else str(part + 1)
    return str(part + 1)


def _short(value: Any) -> str:
    if isinstance(value, dict | list) and not value:
        return "[]" if isinstance(value, list) else "{}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
