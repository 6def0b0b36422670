"""What an experiment decides beforehand, and what its counts say at any time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from console.errors import FieldError, Invalid
from deployments.rules.experiments.outcomes import NAME
from deployments.rules.experiments.sequential_tests import (
    Estimate,
    Pooled,
    Stratum,
    Verdict,
    conversion,
    verdict,
)
from deployments.rules.statistics.charts import parse_span

LONGEST_WINDOW_S = 86_400
SETTLING_S = 10
"""How long after its window a minute's counts may still be on their way."""
MOST_POINTS = 240


@dataclass(frozen=True, slots=True)
class ExperimentSettings:
    """`margin` and `confidence` are shares; the margin is of conversions, in absolute terms:
    0.01 is one percentage point. An outcome counts within `window_s` seconds of its answer.
    """

    outcome: str
    margin: float = 0.01
    confidence: float = 0.95
    take_off: bool = True
    window_s: int = 600

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ExperimentSettings:
        return cls(**stored)


@dataclass(frozen=True, slots=True)
class MinuteCount:
    """Answers of one version within one minute, and those of them that led to the outcome."""

    version: int
    minute: datetime
    answered: int
    converted: int


@dataclass(frozen=True, slots=True)
class VersionEvidence:
    """`waiting` answers are so new that their outcome may still come; they do not count yet."""

    version: int
    answered: int
    converted: int
    conversion: Estimate | None
    waiting: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What may be said at one time; `points` are the differences as they stood before."""

    baseline: VersionEvidence
    candidate: VersionEvidence
    difference: Estimate | None
    verdict: Verdict
    points: tuple[tuple[datetime, Estimate], ...] = ()


def parse_settings(
    *, outcome: str, margin: float, confidence: float, take_off: bool, window: str
) -> ExperimentSettings:
    """Settings as a person gives them: margin in percentage points, confidence in percent, the
    window as `10m` or `24h`. Raises Invalid with a pointer for each fault.
    """
    faults = []
    if not NAME.match(outcome):
        faults.append(FieldError("/outcome", "Small letters, digits, _ . and -, a letter first."))
    if not 0.1 <= margin <= 50:
        faults.append(FieldError("/margin", "Between 0.1 and 50 percentage points."))
    if not 80 <= confidence <= 99.9:
        faults.append(FieldError("/confidence", "Between 80 and 99.9 percent."))
    seconds = _seconds(window, faults)
    if faults:
        raise Invalid(
            "The experiment cannot be started like this.",
            code="invalid_experiment",
            hint=faults[0].detail,
            errors=tuple(faults),
        )
    return ExperimentSettings(
        outcome, round(margin / 100, 6), round(confidence / 100, 6), take_off, seconds
    )


def _seconds(window: str, faults: list[FieldError]) -> int:
    try:
        seconds = int(parse_span(window.strip()).total_seconds())
    except (Invalid, OverflowError):
        seconds = 0
    if not 0 < seconds <= LONGEST_WINDOW_S:
        faults.append(FieldError("/window", "A time such as 10m, at most 24h."))
    return seconds


def evidence(
    counts: Iterable[MinuteCount],
    settings: ExperimentSettings,
    *,
    baseline: int,
    candidate: int,
    now: datetime,
) -> Evidence:
    """The present state of an experiment from all its minutes.

    Only minutes whose every answer has had its time for an outcome count, for either version.
    """
    minutes: dict[datetime, dict[int, MinuteCount]] = defaultdict(dict)
    for one in counts:
        # A process that died between the two may have lost answers whose outcomes came.
        minutes[one.minute][one.version] = replace(one, converted=min(one.converted, one.answered))
    ripe = now - timedelta(seconds=60 + settings.window_s + SETTLING_S)
    counted = [minute for minute in sorted(minutes) if minute <= ripe]
    pooled = Pooled()
    points: list[tuple[datetime, Estimate]] = []
    for minute in counted:
        pooled.add(_stratum(minutes[minute].get(baseline), minutes[minute].get(candidate)))
        found = pooled.difference(margin=settings.margin, confidence=settings.confidence)
        if found is not None:
            points.append((minute, found))
    present = points[-1][1] if points else None

    def side(version: int) -> VersionEvidence:
        here = {minute: one[version] for minute, one in minutes.items() if version in one}
        ripened = [one for minute, one in here.items() if minute <= ripe]
        answered = sum(one.answered for one in ripened)
        converted = sum(one.converted for one in ripened)
        return VersionEvidence(
            version,
            answered,
            converted,
            conversion(answered, converted, settings.confidence),
            waiting=sum(one.answered for one in here.values()) - answered,
        )

    return Evidence(
        side(baseline),
        side(candidate),
        present,
        verdict(present, settings.margin),
        tuple(_thinned(points)),
    )


def _stratum(baseline: MinuteCount | None, candidate: MinuteCount | None) -> Stratum:
    return Stratum(
        baseline.answered if baseline else 0,
        baseline.converted if baseline else 0,
        candidate.answered if candidate else 0,
        candidate.converted if candidate else 0,
    )


def _thinned(points: list[tuple[datetime, Estimate]]) -> list[tuple[datetime, Estimate]]:
    """At most so many points as a chart shows, the newest always among them."""
    every = -(-len(points) // MOST_POINTS)
    return points[::-1][:: every or 1][::-1]


def is_worse(found: Evidence, settings: ExperimentSettings) -> bool:
    """Whether the candidate is to be taken off by the rule that was agreed before."""
    return settings.take_off and found.verdict is Verdict.WORSE
