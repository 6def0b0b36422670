"""What a version answered to a sample: as a person reads it, and against what was recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.errors import Invalid
from deployments.rules.fleet import smoke_test

SHOWN_VALUES: Final = 24
SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far an answer is from the recorded one; `detail` says where it is too far.

    `largest` is the largest absolute difference, None where values cannot be subtracted.
    """

    within: bool
    largest: float | None
    atol: float
    rtol: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output for a table: its first values as text, and how many more there are."""

    name: str
    datatype: str
    shape: list[int]
    values: list[str]
    more: int


def compared(
    expected: Sequence[Mapping[str, Any]],
    found: Sequence[Mapping[str, Any]],
    *,
    atol: float,
    rtol: float,
) -> Comparison:
    """Whether |found - expected| <= atol + rtol * |expected| everywhere, as at deployment."""
    try:
        largest = smoke_test.compare(expected, found, atol=atol, rtol=rtol)
    except Invalid as refused:
        detail = refused.message.removeprefix("The smoke test failed: ")
        return Comparison(False, _largest(expected, found), atol, rtol, detail)
    return Comparison(True, largest, atol, rtol)


def _largest(
    expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> float | None:
    answers = {one["name"]: one["data"] for one in found}
    worst: float | None = None
    for one in expected:
        for want, have in zip(one["data"], answers.get(one["name"], ()), strict=False):
            if not all(type(value) in (int, float) for value in (want, have)):
                continue
            distance = abs(float(have) - float(want))
            if math.isfinite(distance):
                worst = max(worst or 0.0, distance)
    return worst


def row_of(output: Mapping[str, Any]) -> OutputRow:
    """An output, shortened."""
    data = output["data"]
    return OutputRow(
        str(output["name"]),
        str(output["datatype"]),
        list(output["shape"]),
        [_written(value) for value in data[:SHOWN_VALUES]],
        max(0, len(data) - SHOWN_VALUES),
    )


def shortened(output: Mapping[str, Any]) -> dict[str, Any]:
    """The v2 tensor with its first values only, and a last text that says how many are left out."""
    data = list(output["data"])
    more = len(data) - SHOWN_VALUES
    if more > 0:
        data = [*data[:SHOWN_VALUES], f"… {more} more"]
    return {**output, "data": data}


def finite(output: Mapping[str, Any]) -> dict[str, Any]:
    """The v2 tensor with NaN and infinities as words: JSON has no numbers for them."""
    data = [value if _is_json(value) else _written(value) for value in output["data"]]
    return {**output, "data": data}


def _is_json(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
