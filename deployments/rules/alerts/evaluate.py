"""Whether a rule's conditions hold, and what that makes of an alert: nothing here reads a clock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from deployments.rules.alerts.catalogue import Reading, Readings, Target
from deployments.rules.alerts.documents import OPERATORS, Condition, RuleDocument

UNSEEN_LIMIT = timedelta(seconds=180)
"""Who did not look for so long does not know that a condition has held all the while."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One condition with the value that it was judged by."""

    condition: Condition
    value: float
    threshold: float
    holds: bool
    facts: Mapping[str, float | str]

    def to_json(self) -> dict[str, Any]:
        """As an alert keeps it for evidence."""
        return {
            "signal": self.condition.signal,
            "op": self.condition.op,
            "aggregate": self.condition.aggregate,
            "value": self.value,
            "threshold": self.threshold,
            "facts": dict(self.facts),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing: wrong or well, and by which values."""

    wrong: bool
    measured: tuple[Measured, ...]


class Turn(StrEnum):
    """What became of an alert by one look."""

    NONE = "none"
    STARTED = "started"
    FIRED = "fired"
    CHANGED = "changed"
    DROPPED = "dropped"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an alert stands: pending until `fired_at`, then firing."""

    started_at: datetime
    seen_at: datetime
    fired_at: datetime | None = None
    clear_since: datetime | None = None
    quiet_since: datetime | None = None

    @property
    def firing(self) -> bool:
        return self.fired_at is not None


@dataclass(frozen=True, slots=True)
class Step:
    """The standing after a look (None: there is no alert) and what that was."""

    standing: Standing | None
    turn: Turn
    why: str = ""


def judge(rule: RuleDocument, readings: Sequence[Readings]) -> dict[Target, Finding]:
    """What each thing is found to be, by the values of each condition in turn.

    The things are those of the first condition. Another condition's value is that of the same
    thing, else of what it is part of: without the label, the version, the device. A thing that
    one condition has no value of is not found: not measured is neither wrong nor well.
    """
    found = {}
    first, *others = rule.conditions
    for target, reading in readings[0].items():
        if first.label is not None and target.label != first.label:
            continue
        measured = [_compare(rule, first, reading)]
        for condition, values in zip(others, readings[1:], strict=True):
            other = _of_the_same(values, target, condition.label)
            if other is None:
                break
            measured.append(_compare(rule, condition, other))
        else:
            found[target] = Finding(all(one.holds for one in measured), tuple(measured))
    return found


def step(
    rule: RuleDocument, standing: Standing | None, finding: Finding | None, now: datetime
) -> Step:
    """What one look makes of an alert of one thing; None: nothing is known of it now.

    A condition has to hold without a break for `for_s`; an alert that fires goes on until nothing
    was wrong for `keep_firing_s`. What is not measured changes neither, until `missing_s`.
    """
    if standing is None:
        if finding is None or not finding.wrong:
            return Step(None, Turn.NONE)
        return _held(rule, Standing(now, now), now, started=True)
    if finding is None:
        return _not_measured(rule, standing, now)
    known = replace(standing, quiet_since=None, seen_at=now)
    if finding.wrong:
        if not standing.firing and _was_unseen(standing, now):
            known = replace(known, started_at=now)
        return _held(rule, replace(known, clear_since=None), now)
    if not standing.firing:
        return Step(None, Turn.DROPPED)
    clear_since = _earliest(standing.clear_since, now)
    if now - clear_since >= timedelta(seconds=rule.keep_firing_s):
        return Step(replace(known, clear_since=clear_since), Turn.RESOLVED, "well")
    turn = Turn.CHANGED if standing.clear_since is None else Turn.NONE
    return Step(replace(known, clear_since=clear_since), turn)


def fingerprint(rule: int, target: Target) -> str:
    """The name of "this rule, this thing": the same thing found again is the same alert."""
    parts = (rule, target.endpoint, target.node, target.device, target.version, target.label)
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def _held(rule: RuleDocument, standing: Standing, now: datetime, *, started: bool = False) -> Step:
    if standing.firing:
        return Step(standing, Turn.NONE)
    # A clock that went back makes no alert wait for longer than its rule says.
    began = min(standing.started_at, now)
    standing = replace(standing, started_at=began)
    if now - began >= timedelta(seconds=rule.for_s):
        return Step(replace(standing, fired_at=now), Turn.FIRED)
    return Step(standing, Turn.STARTED if started else Turn.NONE)


def _not_measured(rule: RuleDocument, standing: Standing, now: datetime) -> Step:
    quiet_since = _earliest(standing.quiet_since, now)
    after = timedelta(seconds=rule.missing_s)
    if not standing.firing:
        after = min(after, UNSEEN_LIMIT)
    if now - quiet_since >= after:
        turn = Turn.RESOLVED if standing.firing else Turn.DROPPED
        return Step(replace(standing, quiet_since=quiet_since), turn, "not_measured")
    turn = Turn.CHANGED if standing.quiet_since is None else Turn.NONE
    return Step(replace(standing, quiet_since=quiet_since), turn)


def _was_unseen(standing: Standing, now: datetime) -> bool:
    return now - standing.seen_at > UNSEEN_LIMIT


def _earliest(known: datetime | None, now: datetime) -> datetime:
    return min(known, now) if known is not None else now


def _compare(rule: RuleDocument, condition: Condition, reading: Reading) -> Measured:
    threshold = condition.threshold
    if condition.own_limit and reading.limit is not None:
        threshold = reading.limit
    holds = OPERATORS[condition.op](reading.value, threshold)
    faults = reading.facts.get("faults")
    if isinstance(faults, int | float) and faults < rule.min_faults:
        holds = False
    return Measured(condition, reading.value, threshold, holds, reading.facts)


def _of_the_same(values: Readings, target: Target, label: str | None) -> Reading | None:
    for wider in _wider(target):
        wanted = wider if label is None else replace(wider, label=label)
        if wanted in values:
            return values[wanted]
    return None


def _wider(target: Target) -> Iterable[Target]:
    """The thing itself, then what it is part of."""
    yield target
    yield (target := replace(target, label=""))
    yield replace(target, version=0)
    yield replace(target, device="")
    yield replace(target, device="", version=0)
    if target.node is not None and target.endpoint is not None:
        yield replace(target, node=None, device="")
        yield replace(target, node=None, device="", version=0)
        yield replace(target, endpoint=None, version=0)
        yield replace(target, endpoint=None, version=0, device="")
