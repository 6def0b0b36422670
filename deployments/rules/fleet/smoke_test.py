"""Does a loaded version answer the recorded request as it did when it was validated?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from console.errors import Invalid

Tensor = Mapping[str, Any]


def compare(
    expected: Sequence[Tensor], found: Sequence[Tensor], *, atol: float, rtol: float
) -> float:
    """The largest absolute difference; |found - expected| <= atol + rtol * |expected| must hold.

    Tensors are those of the v2 protocol, with flat data. Raises Invalid `smoke_test_failed` with
    the first that is missing, has another shape, or differs.
    """
    answers = {str(tensor["name"]): tensor for tensor in found}
    worst = 0.0
    for tensor in expected:
        name = str(tensor["name"])
        answer = answers.get(name)
        if answer is None:
            raise _failed(f"the output {name} is missing")
        if list(answer["shape"]) != list(tensor["shape"]):
            raise _failed(f"{name} has shape {answer['shape']}, {tensor['shape']} was recorded")
        wanted, got = _flat(tensor["data"]), _flat(answer["data"])
        if len(wanted) != len(got):
            raise _failed(f"{name} has {len(got)} values, {len(wanted)} were recorded")
        for index, (want, have) in enumerate(zip(wanted, got, strict=True)):
            worst = max(worst, _difference(name, index, want, have, atol, rtol))
    return worst


def _difference(name: str, index: int, want: Any, have: Any, atol: float, rtol: float) -> float:
    if isinstance(want, str | bool) or isinstance(have, str | bool):
        if want != have:
            raise _failed(f"{name}[{index}] is {have!r}, {want!r} was recorded")
        return 0.0
    if math.isnan(want) and math.isnan(have):
        return 0.0
    distance = abs(have - want) if want != have else 0.0
    if not distance <= atol + rtol * abs(want):
        raise _failed(f"{name}[{index}] is {have:g}, {want:g} was recorded")
    return float(distance)


def _flat(data: Any) -> list[Any]:
    if not isinstance(data, list | tuple):
        return [data]
    return [item for part in data for item in _flat(part)]


def _failed(what: str) -> Invalid:
    return Invalid(
        f"The smoke test failed: {what}.",
        code="smoke_test_failed",
        hint="The version answers differently on this node than when it was validated. It was not "
        "offered any traffic.",
    )
