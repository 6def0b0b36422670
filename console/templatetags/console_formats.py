"""Numbers, sizes and times in words, localised: plain text in, plain text out.

A missing number is an em dash. Numbers and units are joined by a no-break space.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from django.utils import formats, timezone
from django.utils.translation import gettext

NOTHING: Final = "—"
NBSP: Final = "\u00a0"
BINARY_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def as_float(value: object) -> float | None:
    """`value` as a float, or None for what is no finite number (None, "", NaN, text)."""
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def localised(number: float, digits: int) -> str:
    """`number` with `digits` decimals and the language's separators."""
    return str(formats.number_format(round(number, digits), digits, force_grouping=True))


def trimmed(number: float, digits: int) -> str:
    """Like `localised`, without the zeros at the end of the decimals: 5, 0.25, 99.95."""
    shown = round(number, digits)
    while digits and round(shown, digits - 1) == shown:
        digits -= 1
    return localised(shown, digits)


def significant(number: float) -> str:
    """Three significant figures where there are decimals to show: 0.42, 1.24, 12.3, 480."""
    size = abs(number)
    digits = 2 if size < 10 else 1 if size < 100 else 0
    return trimmed(number, digits)


def file_size(value: object) -> str:
    """Bytes in binary units: 1536 → "1.5 KiB"."""
    number = as_float(value)
    if number is None:
        return NOTHING
    unit = 0
    while abs(number) >= 1024 and unit < len(BINARY_UNITS) - 1:
        number /= 1024
        unit += 1
    figure = localised(number, 0) if unit == 0 else significant(number)
    return f"{figure}{NBSP}{BINARY_UNITS[unit]}"


def span(seconds: object) -> str:
    """A length of time in seconds in its two leading units: "850 ms", "4 min 05 s", "3 d 4 h"."""
    number = as_float(seconds)
    if number is None:
        return NOTHING
    if abs(number) < 1:
        return latency(number * 1000)
    # Outside of the f-strings, where the search for strings to translate finds them.
    second, minute, hour, day = gettext("s"), gettext("min"), gettext("h"), gettext("d")
    if number < 60:
        return f"{trimmed(number, 1 if number < 10 else 0)}{NBSP}{second}"
    whole = round(number)
    minutes, rest = divmod(whole, 60)
    hours, minutes_rest = divmod(minutes, 60)
    days, hours_rest = divmod(hours, 24)
    if days:
        parts = f"{days}{NBSP}{day}", f"{hours_rest}{NBSP}{hour}"
    elif hours:
        parts = f"{hours}{NBSP}{hour}", f"{minutes_rest:02d}{NBSP}{minute}"
    else:
        parts = f"{minutes}{NBSP}{minute}", f"{rest:02d}{NBSP}{second}"
    return NBSP.join(parts)


def latency(milliseconds: object) -> str:
    """Milliseconds to three figures: "0.42 ms", "12.3 ms", "1.24 s"."""
    number = as_float(milliseconds)
    if number is None:
        return NOTHING
    if abs(number) >= 1000:
        return f"{significant(number / 1000)}{NBSP}{gettext('s')}"
    return f"{significant(number)}{NBSP}ms"


def percentage(value: object, digits: int = 2) -> str:
    """A number of percent (0–100) with at most `digits` decimals: 99.95 → "99.95 %"."""
    number = as_float(value)
    return NOTHING if number is None else f"{trimmed(number, digits)}{NBSP}%"


def per_second(value: object) -> str:
    """A rate per second: 1240.2 → "1,240/s"."""
    number = as_float(value)
    return NOTHING if number is None else f"{significant(number)}/s"


def whole_number(value: object) -> str:
    """A count with thousands separators."""
    number = as_float(value)
    return NOTHING if number is None else localised(number, 0)


def short_digest(value: object, length: int = 12) -> str:
    """The first characters of a digest, without its algorithm: enough to tell two apart."""
    return str(value or "").rpartition(":")[2][:length] or NOTHING


def age_words(when: datetime, now: datetime) -> str:
    """How long ago, in one unit ("12 s ago"); the date beyond 30 days; "just now" below 2 s.

    The sentences are the same that static/js/ages.js uses to keep them true.
    """
    seconds = int((now - when).total_seconds())
    future = seconds < 0
    seconds = abs(seconds)
    if seconds < 2:
        return gettext("just now")
    for limit, size, past, coming in (
        (60, 1, gettext("{n} s ago"), gettext("in {n} s")),
        (3600, 60, gettext("{n} min ago"), gettext("in {n} min")),
        (86400, 3600, gettext("{n} h ago"), gettext("in {n} h")),
        (30 * 86400, 86400, gettext("{n} d ago"), gettext("in {n} d")),
    ):
        if seconds < limit:
            return (coming if future else past).replace("{n}", str(seconds // size))
    return str(formats.date_format(timezone.localtime(when), "DATE_FORMAT"))


def machine_time(when: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, for ``datetime`` attributes and scripts."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
