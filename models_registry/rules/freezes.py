"""When an environment is frozen: windows in UTC, once or each week, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

WEEK = timedelta(days=7)
NEAR = timedelta(days=3)
"""How long ahead a window is told of."""
MOST_STEPS = 60
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which nothing new is deployed: [starts_at, ends_at), aware times.

    `weekly` repeats it every seven days from its first beginning on. In UTC a week has always the
    same length, so that no window grows or shrinks with summer time.
    """

    name: str
    starts_at: datetime
    ends_at: datetime
    weekly: bool = False
    reason: str = ""

    @property
    def why(self) -> str:
        """What to call it: its reason, or its name."""
        return self.reason or self.name


@dataclass(frozen=True, slots=True)
class Frozen:
    """A stretch of frozen time: its first window, and when the last that touches it ends.

    `until` is None when windows follow each other without end.
    """

    window: Window
    since: datetime
    until: datetime | None


def occurrence(window: Window, now: datetime) -> tuple[datetime, datetime] | None:
    """When the window is running at `now`, or begins next; None when it is over for good."""
    if not window.weekly or now < window.starts_at:
        return (window.starts_at, window.ends_at) if now < window.ends_at else None
    start = window.starts_at + WEEK * ((now - window.starts_at) // WEEK)
    if now >= start + (window.ends_at - window.starts_at):
        start += WEEK
    return start, start + (window.ends_at - window.starts_at)


def frozen_at(windows: Sequence[Window], now: datetime) -> Frozen | None:
    """What freezes at `now`, with windows that touch or overlap taken together."""
    running = _running(windows, now)
    if running is None:
        return None
    window, since, end = running
    for _ in range(MOST_STEPS):
        following = _running(windows, end)
        if following is None:
            return Frozen(window, since, end)
        end = following[2]
    return Frozen(window, since, None)


def next_freeze(
    windows: Sequence[Window], now: datetime, *, within: timedelta = NEAR
) -> Frozen | None:
    """The freeze that begins next, when it does so `within` that time and none is running."""
    if _running(windows, now) is not None:
        return None
    coming = [
        (times[0], window) for window in windows if (times := occurrence(window, now)) is not None
    ]
    if not coming:
        return None
    start, window = min(coming, key=lambda pair: (pair[0], pair[1].name))
    if start - now > within:
        return None
    found = frozen_at(windows, start)
    return Frozen(window, start, found.until if found else None)


def end_words(frozen: Frozen, now: datetime) -> str:
    """The end as people say it: Monday 06:00 UTC, with the date when it is a week away or more."""
    return moment_words(frozen.until, now) if frozen.until else "a window is lifted"


def moment_words(moment: datetime, now: datetime) -> str:
    """A time in UTC by its weekday, and by its date when it is not within the coming six days."""
    at = moment.astimezone(UTC)
    clock = f"{at:%H:%M} UTC"
    if timedelta() <= moment - now < WEEK - timedelta(days=1):
        return f"{_DAYS[at.weekday()]} {clock}"
    return f"{_DAYS[at.weekday()]} {at.day} {_MONTHS[at.month - 1]} {at.year}, {clock}"


def _running(windows: Sequence[Window], now: datetime) -> tuple[Window, datetime, datetime] | None:
    """The window that is running and ends last, with its times."""
    found = [
        (window, *times)
        for window in windows
        if (times := occurrence(window, now)) is not None and times[0] <= now
    ]
    return max(found, key=lambda one: one[2]) if found else None
