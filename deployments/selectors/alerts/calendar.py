"""Who is on call when: now, in the days to come, and where nobody is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from console.models import User
from deployments.models import OnCallOverride, OnCallSchedule
from deployments.rules.alerts.on_call import Shift, instant, on_call_at, shifts
from deployments.selectors.alerts.on_call import rotations

MOST_SCHEDULES = 100
LOOK_AHEAD = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class PersonShift:
    """A shift with the person; `closed` is an account that is closed, which nobody reaches."""

    person: User | None
    by: str
    starts_at: datetime
    ends_at: datetime

    @property
    def closed(self) -> bool:
        return self.person is not None and not self.person.is_active

    @property
    def reachable(self) -> bool:
        """Whether a mail can reach somebody in it."""
        return self.person is not None and self.person.is_active and bool(self.person.email)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a day: `left` and `width` in percent of it."""

    shift: PersonShift
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Day:
    """A local day of the calendar, with who is on call in it."""

    day: date
    is_today: bool
    parts: list[Part]


@dataclass(frozen=True, slots=True)
class NowOnCall:
    """A schedule with who is on call now, until when, and who is next."""

    schedule: OnCallSchedule
    now: PersonShift
    next: PersonShift | None
    faults: list[PersonShift]


def on_call_now(now: datetime) -> list[NowOnCall]:
    """Each schedule with who is on call; `faults` are stretches of two weeks that nobody would
    be reached in. Seven queries, whatever the number of schedules (at most a hundred)."""
    rows = list(OnCallSchedule.objects.select_related("team")[:MOST_SCHEDULES])
    rules = rotations([row.pk for row in rows], since=now)
    found = {pk: shifts(rule, now, now + LOOK_AHEAD) for pk, rule in rules.items()}
    people = _people(shift for listed in found.values() for shift in listed)
    return [_now(row, [_with(people, one) for one in found[row.pk]]) for row in rows]


def calendar(schedule: OnCallSchedule, *, start: date, days: int, now: datetime) -> list[Day]:
    """The days from `start` on in the schedule's own time (five queries)."""
    zone = ZoneInfo(schedule.time_zone)
    edges = [instant(start + timedelta(days=n), time(0), zone) for n in range(days + 1)]
    rule = rotations([schedule.pk], since=edges[0])[schedule.pk]
    listed = shifts(rule, edges[0], edges[-1])
    people = _people(listed)
    shown = [_with(people, one) for one in listed]
    today = now.astimezone(zone).date()
    return [
        Day(
            day=start + timedelta(days=number),
            is_today=start + timedelta(days=number) == today,
            parts=[part for one in shown if (part := _part(one, begins, ends)) is not None],
        )
        for number, (begins, ends) in enumerate(pairwise(edges))
    ]


def person_shifts(schedule: OnCallSchedule, start: datetime, end: datetime) -> list[PersonShift]:
    """Who is on call between two moments (five queries)."""
    rule = rotations([schedule.pk], since=start)[schedule.pk]
    listed = shifts(rule, start, end)
    people = _people(listed)
    return [_with(people, one) for one in listed]


def overrides_of(schedule: OnCallSchedule, now: datetime) -> list[OnCallOverride]:
    """Who takes over now or later, the soonest first (one query)."""
    found = schedule.overrides.filter(ends_at__gt=now).select_related("person", "created_by")
    return list(found.order_by("starts_at", "pk")[:MOST_SCHEDULES])


def is_on_call(user: User, now: datetime) -> list[OnCallSchedule]:
    """The schedules by which this person is on call now."""
    rows = list(OnCallSchedule.objects.all()[:MOST_SCHEDULES])
    rules = rotations([row.pk for row in rows], since=now)
    return [row for row in rows if on_call_at(rules[row.pk], now).person == user.pk]


def _now(row: OnCallSchedule, listed: list[PersonShift]) -> NowOnCall:
    # Taking over one's own turn changes nobody: what is next is somebody else.
    then = next((one for one in listed if one.person != listed[0].person), None)
    return NowOnCall(
        schedule=row,
        now=replace(listed[0], ends_at=then.starts_at) if then else listed[-1],
        next=then,
        faults=[one for one in listed if not one.reachable][:5],
    )


def _part(shift: PersonShift, begins: datetime, ends: datetime) -> Part | None:
    first, last = max(shift.starts_at, begins), min(shift.ends_at, ends)
    if first >= last:
        return None
    whole = (ends - begins).total_seconds()
    return Part(
        shift,
        left=round(100 * (first - begins).total_seconds() / whole, 3),
        width=round(100 * (last - first).total_seconds() / whole, 3),
    )


def _people(listed: Iterable[Shift]) -> dict[int, User]:
    ids = {one.person for one in listed if one.person is not None}
    return User.objects.in_bulk(ids)


def _with(people: dict[int, User], shift: Shift) -> PersonShift:
    person = people.get(shift.person) if shift.person is not None else None
    return PersonShift(
        person, shift.by, shift.starts_at.astimezone(UTC), shift.ends_at.astimezone(UTC)
    )
