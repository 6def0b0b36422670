"""The root-cause board of an endpoint: signals, what happened, and the case that they make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from console.errors import FieldError, Invalid
from console.models import User
from deployments.models import Endpoint
from deployments.rules.causes.board import Case, Happened, find_case
from deployments.rules.causes.findings import Finding, findings
from deployments.rules.causes.quantities import Signal
from deployments.selectors.causes.occurrences import Occurrence, occurrences
from deployments.selectors.causes.quantities import signals_of
from deployments.selectors.traffic.endpoints import find_endpoint

WINDOWS = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
}
BEFORE = timedelta(minutes=30)
AFTER = timedelta(minutes=15)
LATE = timedelta(minutes=30)
"""What happened so long before the stretch may still be why something moved at its beginning."""
CONSEQUENCES = frozenset(
    {
        "incident.began",
        "incident.ended",
        "rollout.promoted",
        "rollout.aborted",
        "rollout.rolled_back",
        "release.approved",
    }
)
"""What follows from moves, or changes nothing that callers get: never why something moved."""


@dataclass(frozen=True, slots=True)
class Board:
    """A stretch of time of one endpoint; `step_s` is how finely its requests are counted."""

    endpoint: Endpoint
    start: datetime
    end: datetime
    step_s: int
    signals: list[Signal]
    happened: list[Occurrence]
    case: Case
    findings: list[Finding]

    @property
    def before(self) -> Occurrence | None:
        """What happened just before the first move."""
        return None if self.case.before is None else self.happened[self.case.before.index]


def board(
    environment: str,
    model: str,
    *,
    user: User,
    now: datetime,
    window: str = "15m",
    around: datetime | None = None,
) -> Board:
    """The board over `window` up to now, or around a moment: from 30 min before to 15 min after.

    Raises NotFound, Invalid (`invalid_span`). Some fifteen queries, whatever is there.
    """
    endpoint = find_endpoint(environment, model, user=user)
    start, end = _span(window, around, now)
    grid, signals = signals_of(endpoint, start, end)
    happened = occurrences(endpoint, start - LATE, end)
    may_be_why = [
        Happened(one.at, index, one.version)
        for index, one in enumerate(happened)
        if one.kind not in CONSEQUENCES
    ]
    case = find_case(signals, may_be_why, around=around)
    return Board(endpoint, grid.start, grid.end, grid.step, signals, happened, case, findings(case))


def _span(window: str, around: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    if around is not None:
        if around > now:
            raise Invalid(
                "That moment has not come yet.",
                code="invalid_span",
                hint="Name one in the past.",
                errors=(FieldError("/at", "Not in the future."),),
            )
        return around - BEFORE, min(around + AFTER, now)
    if window not in WINDOWS:
        raise Invalid(
            f"{window!r} is no span of this board.",
            code="invalid_span",
            hint=f"Spans are {', '.join(WINDOWS)}.",
            errors=(FieldError("/window", f"One of {', '.join(WINDOWS)}."),),
        )
    return now - WINDOWS[window], now
