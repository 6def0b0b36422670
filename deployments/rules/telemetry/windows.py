"""The newest rows that were seen, as columns: so many at most, and none older than so long."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from models_registry.rules.feature_values import Column

MOST_OF_ONE = 256
"""Rows of one request that are kept: one large batch must not be all that is seen."""


class Window:
    """Rows in the order in which they came; `seconds` and times are of any clock."""

    def __init__(self, rows: int, seconds: float) -> None:
        self._most = rows
        self._seconds = seconds
        self._blocks: deque[tuple[float, int, Mapping[str, Column]]] = deque()
        self._rows = 0

    def add(self, columns: Mapping[str, Column], at: float) -> None:
        """Take the rows of one request."""
        rows = min((len(one.values) for one in columns.values()), default=0)
        rows = min(rows, MOST_OF_ONE)
        if not rows:
            return
        cut = {name: Column(one.kind, one.values[:rows]) for name, one in columns.items()}
        self._blocks.append((at, rows, cut))
        self._rows += rows
        while self._rows - self._blocks[0][1] >= self._most:
            self._rows -= self._blocks.popleft()[1]

    def rows(self, now: float) -> int:
        """How many rows there are that are not too old."""
        while self._blocks and self._blocks[0][0] < now - self._seconds:
            self._rows -= self._blocks.popleft()[1]
        return self._rows

    def since(self, now: float) -> float | None:
        """When the oldest row came; None without one."""
        return self._blocks[0][0] if self.rows(now) else None

    def columns(self, now: float) -> dict[str, Column]:
        """All rows, each feature's values together; a feature that a request lacks is shorter."""
        self.rows(now)
        parts: dict[str, list[Column]] = {}
        for _, _, block in self._blocks:
            for name, column in block.items():
                held = parts.setdefault(name, [])
                if not held or held[0].kind == column.kind:
                    held.append(column)
        return {
            name: Column(held[0].kind, np.concatenate([one.values for one in held]))
            for name, held in parts.items()
        }
