"""What the escalation rule knows and decides, as plain data, and how its progress is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """Where an endpoint stands on its way down the levels and back."""

    WATCHING = "watching"
    """Nothing is wrong, or nothing that is the automatism's."""
    SETTLING = "settling"
    """Versions answer again; whether that holds is being seen."""
    HELD = "held"
    """The fallback or the open circuit answers; the return is not due yet."""
    PROBING = "probing"
    """A share of the requests tries the versions."""
    HANDED_OVER = "handed_over"
    """A person has moved the traffic: it is theirs until the incident is resolved."""
    STOPPED = "stopped"
    """Too many moves, or no level left: it stays, and a person was called."""


class Act(StrEnum):
    STAY = "stay"
    ASK = "ask"
    """Ask `versions` directly, without a caller, and decide again with what came of it."""
    MOVE = "move"
    """Go to `level`: 1 with all traffic on the one of `versions`, 2 and 3 by mode."""
    PROBE = "probe"
    """Let `probe` basis points try `versions` (none: those that have the weights)."""
    RETURN = "return"
    """Normal mode again, with all traffic on `versions` (none: by the weights)."""
    END = "end"
    """Callers have been well for long enough: the disturbance is over."""
    HAND_OVER = "hand_over"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class VersionHealth:
    """One version within the window; `nodes` are those that have it and can be reached."""

    requests: int = 0
    provider_faults: int = 0
    p99_ms: float | None = None
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of an endpoint now.

    `revision` is the wanted split's; `settled` that every gateway acts on it; `refused` that a
    gateway refused the split which the automatism wrote last. `fresh`: the numbers are of the last
    seconds. `others` led the traffic before, are ready and can be reached, the best first; `gone`
    could be deployed again. `spared` is a rollout's candidate, which the rollout judges itself.
    `asked` holds what came of asking versions directly. Version 0 is the gateway itself.
    `starting`: whoever looks has only begun to; nodes may be loading what they had, too.
    """

    revision: int
    mode: str = "normal"
    weights: Mapping[int, int] = field(default_factory=dict)
    settled: bool = True
    refused: bool = False
    fresh: bool = True
    versions: Mapping[int, VersionHealth] = field(default_factory=dict)
    others: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    fallback: bool = False
    incident_open: bool = False
    spared: int | None = None
    asked: Mapping[int, bool] = field(default_factory=dict)
    starting: bool = False

    @property
    def carriers(self) -> tuple[int, ...]:
        """Versions that have weight, without the one that a rollout judges."""
        return tuple(v for v, points in self.weights.items() if points and v != self.spared)


@dataclass(frozen=True, slots=True)
class Progress:
    """The rule's own memory. `revision` is the split that it wrote last (0: none in this incident),
    `moves` are its changes of level within the last hour, `left` the versions it got away from and
    `cause` why it did so last. `back_at`: when the nodes that were missing last had come back; what
    was counted before is theirs and no version's."""

    phase: Phase = Phase.WATCHING
    level: int = 0
    since: datetime | None = None
    revision: int = 0
    step: int = 0
    failures: int = 0
    versions: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    missing_since: datetime | None = None
    moves: tuple[datetime, ...] = ()
    cause: str = ""
    back_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, what to remember, and when to look again at the latest.

    `cause` is a code (error_rate, latency, no_node, refused, fallback_fails …), `message` words
    for people; `call` means that a person has to know of it at once.
    """

    act: Act
    progress: Progress
    next_look: datetime
    cause: str = ""
    message: str = ""
    level: int = 0
    versions: tuple[int, ...] = ()
    probe: int = 0
    redeploy: int | None = None
    call: bool = False


def progress_json(progress: Progress) -> dict[str, Any]:
    """The progress as it is stored."""
    return {
        "phase": progress.phase.value,
        "level": progress.level,
        "since": _text(progress.since),
        "revision": progress.revision,
        "step": progress.step,
        "failures": progress.failures,
        "versions": list(progress.versions),
        "left": list(progress.left),
        "missing_since": _text(progress.missing_since),
        "moves": [moment.isoformat() for moment in progress.moves],
        "cause": progress.cause,
        "back_at": _text(progress.back_at),
    }


def read_progress(stored: Mapping[str, Any]) -> Progress:
    """What `progress_json` wrote; {} is a beginning."""
    if "phase" not in stored:
        return Progress()
    return Progress(
        phase=Phase(stored["phase"]),
        level=stored["level"],
        since=_moment(stored["since"]),
        revision=stored["revision"],
        step=stored["step"],
        failures=stored["failures"],
        versions=tuple(stored["versions"]),
        left=tuple(stored["left"]),
        missing_since=_moment(stored["missing_since"]),
        moves=tuple(datetime.fromisoformat(text) for text in stored["moves"]),
        cause=stored.get("cause", ""),
        back_at=_moment(stored.get("back_at")),
    )


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
