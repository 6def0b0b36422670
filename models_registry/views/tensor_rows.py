"""Inputs and outputs as rows of a form: read from what was posted, shown with their faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from console.errors import FieldError

FIELDS = ("name", "dtype", "dims", "min", "max")
# What a fault's pointer calls a field that the form shows under another name.
_SHOWN_AS = {"shape": "dims", "nan": "max"}


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor as it was typed, with the faults of each of its fields."""

    name: str = ""
    dtype: str = "FP32"
    dims: str = ""
    min: str = ""
    max: str = ""
    faults: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.name or self.dims or self.min or self.max)

    def document(self) -> dict[str, Any]:
        """The tensor as `rules.tensors.parse` takes it; what is no number stays text for it."""
        found: dict[str, Any] = {"name": self.name, "dtype": self.dtype}
        if self.dims:
            found["dims"] = [_size(part) for part in re.split(r"[\s,×]+", self.dims) if part]
        for bound in ("min", "max"):
            if text := getattr(self, bound):
                found[bound] = _number(text)
        return found


def rows_from(posted: QueryDict, prefix: str) -> list[TensorRow]:
    """The rows of one editor; rows without a word are left out."""
    columns = [posted.getlist(f"{prefix}_{name}") for name in FIELDS]
    rows = [
        TensorRow(**{name: value.strip()[:300] for name, value in zip(FIELDS, values, strict=True)})
        for values in zip(*columns, strict=False)
    ]
    return [row for row in rows if not row.is_empty]


def rows_of(specs: Iterable[Mapping[str, Any]]) -> list[TensorRow]:
    """Rows that show tensors which a file or an earlier version names."""
    return [
        TensorRow(
            name=str(spec.get("name", "")),
            dtype=str(spec.get("dtype", "FP32")),
            dims=", ".join(_axes(spec)),
            min=_text(spec.get("min")),
            max=_text(spec.get("max")),
        )
        for spec in specs
    ]


def with_ranges(proposed: Sequence[TensorRow], typed: Sequence[TensorRow]) -> list[TensorRow]:
    """Proposed rows with the ranges that a person has typed for rows of the same names."""
    known = {row.name: row for row in typed}
    return [
        replace(row, min=row.min or known[row.name].min, max=row.max or known[row.name].max)
        if row.name in known
        else row
        for row in proposed
    ]


def with_faults(
    rows: Sequence[TensorRow], errors: Sequence[FieldError], prefix: str
) -> list[TensorRow]:
    """The rows with each fault at the field that its pointer names: /inputs/0/dims/1."""
    found: dict[int, dict[str, str]] = {}
    for error in errors:
        parts = error.pointer.strip("/").split("/")
        if parts[0] != prefix or len(parts) < 2 or not parts[1].isdecimal():
            continue
        name = parts[2] if len(parts) > 2 else "name"
        detail = error.detail.removeprefix(f"{error.pointer} cannot be used: ")
        found.setdefault(int(parts[1]), {})[_SHOWN_AS.get(name, name)] = detail
    return [
        TensorRow(row.name, row.dtype, row.dims, row.min, row.max, found.get(index, {}))
        for index, row in enumerate(rows)
    ]


def _axes(spec: Mapping[str, Any]) -> list[str]:
    shape = spec.get("shape") or []
    names = spec.get("dims") or [""] * len(shape)
    return [str(name or size) for size, name in zip(shape, names, strict=False)]


def _size(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,12}", text) else text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}"
