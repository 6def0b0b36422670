"""What time may be set aside: maintenance before it begins, exclusions after it is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from console.errors import Conflict, FieldError, Invalid
from deployments.rules.objectives.slo import month_bounds
from deployments.rules.objectives.spans import Span, clip, floor_minute, minutes_of

LONGEST_MAINTENANCE = timedelta(hours=12)
MOST_MAINTENANCE_MINUTES = 720
"""Of one endpoint in one calendar month: a promise that mostly does not count is none."""
FARTHEST_AHEAD = timedelta(days=92)
LONGEST_EXCLUSION = timedelta(days=7)
FARTHEST_BACK = timedelta(days=92)
"""Minutes are kept longer than this by the default retention; what is gone cannot be left out."""
LONGEST_TEXT = 2000


def check_maintenance(span: Span, now: datetime, others: Sequence[Span]) -> None:
    """Raise Invalid or Conflict unless this may be proposed now.

    `others` are the endpoint's windows that are proposed or agreed. Only the future may be
    proposed; windows do not overlap; one lasts 12 hours at most, and those of a month 12 hours.
    """
    _check_span(span, LONGEST_MAINTENANCE)
    if span.start <= now:
        raise _invalid(
            "Maintenance is announced before it begins.",
            "Choose a later time. What is over already may be proposed as an exclusion.",
            code="maintenance_begun",
            pointer="/starts_at",
        )
    if span.start > now + FARTHEST_AHEAD:
        raise _invalid(
            f"That is more than {FARTHEST_AHEAD.days} days ahead.",
            "Propose it nearer to its time.",
            code="too_far_ahead",
            pointer="/starts_at",
        )
    _refuse_overlap(span, others, code="maintenance_overlaps")
    for month in _months(span):
        spans = [part for one in (*others, span) if (part := clip(one, month)) is not None]
        if minutes_of(spans) > MOST_MAINTENANCE_MINUTES:
            raise _invalid(
                f"{month.start:%Y-%m} would have {minutes_of(spans)} minutes of maintenance; "
                f"at most {MOST_MAINTENANCE_MINUTES} are left out of a month.",
                "Shorten it, or withdraw another window of that month.",
                code="maintenance_limit",
                pointer="/ends_at",
            )


def check_exclusion(span: Span, now: datetime, others: Sequence[Span]) -> None:
    """Raise Invalid or Conflict unless this may be proposed now.

    `others` are what is proposed or agreed to be left out already. Only what is over may be
    excluded, within 92 days, seven days at most at once.
    """
    _check_span(span, LONGEST_EXCLUSION)
    if span.end > floor_minute(now):
        raise _invalid(
            "Only time that is over can be excluded.",
            "Wait until its end. What lies ahead is proposed as maintenance.",
            code="exclusion_not_over",
            pointer="/ends_at",
        )
    if span.start < now - FARTHEST_BACK:
        raise _invalid(
            f"That is more than {FARTHEST_BACK.days} days ago.",
            "What was reported so long ago stays as it was reported.",
            code="too_long_ago",
            pointer="/starts_at",
        )
    _refuse_overlap(span, others, code="exclusion_overlaps")


def standing(state: str, span: Span, now: datetime, *, beforehand: bool) -> str:
    """How time set aside stands at a moment, in a word of the state family `agreement`.

    Of maintenance (`beforehand`) time makes more than its state: `in_force` while it runs, `over`
    afterwards, `void` when it began without three words.
    """
    if not beforehand or state == "withdrawn":
        return state
    if state == "proposed":
        return "proposed" if span.start > now else "void"
    if span.start > now:
        return "agreed"
    return "in_force" if now < span.end else "over"


def checked_text(raw: str, pointer: str, hint: str) -> str:
    """What somebody wrote, without the blanks around it. Raises Invalid."""
    text = raw.strip()
    if not text:
        raise _invalid("Some words are needed.", hint, code="text_missing", pointer=pointer)
    if len(text) > LONGEST_TEXT:
        raise _invalid(
            f"At most {LONGEST_TEXT} characters.", hint, code="text_too_long", pointer=pointer
        )
    return text


def _check_span(span: Span, longest: timedelta) -> None:
    for moment, pointer in ((span.start, "/starts_at"), (span.end, "/ends_at")):
        if floor_minute(moment) != moment:
            raise _invalid(
                "Counts are kept by the minute.",
                "Give whole minutes, as in 2026-01-31T09:30:00Z.",
                code="not_a_whole_minute",
                pointer=pointer,
            )
    if span.end <= span.start:
        raise _invalid(
            "It ends before it has begun.",
            "Give a later end.",
            code="span_is_empty",
            pointer="/ends_at",
        )
    if span.end - span.start > longest:
        hours = int(longest // timedelta(hours=1))
        raise _invalid(
            f"It lasts more than {hours} hours.",
            "Shorten it.",
            code="span_too_long",
            pointer="/ends_at",
        )


def _refuse_overlap(span: Span, others: Sequence[Span], *, code: str) -> None:
    for other in others:
        if span.meets(other):
            raise Conflict(
                f"Time from {other.start:%Y-%m-%d %H:%M} to {other.end:%Y-%m-%d %H:%M} UTC "
                "is set aside, or proposed to be, already.",
                code=code,
                hint="Choose another time, or withdraw that first.",
            )


def _months(span: Span) -> list[Span]:
    """The calendar months that a span lies in."""
    found: list[Span] = []
    day = span.start.date()
    while not found or found[-1].end < span.end:
        found.append(Span(*month_bounds(day)))
        day = found[-1].end.date()
    return found


def _invalid(detail: str, hint: str, *, code: str, pointer: str) -> Invalid:
    return Invalid(detail, code=code, hint=hint, errors=(FieldError(pointer, detail),))
