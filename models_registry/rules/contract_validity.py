"""How long a contract holds: until the end of its last day, in UTC, by the server's clock."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from console.errors import Conflict, FieldError, Invalid

WARNING_DAYS = (30, 7)
"""How many days before its last day people are told, the earlier warning first."""


def day_of(moment: datetime) -> date:
    """The day of an aware moment, in UTC."""
    return moment.astimezone(UTC).date()


def is_past(valid_until: date | None, now: datetime) -> bool:
    """Whether the last day is over; without one it never is."""
    return valid_until is not None and day_of(now) > valid_until


def end_of(valid_until: date) -> datetime:
    """The moment from which the contract holds no more: midnight after its last day, in UTC."""
    return datetime.combine(valid_until + timedelta(days=1), time(), UTC)


def days_left(valid_until: date, now: datetime) -> int:
    """Days until the last one: 0 on it, negative afterwards."""
    return (valid_until - day_of(now)).days


def warning_due(valid_until: date | None, now: datetime) -> int | None:
    """The latest of `WARNING_DAYS` that was reached; None before all of them and afterwards."""
    if valid_until is None or is_past(valid_until, now):
        return None
    reached = [days for days in WARNING_DAYS if days_left(valid_until, now) <= days]
    return min(reached, default=None)


def check_proposed(valid_until: date | None, now: datetime) -> None:
    """Raise Invalid `valid_until_past` when what is proposed would have ended already."""
    if valid_until is not None and is_past(valid_until, now):
        detail = f"is {valid_until}, and today is {day_of(now)} (UTC)"
        raise Invalid(
            f"The contract would have ended already: /valid_until {detail}.",
            code="valid_until_past",
            hint="Name a day to come, or leave valid_until out.",
            errors=(FieldError("/valid_until", detail),),
        )


def check_signable(subject: str, valid_until: date | None, now: datetime) -> None:
    """Raise Conflict `contract_expired` when `subject` can come into force no more."""
    if valid_until is not None and is_past(valid_until, now):
        raise Conflict(
            f"{subject} was to hold until {valid_until}, and today is {day_of(now)} (UTC): it can "
            "come into force no more.",
            code="contract_expired",
            hint="Propose the next revision with a later valid_until.",
        )
