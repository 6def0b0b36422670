"""When a rule would have fired: the same judging and the same states, over what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from deployments.rules.alerts.catalogue import Readings, Target
from deployments.rules.alerts.documents import OPERATORS, RuleDocument
from deployments.rules.alerts.evaluate import Standing, Turn, judge, step


@dataclass(frozen=True, slots=True)
class WouldHaveFired:
    """One alert that a rule would have raised; `worst` is the first condition's worst value."""

    target: Target
    fired_at: datetime
    resolved_at: datetime | None
    worst: float


def replay(
    rule: RuleDocument, looks: Iterable[tuple[datetime, Sequence[Readings]]]
) -> list[WouldHaveFired]:
    """Every alert that looks at these moments would have raised, oldest first.

    Each look has the readings of each condition in turn.
    """
    standings: dict[Target, Standing] = {}
    worst: dict[Target, float] = {}
    found = []
    larger_is_worse = OPERATORS[rule.conditions[0].op](1.0, 0.0)
    for at, readings in looks:
        findings = judge(rule, readings)
        for target in findings.keys() | standings.keys():
            finding = findings.get(target)
            taken = step(rule, standings.get(target), finding, at)
            if finding is not None and finding.wrong:
                value = finding.measured[0].value
                pick = max if larger_is_worse else min
                worst[target] = pick(worst.get(target, value), value)
            if taken.turn is Turn.RESOLVED:
                standing = standings.pop(target)
                found.append(_fired(target, standing, at, worst.pop(target)))
            elif taken.turn is Turn.DROPPED or taken.standing is None:
                standings.pop(target, None)
                worst.pop(target, None)
            else:
                standings[target] = taken.standing
    found += [
        _fired(target, standing, None, worst[target])
        for target, standing in standings.items()
        if standing.firing
    ]
    return sorted(found, key=lambda one: one.fired_at)


def _fired(
    target: Target, standing: Standing, resolved_at: datetime | None, worst: float
) -> WouldHaveFired:
    return WouldHaveFired(
        target, standing.fired_at or standing.started_at, resolved_at, round(worst, 4)
    )
