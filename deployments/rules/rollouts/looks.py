"""What a decision is made of, and what it is: looks, asks, actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from deployments.rules.rollouts.analysis import Found, Judged
from deployments.rules.rollouts.fast import Alarm
from deployments.rules.rollouts.progress import Progress
from deployments.rules.rollouts.types import Metric

BACKGROUND, INLINE = "background", "inline"
"""The scopes of measurements: beside the steps, or of one step."""


class Traffic(StrEnum):
    """What became of the split since the rollout wrote it."""

    OURS = "ours"
    MOVED = "moved"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"


class Act(StrEnum):
    WAIT = "wait"
    HOLD = "hold"
    RELEASE = "release"
    NEXT_STEP = "next_step"
    SET_WEIGHT = "set_weight"
    PAUSE = "pause"
    PROMOTE = "promote"
    ROLL_BACK = "roll_back"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Ask:
    """A measurement that is due: of the metric, over so many seconds up to now."""

    scope: str
    metric: Metric
    seconds: float


@dataclass(frozen=True, slots=True)
class Look:
    """All that is known at one moment.

    `found` answers the asks by (scope, metric); one that is missing is asked again. `acknowledged`
    is the candidate's weight that every gateway has; None while they have not said.
    """

    found: Mapping[tuple[str, str], Found] = field(default_factory=dict)
    alarm: Alarm | None = None
    ready: bool = True
    traffic: Traffic = Traffic.OURS
    traffic_message: str = ""
    acknowledged: int | None = None
    frozen: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """What to do; `points` is the candidate's new share where the traffic moves."""

    act: Act
    points: int | None = None
    cause: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The move, the state after it, what was judged on the way, and when to look again."""

    action: Action
    progress: Progress
    next_look: datetime
    judged: tuple[tuple[str, Judged], ...] = ()
