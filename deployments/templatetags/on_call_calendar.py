"""Drawing the calendar of an on-call schedule: colours of people, times of a zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from django import template
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.formats import date_format

from console.models import User

register = template.Library()


@register.simple_tag
def colour_of(person: User, colours: Mapping[int, str]) -> str:
    """The class of a person's colour on this page."""
    return colours.get(person.pk, "vc-none")


@register.simple_tag
def local_time(at: datetime, zone: str) -> str:
    """Hours and minutes of a moment in a time zone."""
    return f"{at.astimezone(ZoneInfo(zone)):%H:%M}"


@register.simple_tag
def local_moment(at: datetime, zone: str) -> str:
    """Weekday, day, hours and minutes of a moment in a time zone."""
    local = at.astimezone(ZoneInfo(zone))
    day = date_format(local.date(), "MONTH_DAY_FORMAT")
    return f"{date_format(local.date(), 'D')} {day} {local:%H:%M}"


@register.simple_tag
def weekdays(days: Sequence[int]) -> str:
    """Days of the week by their short names."""
    return ", ".join(str(WEEKDAYS_ABBR[day]) for day in days)
