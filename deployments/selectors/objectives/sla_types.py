"""What pages, documents and APIs of promises are made of."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from deployments.models import Incident
from deployments.rules.incidents.spells import Spell
from deployments.rules.objectives import slo
from deployments.rules.objectives.sla_months import BudgetLine
from deployments.rules.objectives.slo import Attainment, Objective, Promise
from deployments.rules.objectives.spans import Span, minutes_of
from deployments.rules.statistics.rollups import Traffic
from deployments.selectors.causes.occurrences import Occurrence
from models_registry.models import ContractSignature, Seat, ServiceContract


@dataclass(frozen=True, slots=True)
class ObjectiveReport:
    """One objective over one span; `attained` in percent, budget in requests, None: no requests."""

    name: str
    sentence: str
    target: float
    threshold_ms: float | None
    attained: float | None
    good: float
    valid: int
    budget_total: float
    budget_left: float
    budget_left_share: float | None
    burn_rate: float | None
    state: Promise
    exact: bool

    @property
    def bad(self) -> float:
        return max(self.valid - self.good, 0.0)


@dataclass(frozen=True, slots=True)
class DayReport:
    """One day of the calendar; `state` is the worst of `states`, which are by objective.

    `attained` in percent by objective, missing without requests.
    """

    date: date
    state: Promise
    requests: int
    attained: dict[str, float]
    states: dict[str, Promise] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MonthReport:
    """A month in the trend: the worst objective's state and share of budget left."""

    first: date
    state: Promise
    requests: int
    budget_left_share: float | None
    attained: dict[str, float]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Time that the three seats took out of the count: `kind` is maintenance or exclusion.

    `state` is `agreed`, `planned` (agreed, and has not begun) or `proposed`. `counted` is what is
    left out of the month by now; None as long as it leaves out nothing.
    """

    kind: str
    span: Span
    reason: str
    evidence: str
    words: tuple[tuple[str, str], ...]
    state: str
    counted: Span | None = None

    @property
    def seats(self) -> tuple[str, ...]:
        """Who agreed for which seat, in the language that is on when it is read."""
        return tuple(f"{person} ({Seat(seat).label})" for person, seat in self.words)

    @property
    def is_partly(self) -> bool:
        """Whether less than the whole of it is left out: it runs, or lies in two months."""
        return self.counted is not None and self.counted != self.span


@dataclass(frozen=True, slots=True)
class SlaRow:
    """A promise in the list: its objectives over their own windows, or over a month.

    `months` is the trend, oldest first, as it was last counted.
    """

    environment: str
    model: str
    team: str
    url: str
    state: Promise
    budget_left_share: float | None
    objectives: list[ObjectiveReport]
    requests: int = 0
    months: list[MonthReport] = field(default_factory=list)

    @property
    def trend(self) -> list[float | None]:
        """Percent of the budget left in each of those months, None without requests."""
        shares = [month.budget_left_share for month in self.months]
        return [None if share is None else round(share * 100, 1) for share in shares]

    @property
    def has_trend(self) -> bool:
        """Whether there is a line to draw: two months with requests."""
        return sum(share is not None for share in self.trend) > 1


@dataclass(frozen=True, slots=True)
class SlaPage:
    """One endpoint's month; `now` holds the objectives over their own windows.

    `objectives` leave out what the seats excluded; `with_everything` does not, and is empty
    where nothing was excluded. `spells` say when callers were not well in each
    incident. `unobserved` are stretches in which nothing was counted.
    """

    environment: str
    model: str
    description: str
    month: str
    first: date
    start: datetime
    end: datetime
    is_over: bool
    contract: ServiceContract | None
    signatures: list[ContractSignature]
    objectives: list[ObjectiveReport]
    now: list[ObjectiveReport]
    days: list[DayReport]
    requests: int
    statuses: dict[str, int]
    state: Promise
    budget_lines: list[BudgetLine] = field(default_factory=list)
    months: list[MonthReport] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    spells: dict[uuid.UUID, list[Spell]] = field(default_factory=dict)
    changes: list[Occurrence] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    with_everything: list[ObjectiveReport] = field(default_factory=list)
    observed_share: float | None = None
    unobserved: list[Span] = field(default_factory=list)

    @property
    def unobserved_minutes(self) -> int:
        return minutes_of(self.unobserved)

    @property
    def left_out_spans(self) -> list[Span]:
        """What of the month is left out by now."""
        return [one.counted for one in self.left_out if one.counted is not None]

    @property
    def budget_left_share(self) -> float | None:
        known = [
            one.budget_left_share for one in self.objectives if one.budget_left_share is not None
        ]
        return min(known) if known else None


def objective_report(
    objective: Objective, attained: Attainment, burn: Traffic | None = None
) -> ObjectiveReport:
    """An objective's figures; the burn rate is that of the traffic given."""
    recent = slo.attain(objective, burn) if burn else None
    return ObjectiveReport(
        name=objective.name,
        sentence=_sentence(objective),
        target=objective.target,
        threshold_ms=objective.threshold_ms,
        attained=attained.attained,
        good=attained.good,
        valid=attained.valid,
        budget_total=attained.budget_total,
        budget_left=attained.budget_left,
        budget_left_share=attained.budget_left_share,
        burn_rate=recent.burn_rate if recent else None,
        state=attained.promise,
        exact=attained.exact,
    )


def day_report(day: date, traffic: Traffic | None, objectives: Sequence[Objective]) -> DayReport:
    """A day by what was counted in it; None when nothing was."""
    if traffic is None:
        return DayReport(day, Promise.NO_DATA, 0, {})
    each = {one.name: slo.attain(one, traffic) for one in objectives}
    return DayReport(
        date=day,
        state=slo.worst([one.promise for one in each.values()]),
        requests=traffic.requests,
        attained={name: one.attained for name, one in each.items() if one.attained is not None},
        states={name: one.promise for name, one in each.items()},
    )


def month_report(
    first: date, traffic: Traffic | None, objectives: Sequence[Objective]
) -> MonthReport:
    """A month by what was counted in it; None when nothing was."""
    each = {one.name: slo.attain(one, traffic or Traffic()) for one in objectives}
    shares = [one.budget_left_share for one in each.values() if one.budget_left_share is not None]
    return MonthReport(
        first=first,
        state=slo.worst([one.promise for one in each.values()]),
        requests=traffic.requests if traffic else 0,
        budget_left_share=min(shares) if shares else None,
        attained={name: one.attained for name, one in each.items() if one.attained is not None},
    )


def attained_text(attained: float | None, target: float) -> str:
    """Percent for a CSV: four decimals, and more where rounding would make good what was missed.

    >>> attained_text(99.94, 99.9), attained_text(99.89996, 99.9)
    ('99.9400', '99.899960')
    """
    if attained is None:
        return ""
    for digits in (4, 6, 8):
        text = f"{attained:.{digits}f}"
        if (float(text) < target) == (attained < target):
            return text
    return repr(attained)


def _sentence(objective: Objective) -> str:
    if objective.threshold_ms is not None:
        return f"{objective.target:g} % of answers within {objective.threshold_ms:g} ms"
    return f"{objective.target:g} % of requests answered without a fault of ours"
