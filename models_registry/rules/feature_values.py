"""What a model's inputs are as features: one column of values for each, by its name.

The same for training data and for what callers send, so that the two can be held side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Kind = Literal["number", "text"]

MOST_COLUMNS = 64
"""An input with more columns (an image, an embedding) is seen by its rows' mean and deviation."""
MOST_FEATURES = 128
"""Features of one model that are looked at; the first ones, in the order of its inputs."""


@dataclass(frozen=True, slots=True)
class Column:
    """One feature's values, a value each row: float64 (NaN where it is missing), or texts."""

    kind: Kind
    values: Array


def columns_of(inputs: Mapping[str, Array], *, batched: bool) -> dict[str, Column]:
    """The features of one request or of many rows, in the order of the inputs.

    An input of one column is a feature by its name; of up to 64 columns `name[0]`, `name[1]` …;
    of more `name.mean` and `name.deviation`, or the `name.length` of texts. Without a batch
    dimension all of an input is one row.
    """
    found: dict[str, Column] = {}
    for name, values in inputs.items():
        for label, column in _columns(name, values, batched=batched):
            if len(found) == MOST_FEATURES:
                return found
            found[label] = column
    return found


def _columns(name: str, values: Array, *, batched: bool) -> list[tuple[str, Column]]:
    rows = values.shape[0] if batched and values.ndim else 1
    if not values.size or not rows:
        return []
    table = values.reshape(rows, -1)
    width = table.shape[1]
    if table.dtype.kind in "OUS":
        if width > MOST_COLUMNS:
            lengths = [sum(len(str(value)) for value in row) / width for row in table]
            return [(f"{name}.length", Column("number", np.asarray(lengths, np.float64)))]
        kind: Kind = "text"
    else:
        table = table.astype(np.float64)
        kind = "number"
        if width > MOST_COLUMNS:
            with np.errstate(invalid="ignore", over="ignore"):
                return [
                    (f"{name}.mean", Column("number", table.mean(axis=1))),
                    (f"{name}.deviation", Column("number", table.std(axis=1))),
                ]
    if width == 1:
        return [(name, Column(kind, table[:, 0]))]
    return [(f"{name}[{place}]", Column(kind, table[:, place])) for place in range(width)]
