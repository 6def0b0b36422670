"""What others send: which endpoint a data point is of, its series, and what a counter grew by."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from deployments.rules.statistics.measurements import Summary

ENVIRONMENT: Final = "covenant.environment"
MODEL: Final = "covenant.model"
VERSION: Final = "covenant.version"
_ENVIRONMENTS: Final = (ENVIRONMENT, "deployment.environment.name", "deployment.environment")
_MODELS: Final = (MODEL, "service.name")
_ADDRESS: Final = frozenset({*_ENVIRONMENTS, *_MODELS, VERSION})
_LABELS: Final = ("feature", "output", "label")
"""An attribute that alone tells series of one name apart stands without its name."""

MOST_SERIES: Final = 200
"""Series of one endpoint that others may send."""
OLDEST: Final = timedelta(hours=24)
NEWEST: Final = timedelta(minutes=5)
GREATEST: Final = 1e100
MOST_COUNTED: Final = 10**15
"""A minute's count has to fit into 64 bits with all its senders."""
LONGEST_NAME: Final = 80
LONGEST_LABEL: Final = 120
_FRESH: Final = timedelta(minutes=10)
"""A counter that began no longer ago is counted from its beginning when it is first seen."""


class Shape(StrEnum):
    """What a data point is: a value, what a sum grew by or stands at, or a distribution."""

    GAUGE = "gauge"
    SUM = "sum"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class SentPoint:
    """One data point of OTLP. `attributes` are the resource's and its own, `source` who counts.

    Times are nanoseconds since 1970. A histogram has `count` and `value` as its sum.
    """

    name: str
    unit: str
    shape: Shape
    attributes: Mapping[str, str]
    own: Mapping[str, str]
    source: str
    start_ns: int
    time_ns: int
    value: float
    cumulative: bool = False
    monotonic: bool = False
    count: int = 0
    minimum: float | None = None
    maximum: float | None = None

    @property
    def counts(self) -> bool:
        """Whether it is a part of a count that goes on, rather than a value of now."""
        return self.shape is Shape.HISTOGRAM or (self.shape is Shape.SUM and self.monotonic)


@dataclass(frozen=True, slots=True)
class Address:
    """The endpoint that a data point names, and the version; 0 is the endpoint as a whole."""

    environment: str
    model: str
    version: int


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a counter stood: since when it counts, when it was read, its value and its count."""

    start_ns: int
    time_ns: int
    value: float
    count: int = 0


class Refused(ValueError):
    """A data point that is not taken; the text says why."""


def address_of(point: SentPoint) -> Address:
    """The endpoint and version of a point. Raises Refused."""
    environment = _first(point.attributes, _ENVIRONMENTS)
    model = _first(point.attributes, _MODELS)
    if not environment or not model:
        raise Refused(
            f"it names no endpoint: set {ENVIRONMENT} and {MODEL} as attributes of the resource"
        )
    said = point.attributes.get(VERSION, "0").removeprefix("v") or "0"
    if not said.isascii() or not said.isdecimal() or len(said) > 9:
        raise Refused(f"{VERSION} “{said[:20]}” is no number")
    return Address(environment, model, int(said))


def series_name(point: SentPoint) -> str:
    """Its name as series are called: snake_case, a count with `_total`. Raises Refused."""
    name = re.sub(r"[^a-z0-9]+", "_", _words(point.name)).strip("_")
    if not name or name[0].isdigit():
        raise Refused(f"“{point.name[:40]}” is no name")
    if point.shape is Shape.SUM and point.monotonic and not name.endswith("_total"):
        name += "_total"
    if len(name) > LONGEST_NAME:
        raise Refused(f"the name “{name[:40]}…” has more than {LONGEST_NAME} characters")
    return name


def label_of(point: SentPoint) -> str:
    """What tells it from others of its name: its own attributes, without those of the address."""
    held = {key: value for key, value in point.own.items() if key not in _ADDRESS and value}
    if len(held) == 1 and (alone := next(iter(held))) in _LABELS:
        return held[alone][:LONGEST_LABEL]
    return ",".join(f"{key}={held[key]}" for key in sorted(held))[:LONGEST_LABEL]


def moment_of(point: SentPoint, now: datetime) -> datetime:
    """When it was measured. Raises Refused for what is too old or of the future."""
    if not point.time_ns:
        return now
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=point.time_ns // 1000)
    if at < now - OLDEST:
        raise Refused("it is older than a day")
    if at > now + NEWEST:
        raise Refused("it is of the future: set the sender's clock")
    return at


def grown(point: SentPoint, last: Stand | None) -> tuple[Summary | None, Stand]:
    """What a counter or a histogram grew by since it was last read, and where it stands now.

    None: it did not grow, was sent before, or is seen for the first time and has been counting
    for long, so that nobody knows when. A counter that begins anew counts from nothing; it never
    falls.
    """
    stand = Stand(point.start_ns, point.time_ns, point.value, point.count)
    if last is not None and point.time_ns <= last.time_ns:
        return None, last
    if not point.cumulative:
        return _growth(point, point.value, point.count), stand
    if last is None:
        began = timedelta(microseconds=(point.time_ns - point.start_ns) // 1000)
        if not point.start_ns or began > _FRESH:
            return None, stand
        return _growth(point, point.value, point.count), stand
    began_anew = point.start_ns > last.time_ns or _fell(point, last)
    if began_anew:
        return _growth(point, point.value, point.count), stand
    return _growth(point, point.value - last.value, point.count - last.count), stand


def _fell(point: SentPoint, last: Stand) -> bool:
    if point.shape is Shape.HISTOGRAM:
        return point.count < last.count
    return point.value < last.value


def _growth(point: SentPoint, value: float, count: int) -> Summary | None:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=point.time_ns // 1000)
    if point.shape is Shape.SUM:
        return Summary(1, value, value, value, value, at)
    if not count:
        return None
    mean = value / count
    # Extremes of a histogram that goes on are those since its beginning, and say nothing of now.
    lowest = mean if point.cumulative or point.minimum is None else point.minimum
    highest = mean if point.cumulative or point.maximum is None else point.maximum
    return Summary(count, value, lowest, highest, mean, at)


def checked(point: SentPoint) -> None:
    """Raise Refused for a value that is no number, or so great that sums of it would be none."""
    values = [point.value, *(one for one in (point.minimum, point.maximum) if one is not None)]
    if not all(map(math.isfinite, values)):
        raise Refused("its value is no finite number")
    if max(map(abs, values)) > GREATEST or point.count > MOST_COUNTED:
        raise Refused("its value is too great")


def _first(attributes: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((attributes[name] for name in names if attributes.get(name)), "")


def _words(name: str) -> str:
    """camelCase as words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
