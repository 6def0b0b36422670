"""Series of machines as data: unit, title, and from which values on somebody should look."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Level(StrEnum):
    """What a value says: nothing to do, look at it, act."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class MachineSeries:
    """A series of a machine, a GPU or a version there; without limits it explains others."""

    series: str
    unit: str
    title: str
    warn: float | None = None
    bad: float | None = None
    below: bool = False
    bad_values: frozenset[int] = frozenset()


class Limited(Protocol):
    """What has limits; `below` says that small values are the bad ones."""

    @property
    def warn(self) -> float | None: ...
    @property
    def bad(self) -> float | None: ...
    @property
    def below(self) -> bool: ...
    @property
    def bad_values(self) -> frozenset[int]: ...


def level_of(limits: Limited, value: float) -> Level:
    """What a value says by its limits; some values are bad whatever the limits say.

    >>> level_of(MachineSeries("host_cpu_percent", "%", "CPU", warn=85, bad=97), 90)
    <Level.WARN: 'warn'>
    """
    if int(value) in limits.bad_values:
        return Level.BAD
    for level, limit in ((Level.BAD, limits.bad), (Level.WARN, limits.warn)):
        if limit is not None and (value < limit if limits.below else value > limit):
            return level
    return Level.GOOD
