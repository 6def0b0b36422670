"""A rollout's plan as typed data; the words are those of Argo Rollouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from deployments.rules.rollouts.conditions import Condition
from deployments.rules.traffic.splits import WHOLE

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
LONGEST_WINDOW_S = 900.0
"""Live numbers of the gateways are kept for so long."""


class MetricKind(StrEnum):
    """What is measured. Rates are in percent, durations in ms.

    Output metrics come from the sampled comparison of answers, `conversion_difference` (in
    percentage points, candidate less baseline) from outcomes that callers report, `telemetry` is
    any series that is measured of the versions or sent for them.
    """

    ERROR_RATE = "error_rate"
    SUCCESS_RATE = "success_rate"
    P50 = "p50_ms"
    P95 = "p95_ms"
    P99 = "p99_ms"
    OUTPUT_FAULTS = "output_faults"
    OUTPUT_DIFFERENCE = "output_difference"
    CONVERSION_DIFFERENCE = "conversion_difference"
    TELEMETRY = "telemetry"
    PROMETHEUS = "prometheus"


BY_GATEWAYS = frozenset(
    {
        MetricKind.ERROR_RATE,
        MetricKind.SUCCESS_RATE,
        MetricKind.P50,
        MetricKind.P95,
        MetricKind.P99,
    }
)
BY_COMPARISON = frozenset({MetricKind.OUTPUT_FAULTS, MetricKind.OUTPUT_DIFFERENCE})


@dataclass(frozen=True, slots=True)
class Query:
    """A query to a Prometheus; `text` may name {{model}}, {{environment}}, {{version}}, {{window}}.

    With a condition relative to the baseline it is asked twice, once with each version.
    """

    address: str
    text: str


class Aggregate(StrEnum):
    """What a window's values of a series come to."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    NEWEST = "newest"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """A series that is measured of the endpoint's versions, as `feature_drift_score`."""

    name: str
    label: str = ""
    aggregate: Aggregate = Aggregate.MEAN


@dataclass(frozen=True, slots=True)
class Metric:
    """What to measure, how often, and what its values mean.

    `min_requests` are requests, or values of a series. Limits count measurements that may be so
    before the analysis ends that way: with a `failure_limit` of 0 the first failed one fails it.
    """

    name: str
    kind: MetricKind
    success: Condition | None = None
    failure: Condition | None = None
    query: Query | None = None
    series: SeriesQuery | None = None
    interval_s: float | None = None
    count: int | None = None
    initial_delay_s: float = 0.0
    window_s: float = 60.0
    failure_limit: int = 0
    inconclusive_limit: int = 0
    consecutive_error_limit: int = 4
    min_requests: int = 1
    dry_run: bool = False

    @property
    def is_relative(self) -> bool:
        """Whether a condition takes the baseline's value."""
        return any(one is not None and one.is_relative for one in (self.success, self.failure))


@dataclass(frozen=True, slots=True)
class SetWeight:
    """Give the candidate this share, in basis points."""

    points: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Stand still for a time, or until somebody lets it go on (None)."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Analyse:
    """Measure, and go on only when all that decides was successful."""

    metrics: tuple[Metric, ...]


Step = SetWeight | Pause | Analyse


@dataclass(frozen=True, slots=True)
class AdvanceWindow:
    """Times of the week in which steps may begin: from `start` on, for `length`, in a time zone."""

    days: frozenset[int]
    start: timedelta
    length: timedelta
    time_zone: str = "UTC"

    def opening(self, now: datetime) -> datetime | None:
        """When it opens next; `now` or earlier when it is open. None when it never does."""
        zone = ZoneInfo(self.time_zone)
        today = now.astimezone(zone).date()
        for offset in range(-1, 8):
            day = today + timedelta(days=offset)
            if day.weekday() not in self.days:
                continue
            # Wall-clock time of the zone: nine o'clock stays nine when summer time begins.
            midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
            opens = midnight + self.start
            if opens.astimezone(now.tzinfo) + self.length > now:
                return opens.astimezone(now.tzinfo)
        return None


@dataclass(frozen=True, slots=True)
class FastCheck:
    """What ends a rollout within seconds; None: not looked at. Rates in percent."""

    max_error_rate: float | None = 1.0
    max_p99_ms: float | None = None
    max_output_faults: float | None = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, what is analysed beside them, when steps may begin, and the fast check."""

    steps: tuple[Step, ...]
    background: tuple[Metric, ...] = ()
    background_from: int = 0
    windows: tuple[AdvanceWindow, ...] = ()
    fast: FastCheck | None = field(default_factory=FastCheck)

    @property
    def highest(self) -> int:
        """The largest weight that any step gives."""
        return max((one.points for one in self.steps if isinstance(one, SetWeight)), default=WHOLE)

    def opening(self, now: datetime) -> datetime | None:
        """When a step may begin next: `now` when it may; None when no window ever opens."""
        if not self.windows:
            return now
        opens = [at for one in self.windows if (at := one.opening(now)) is not None]
        return max(min(opens), now) if opens else None
