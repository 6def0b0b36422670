"""What changed between two JSON values, as lines that a page can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["added", "removed", "changed"]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One leaf that differs; `path` is dotted, the values are short texts."""

    kind: Kind
    path: str
    before: str
    after: str


def change_lines(before: Any, after: Any) -> list[ChangeLine]:
    """Every leaf that was added, removed or changed, in the order of its path.

    None for the whole of a side means that there was nothing.
    """
    left = _ABSENT if before is None else before
    right = _ABSENT if after is None else after
    return list(_compare(left, right, ""))


def _compare(left: Any, right: Any, path: str) -> Iterator[ChangeLine]:
    a = {} if left is _ABSENT else left
    b = {} if right is _ABSENT else right
    if isinstance(a, dict) and isinstance(b, dict) and (a or b):
        for key in sorted({*a, *b}):
            inner = f"{path}.{key}" if path else str(key)
            yield from _compare(a.get(key, _ABSENT), b.get(key, _ABSENT), inner)
    elif left is _ABSENT and right is not _ABSENT:
        yield ChangeLine("added", path, "", _text(right))
    elif right is _ABSENT and left is not _ABSENT:
        yield ChangeLine("removed", path, _text(left), "")
    elif left != right:
        yield ChangeLine("changed", path, _text(left), _text(right))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:299] + "…"
