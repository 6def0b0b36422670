"""Months of a promise: which ones, how each ended, and how its budget was spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from deployments.rules.objectives.slo import Objective, Promise, attain, month_bounds
from deployments.rules.statistics.rollups import Traffic

RANKS = {Promise.BROKEN: 0, Promise.AT_RISK: 1, Promise.NO_DATA: 2, Promise.KEPT: 3}
"""The order in which promises are looked at: what is broken first, what is well last."""

SEVERAL_STATES = tuple(RANKS)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """How the budget of one objective went down: moments and the share left since then.

    The share is of the budget that all valid requests of the span make, so that the last point
    is what the table says. It may fall below 0.
    """

    name: str
    points: tuple[tuple[datetime, float], ...]


def month_before(first: date) -> date:
    """The first day of the month before."""
    return (first - timedelta(days=1)).replace(day=1)


def month_after(first: date) -> date:
    """The first day of the following month."""
    return (first + timedelta(days=32)).replace(day=1)


def months_until(first: date, count: int) -> list[date]:
    """`count` first days, oldest first, the last of which is `first`."""
    found = [first]
    while len(found) < count:
        found.append(month_before(found[-1]))
    return found[::-1]


def month_of(moment: datetime) -> date:
    """The first day of the month, UTC, that a moment lies in."""
    return moment.astimezone(UTC).date().replace(day=1)


def is_over(first: date, now: datetime) -> bool:
    """Whether a month has ended."""
    return month_bounds(first)[1] <= now


def budget_line(
    objective: Objective,
    steps: Mapping[datetime, Traffic],
    *,
    start: datetime,
    end: datetime,
    step: timedelta = HOUR,
) -> BudgetLine:
    """The budget's way from `start` to `end` by steps of counted traffic; empty without requests.

    A step without requests leaves it where it is: nothing was promised to nobody.
    """
    total = attain(objective, sum(steps.values(), Traffic()))
    left = total.budget_left_share
    if left is None:
        return BudgetLine(objective.name, ())
    bads = [(at, attain(objective, steps[at]).bad) for at in sorted(steps)]
    all_bad = sum(bad for _, bad in bads)
    spent, points = 0.0, [(start, 1.0)]
    for at, bad in bads:
        if not bad or not all_bad:
            continue
        # By what the whole span says, since histograms with other bounds add up less sharply.
        spent += bad / all_bad * (1.0 - left)
        points += [(at, points[-1][1]), (min(at + step, end), 1.0 - spent)]
    points.append((end, left))
    return BudgetLine(objective.name, tuple(points))


def worst_share(shares: Sequence[float | None]) -> float | None:
    """The least of what is known."""
    known = [share for share in shares if share is not None]
    return min(known) if known else None
