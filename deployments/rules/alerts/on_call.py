"""Who is on call at a moment: rotations in local time, layer over layer, overrides over all.

Handovers are local times of a day. Each is turned into an instant by itself, so that a turn is 23
or 25 hours longer or shorter by an hour where the clocks change, and there is never a moment of
two turns or of none. A local time that the clocks skip is taken an hour later, one that comes
twice the first time (PEP 495, fold=0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

LONGEST_LOOK = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Layer:
    """People who take turns of `days_each` days; with `hours` or `weekdays` only then.

    `hours` that end before they begin go over midnight, and belong to the day they begin on.
    """

    people: tuple[int, ...]
    starts_on: date
    handover: time
    days_each: int = 7
    hours: tuple[time, time] | None = None
    weekdays: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Override:
    """`person` is on call from `starts_at` until `ends_at`, whatever the layers say."""

    person: int
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """Layers from the lowest up, overrides from the newest back; `zone` is an IANA name."""

    zone: str
    layers: tuple[Layer, ...] = ()
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, slots=True)
class OnCall:
    """Who it is, None for nobody; `by` is "override", "layer" or "nobody"."""

    person: int | None
    by: str


@dataclass(frozen=True, slots=True)
class Shift:
    """A stretch of time in which the same person is on call for the same reason."""

    person: int | None
    by: str
    starts_at: datetime
    ends_at: datetime


def on_call_at(schedule: Schedule, at: datetime) -> OnCall:
    """Who is on call at this moment: the newest override, else the highest layer that holds."""
    for override in schedule.overrides:
        if override.starts_at <= at < override.ends_at:
            return OnCall(override.person, "override")
    zone = ZoneInfo(schedule.zone)
    for layer in reversed(schedule.layers):
        if (person := _turn(layer, at, zone)) is not None and _holds(layer, at, zone):
            return OnCall(person, "layer")
    return OnCall(None, "nobody")


def shifts(schedule: Schedule, start: datetime, end: datetime) -> list[Shift]:
    """Who is on call between two moments, without a gap and without an overlap.

    Stretches with nobody are shifts of None. At most `LONGEST_LOOK` is looked at.
    """
    end = min(end, start + LONGEST_LOOK)
    found: list[Shift] = []
    moments = sorted({start, *(at for at in _changes(schedule, start, end) if start < at < end)})
    for at, until in zip(moments, [*moments[1:], end], strict=True):
        now = on_call_at(schedule, at)
        if found and (found[-1].person, found[-1].by) == (now.person, now.by):
            found[-1] = Shift(now.person, now.by, found[-1].starts_at, until)
        elif at < until:
            found.append(Shift(now.person, now.by, at, until))
    return found


def gaps(found: Sequence[Shift]) -> list[Shift]:
    """The stretches in which nobody is on call."""
    return [shift for shift in found if shift.person is None]


def instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The moment (UTC) at which a clock in `zone` shows this day and time."""
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def _turn(layer: Layer, at: datetime, zone: ZoneInfo) -> int | None:
    if not layer.people:
        return None
    days = (at.astimezone(zone).date() - layer.starts_on).days
    # The day's handover may be still to come; where clocks jump over midnight, so may two.
    turn = days // layer.days_each
    while _handover(layer, turn + 1, zone) <= at:
        turn += 1
    while _handover(layer, turn, zone) > at:
        turn -= 1
    return layer.people[turn % len(layer.people)] if turn >= 0 else None


def _handover(layer: Layer, turn: int, zone: ZoneInfo) -> datetime:
    return instant(layer.starts_on + timedelta(days=turn * layer.days_each), layer.handover, zone)


def _holds(layer: Layer, at: datetime, zone: ZoneInfo) -> bool:
    if layer.hours is None and not layer.weekdays:
        return True
    today = at.astimezone(zone).date()
    return any(
        begins <= at < ends
        for day in (today - timedelta(days=1), today)
        for begins, ends in _window(layer, day, zone)
    )


def _window(layer: Layer, day: date, zone: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
    """When the layer holds on the day that it begins on."""
    if layer.weekdays and day.weekday() not in layer.weekdays:
        return
    begins, ends = layer.hours or (time(0), time(0))
    last = day if begins < ends else day + timedelta(days=1)
    yield instant(day, begins, zone), instant(last, ends, zone)


def _changes(schedule: Schedule, start: datetime, end: datetime) -> Iterator[datetime]:
    for override in schedule.overrides:
        yield from (override.starts_at, override.ends_at)
    zone = ZoneInfo(schedule.zone)
    first = start.astimezone(zone).date() - timedelta(days=2)
    days = (end.astimezone(zone).date() - first).days + 2
    for layer in schedule.layers:
        yield from (_handover(layer, 0, zone),)
        for day in (first + timedelta(days=number) for number in range(days)):
            if (day - layer.starts_on).days % layer.days_each == 0:
                yield instant(day, layer.handover, zone)
            if layer.hours is not None or layer.weekdays:
                for window in _window(layer, day, zone):
                    yield from window
