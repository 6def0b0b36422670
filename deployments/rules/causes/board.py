"""Which quantity moved first, what happened just before, and what stayed as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from deployments.rules.causes.moves import (
    LEAST_RATIO,
    MINUTES,
    SECONDS,
    Care,
    Move,
    level,
    moves,
)
from deployments.rules.causes.quantities import DEPTH, ORDER, Bad, Kind, Signal

BEFORE = timedelta(minutes=5)
"""What moved longer ago than this before the symptom is taken for another story."""
CLOSE = timedelta(minutes=2)
AFTER = timedelta(minutes=3)
ENOUGH = 6
"""Points of a version that its level is taken from when versions are held against each other."""
PLAIN = 50.0
"""Percent of errors that need no more than one point: a version that fails is soon taken off."""
OUTRIGHT = frozenset({"errors", "no_node", "timeouts"})
COMPARED = frozenset({"errors", "p99", "compute"})
"""By these versions are held against each other; batches and queues follow from their shares."""
INSIDE = 0.8
"""Share of a signal's points near its level from which on it is said to have stayed there."""
QUIET_STEPS = 3
"""So many steps without what was bad, and it is over."""
TWICE = 2.0


@dataclass(frozen=True, slots=True)
class Mover:
    """A signal's move within the case.

    `appeared`: a version that is far worse than those beside it from its first requests on; its
    level before is theirs.
    """

    signal: Signal
    move: Move
    appeared: bool = False

    @property
    def is_bad(self) -> bool:
        bad = self.signal.kind.bad
        return bad == (Bad.UP if self.move.rose else Bad.DOWN)


