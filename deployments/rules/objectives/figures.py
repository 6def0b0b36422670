"""Figures of promises as text with their unit, rounded so that a miss never reads as its target."""

from __future__ import annotations

import math

STEPS = (2, 3, 4, 6, 8)
MOST_DECIMALS = 12


def reached(attained: float | None, target: float) -> str:
    """Percent with as many decimals as it takes to tell a miss from its target, and from 100 %.

    >>> reached(99.83043662568885, 99.9), reached(99.8996, 99.9), reached(99.9966, 99.9)
    ('99.83 %', '99.8996 %', '99.997 %')
    """
    return "no requests" if attained is None else f"{attained:.{decimals(attained, target)}f} %"


def decimals(attained: float, target: float) -> int:
    """How many decimals it takes to tell a miss from its target, and from 100 %."""
    for digits in STEPS:
        shown = float(f"{attained:.{digits}f}")
        if (shown < target) == (attained < target) and (shown < 100) == (attained < 100):
            return digits
    return MOST_DECIMALS


def requests_left(left: float, total: float) -> str:
    """What of a budget in requests is left, in whole requests that may still fail.

    >>> requests_left(39.18, 48.2), requests_left(-18, 5), requests_left(-0.2, 0.8)
    ('39 of 48 requests may still be bad', 'overspent by 18 requests (5 may be bad)', \
'overspent by 1 request (0 may be bad)')
    """
    allowed = math.floor(round(total, 6))
    if (rest := round(left, 6)) >= 0:
        return f"{math.floor(rest):,} of {_requests(allowed)} may still be bad"
    return f"overspent by {_requests(math.ceil(-rest))} ({allowed:,} may be bad)"


def minutes_left(left: float, total: float) -> str:
    """What of a budget in minutes is left.

    >>> minutes_left(40.32, 40.32), minutes_left(-19.68, 40.32)
    ('40.3 of 40.3 minutes may still be bad', 'overspent by 19.7 minutes (40.3 may be bad)')
    """
    if (rest := round(left, 6)) >= 0:
        return f"{_tenths(rest):.1f} of {_tenths(total):.1f} minutes may still be bad"
    over = math.ceil(round(-rest * 10, 6)) / 10
    return f"overspent by {over:.1f} minutes ({_tenths(total):.1f} may be bad)"


def share_left(share: float | None) -> str:
    """The share (0 to 1) of a budget that is left; below 0 it is overspent.

    >>> share_left(0.999), share_left(-3.93), share_left(-0.001), share_left(None)
    ('99 %', 'overspent by 393 %', 'overspent by 1 %', '—')
    """
    if share is None:
        return "—"
    percent = round(share * 100, 6)
    return f"{math.floor(percent)} %" if percent >= 0 else f"overspent by {math.ceil(-percent)} %"


def _tenths(value: float) -> float:
    return math.floor(round(value * 10, 6)) / 10


def _requests(count: int) -> str:
    return f"{count:,} request{'' if count == 1 else 's'}"
