"""Reading the times of the week in which a rollout's steps may begin."""

from __future__ import annotations

import re
from datetime import timedelta
from zoneinfo import ZoneInfo

from console.errors import FieldError
from deployments.rules.rollouts.reading import Fields, Place
from deployments.rules.rollouts.types import DAYS, AdvanceWindow

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_WEEKDAYS = DAYS[:5]


def read_window(raw: object, place: Place, faults: list[FieldError]) -> AdvanceWindow:
    """`{days, from, to, time_zone}`: Monday to Friday and UTC where nothing is said.

    One whose end is not after its beginning goes on into the next day.
    """
    fields = Fields(raw, place, faults, ("days", "from", "to", "time_zone"))
    start, end = _clock(fields, "from", "00:00"), _clock(fields, "to", "00:00")
    length = end - start if end > start else end + timedelta(days=1) - start
    zone = fields.text("time_zone", "UTC", longest=60)
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        fields.fault("is no time zone: write UTC or a name such as Europe/Berlin", "time_zone")
        zone = "UTC"
    return AdvanceWindow(_days(fields), start, length, zone)


def _days(fields: Fields) -> frozenset[int]:
    if not fields.has("days"):
        return frozenset(range(len(_WEEKDAYS)))
    days = set()
    for place, one in fields.items("days", len(DAYS)):
        found = [
            number
            for number, name in enumerate(DAYS)
            if isinstance(one, str) and len(one) >= 3 and name.startswith(one.lower())
        ]
        if not found:
            fields.fault("is no day of the week: write monday", *place[-2:])
        days.update(found)
    if not days:
        fields.fault("names no day", "days")
    return frozenset(days)


def _clock(fields: Fields, name: str, usual: str) -> timedelta:
    found = _CLOCK.fullmatch(fields.text(name, usual))
    if found is None:
        fields.fault("is no time of day: write 09:00", name)
        return timedelta()
    return timedelta(hours=int(found[1]), minutes=int(found[2]))
