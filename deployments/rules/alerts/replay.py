"""When a rule would have fired: the same judging and the same states, over what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from deployments.rules.alerts.catalogue import Readings, Target
from deployments.rules.alerts.documents import OPERATORS, RuleDocument
from deployments.rules.alerts.evaluate import Finding, Standing, Step, Turn, judge, step

MINUTE = timedelta(minutes=1)


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

    Each look has the readings of each condition in turn. What it finds holds for the minute until
    the next look: a rule that waits for less than that fires, or is over, in between.
    """
    standings: dict[Target, Standing] = {}
    worst: dict[Target, float] = {}
    found = []
    larger_is_worse = OPERATORS[rule.conditions[0].op](1.0, 0.0)
    for at, readings in looks:
        findings = judge(rule, readings)
        for target in findings.keys() | standings.keys():
            finding = findings.get(target)
            taken, moment = _within(rule, standings.get(target), finding, at)
            if finding is not None and finding.wrong:
                value = finding.measured[0].value
                pick = max if larger_is_worse else min
                worst[target] = pick(worst.get(target, value), value)
            if taken.turn is Turn.RESOLVED:
                standing = standings.pop(target)
                found.append(_fired(target, standing, moment, worst.pop(target)))
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


def _within(
    rule: RuleDocument, standing: Standing | None, finding: Finding | None, at: datetime
) -> tuple[Step, datetime]:
    """What a look makes of an alert, and the minute after it that is like it; and when."""
    taken = step(rule, standing, finding, at)
    known = taken.standing
    if finding is None or known is None or taken.turn in (Turn.RESOLVED, Turn.DROPPED):
        return taken, at
    if finding.wrong and not known.firing:
        due = known.started_at + timedelta(seconds=rule.for_s)
    elif not finding.wrong and known.clear_since is not None:
        due = known.clear_since + timedelta(seconds=rule.keep_firing_s)
    else:
        return taken, at
    return (step(rule, known, finding, due), due) if due < at + MINUTE else (taken, at)


def _fired(
    target: Target, standing: Standing, resolved_at: datetime | None, worst: float
) -> WouldHaveFired:
    return WouldHaveFired(
        target, standing.fired_at or standing.started_at, resolved_at, round(worst, 4)
    )