@dataclass(frozen=True, slots=True)
class Steady:
    """A signal that stayed where it was, and where that is."""

    signal: Signal
    level: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """Since the case began a version is far worse than the others that answer beside it."""

    kind: Kind
    version: int
    value: float
    others: float


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that may make others move; `index` finds it in the list that it came from.

    `version` is the one that it concerns, 0 for all.
    """

    at: datetime
    index: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One story: the symptom, what moved around it in order of time, what did not.

    `before` is the newest thing that happened before the first move, None for none; `over_at` is
    when the symptom was gone again, None while it lasts.
    """

    symptom: Mover | None
    movers: tuple[Mover, ...] = ()
    steady: tuple[Steady, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    before: Happened | None = None
    over_at: datetime | None = None

    @property
    def first(self) -> Mover | None:
        return self.movers[0] if self.movers else None

    @property
    def before_s(self) -> float | None:
        """Seconds from what happened to the first move."""
        if self.before is None or self.first is None:
            return None
        return (self.first.move.at - self.before.at).total_seconds()


def find_case(
    signals: Sequence[Signal], happened: Sequence[Happened], *, around: datetime | None = None
) -> Case:
    """The story that the signals tell: the newest one, or the one nearest to `around`.

    `happened` is what is known to have happened and may be why, oldest first. A story begins with
    a symptom (something that callers or the business feel), else with any move for the worse.
    """
    found = {
        id(one): moves(one.points, least=one.kind.least, care=_care(one.step_s)) for one in signals
    }
    all_movers = [
        *(Mover(one, move) for one in signals for move in found[id(one)]),
        *_appearances(signals),
        *(Mover(one, move) for one in signals if (move := _outright(one, found[id(one)]))),
    ]
    symptom = _symptom([one for one in all_movers if one.is_bad], around)
    if symptom is None:
        return Case(None, steady=_steady(signals, set()))
    within = [one for one in all_movers if _belongs(one, symptom)]
    far_to_near = sorted(within, key=lambda one: abs(one.move.at - symptom.move.at), reverse=True)
    # Of each signal the move that is nearest: an earlier one is of another story.
    nearest = {id(one.signal): one for one in far_to_near}
    movers = _in_order(list(nearest.values()))
    case = Case(
        symptom=symptom,
        movers=tuple(movers),
        steady=_steady(signals, set(nearest)),
        contrasts=_contrasts(signals, symptom.move.at),
        over_at=_over(symptom, max(one.points[-1][0] for one in signals if one.points)),
    )
    return _with_what_was_before(case, happened)


def _care(step_s: float) -> Care:
    return SECONDS if step_s < 60 else MINUTES


def _belongs(one: Mover, symptom: Mover) -> bool:
    """Bad news long before may be why; what is neither good nor bad has to be close."""
    before = BEFORE if one.is_bad else CLOSE
    return symptom.move.at - before <= one.move.at <= symptom.move.at + AFTER


def _symptom(bad: Sequence[Mover], around: datetime | None) -> Mover | None:
    candidates = [one for one in bad if one.signal.kind.symptom] or list(bad)
    if not candidates:
        return None
    if around is not None:
        nearest = min(candidates, key=lambda one: abs((one.move.at - around).total_seconds()))
    else:
        nearest = max(candidates, key=lambda one: one.move.at)
    # The story of a symptom begins with the first that belongs to it.
    together = [one for one in candidates if timedelta(0) <= nearest.move.at - one.move.at <= AFTER]
    return _in_order(together)[0]


def _in_order(movers: Sequence[Mover]) -> list[Mover]:
    """By time; of those at one time the deeper layer first, for that is how faults climb."""
    return sorted(
        movers,
        key=lambda one: (
            one.move.at,
            -DEPTH[one.signal.kind.layer],
            ORDER[one.signal.kind.code],
            one.signal.version,
        ),
    )


def _steady(signals: Sequence[Signal], moved: set[int]) -> tuple[Steady, ...]:
    return tuple(
        Steady(one, middle)
        for one in signals
        if id(one) not in moved
        and (middle := level(one.points)) is not None
        and _stays(one, middle)
    )


def _stays(signal: Signal, middle: float) -> bool:
    """What goes up and down all the time has moved nowhere, and did not stay either."""
    band = max(signal.kind.least, LEAST_RATIO * abs(middle))
    inside = sum(abs(value - middle) <= band for _at, value in signal.points)
    return inside >= INSIDE * len(signal.points)


def _over(symptom: Mover, end: datetime) -> datetime | None:
    """When the symptom was gone: after the last point that is nearer to the bad level."""
    move, step = symptom.move, timedelta(seconds=symptom.signal.step_s)
    middle = (move.before + move.after) / 2
    bad = [
        at for at, value in symptom.signal.points if at >= move.at and (value > middle) == move.rose
    ]
    last = (bad[-1] if bad else move.at) + step
    return last if end >= last + (QUIET_STEPS - 1) * step else None


def _outright(signal: Signal, known: Sequence[Move]) -> Move | None:
    """The newest time that most requests began to fail, where it was over too soon for a level."""
    if signal.kind.code not in OUTRIGHT:
        return None
    values = [value for _at, value in signal.points]
    for index in range(len(values) - 1, 0, -1):
        before = median(values[:index][-ENOUGH:])
        if values[index] >= PLAIN > values[index - 1] and before <= PLAIN / 5:
            at = signal.points[index][0]
            if any(abs(one.at - at) <= AFTER for one in known):
                return None
            return Move(at, before, values[index])
    return None


def _appearances(signals: Sequence[Signal]) -> Iterator[Mover]:
    """Versions that began within the stretch, far worse than what answered beside them."""
    begins = min((one.points[0][0] for one in signals if one.points), default=None)
    if begins is None:
        return
    for one in signals:
        if not one.version or one.place or not one.points or one.points[0][0] <= begins:
            continue
        since = one.points[0][0]
        for contrast in _contrasts(signals, since):
            if (contrast.version, contrast.kind.code) == (one.version, one.kind.code):
                yield Mover(one, Move(since, contrast.others, contrast.value), appeared=True)


def _contrasts(signals: Sequence[Signal], since: datetime) -> tuple[Contrast, ...]:
    """Versions that are worse than those beside them since the case began, the worst first."""
    by_kind: dict[str, dict[int, tuple[Kind, float]]] = {}
    for one in signals:
        if not one.version or one.place or one.kind.code not in COMPARED:
            continue
        values = [value for at, value in one.points if at >= since]
        if len(values) >= ENOUGH or _is_plain(one.kind, values):
            by_kind.setdefault(one.kind.code, {})[one.version] = (one.kind, median(values))
    found = []
    for levels in by_kind.values():
        for version, (kind, value) in levels.items():
            beside = [other for number, (_, other) in levels.items() if number != version]
            if beside and _far_worse(kind, value, median(beside)):
                found.append(Contrast(kind, version, value, median(beside)))
    return tuple(sorted(found, key=lambda one: (-DEPTH[one.kind.layer], one.kind.code)))


def _is_plain(kind: Kind, values: Sequence[float]) -> bool:
    return kind.code == "errors" and bool(values) and median(values) >= PLAIN


def _far_worse(kind: Kind, value: float, beside: float) -> bool:
    worse, better = (value, beside) if kind.bad is Bad.UP else (beside, value)
    return worse - better > kind.least and worse > TWICE * better


def _with_what_was_before(case: Case, happened: Sequence[Happened]) -> Case:
    """The newest thing that came before the first move; of a version's move what concerned it."""
    first = case.first
    if first is None:
        return case
    # A move is seen at the start of its step, so what happened within it came before it.
    latest = first.move.at + timedelta(seconds=first.signal.step_s)
    before = [one for one in happened if first.move.at - BEFORE <= one.at <= latest]
    of_version = [one for one in before if one.version == first.signal.version]
    known = (of_version if first.signal.version else before) or before
    return replace(case, before=known[-1]) if known else case
