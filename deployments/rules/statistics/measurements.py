"""Measured quantities that are no requests: what each is of, how a minute's values add up."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured: a node, a device of it, an endpoint, a version there (keys of rows)."""

    node: int | None = None
    device: str = ""
    endpoint: int | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class Quantity:
    """One series: `name` in snake_case ends with its unit, `label` tells alike ones apart."""

    subject: Subject
    name: str
    label: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """Values of one stretch of time: how many, their sum, the extremes, the newest and when."""

    count: int
    total: float
    minimum: float
    maximum: float
    newest: float
    newest_at: datetime

    @property
    def mean(self) -> float:
        return self.total / self.count

    def __add__(self, other: Summary) -> Summary:
        later = self if self.newest_at >= other.newest_at else other
        return Summary(
            self.count + other.count,
            self.total + other.total,
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            later.newest,
            later.newest_at,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one series."""

    quantity: Quantity
    value: float
    at: datetime


def summed(value: float, at: datetime) -> Summary:
    """A single value as a summary."""
    return Summary(1, value, value, value, value, at)


def by_minute(points: Iterable[Point]) -> dict[tuple[Quantity, datetime], Summary]:
    """Points gathered by series and minute; values that are no finite number say nothing."""
    gathered: dict[tuple[Quantity, datetime], Summary] = {}
    for point in points:
        if not math.isfinite(point.value):
            continue
        slot = (point.quantity, minute_of(point.at))
        one = summed(point.value, point.at)
        gathered[slot] = gathered[slot] + one if slot in gathered else one
    return gathered


def minute_of(at: datetime) -> datetime:
    """The minute, UTC, that a moment lies in."""
    return at.astimezone(UTC).replace(second=0, microsecond=0)
