"""Releasing against the policy: who may, with what reason, and when it has to be looked into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from console.errors import Conflict, FieldError, Invalid, NotAllowed
from models_registry.rules.approval_policy import Condition, Waiver
from models_registry.rules.release_payload import parse_time, time_text

MIN_REASON = 20
MAX_REASON = 2000
MIN_REVIEW = 20
REVIEW_WITHIN = timedelta(hours=24)


def check_reason(reason: str) -> str:
    """The reason without blanks around it. Raises Invalid `reason_missing`, `reason_too_long`."""
    return _text(reason, "/reason", "reason", "Say what is broken and why it cannot wait.")


def check_review(review: str) -> str:
    """The review's text without blanks around it. Raises Invalid like `check_reason`."""
    return _text(review, "/review", "review", "Say what you found, and what follows from it.")


def check_possible(environment: str, allowed: Sequence[str]) -> None:
    """Raise NotAllowed `break_glass_impossible` where no role may."""
    if not allowed:
        raise NotAllowed(
            f"{environment} cannot be released to against its policy: no role may break the glass.",
            code="break_glass_impossible",
            hint="A platform admin can name roles under Settings → Environments; it is recorded.",
        )


def role_for(environment: str, allowed: Sequence[str], held: Iterable[str]) -> str:
    """The role that may break the glass. Raises NotAllowed, also where nobody may."""
    check_possible(environment, allowed)
    mine = set(held)
    for role in allowed:
        if role in mine:
            return role
    raise NotAllowed(
        f"Releasing to {environment} against its policy takes a role that you do not have.",
        code="role_missing",
        hint="It takes one of these roles: " + ", ".join(allowed) + ".",
    )


def waived(unmet: Iterable[Condition], subject: str) -> list[dict[str, Any]]:
    """What is gone past, as it is kept: code, sentence, and for a freeze its end.

    Raises Conflict `nothing_to_waive` when the policy is met.
    """
    entries = [
        {
            "code": one.code,
            "sentence": one.sentence,
            **({"until": time_text(one.frozen.until)} if one.frozen and one.frozen.until else {}),
        }
        for one in unmet
    ]
    if not entries:
        raise Conflict(
            f"The release of {subject} meets its policy: there is no glass to break.",
            code="nothing_to_waive",
            hint="Deploy it as usual.",
        )
    return entries


def waiver(*, person: str, at: datetime, waived: Sequence[Any]) -> Waiver:
    """What was kept by `waived`, read again; an entry that cannot be read waives nothing."""
    entries = [one for one in waived if isinstance(one, dict)]
    ends = [_time(one.get("until")) for one in entries]
    return Waiver(
        person=person,
        at=at,
        codes=frozenset(str(one.get("code", "")) for one in entries),
        frozen_until=max((end for end in ends if end is not None), default=None),
    )


def review_due(at: datetime) -> datetime:
    """Until when somebody else has to have looked into it."""
    return at + REVIEW_WITHIN


def days_overdue(at: datetime, now: datetime) -> int | None:
    """How many whole days a review is overdue; None before it is."""
    late = now - review_due(at)
    return late.days if late >= timedelta() else None


def _time(written: object) -> datetime | None:
    try:
        return parse_time(written) if isinstance(written, str) else None
    except ValueError:
        return None


def _text(written: str, pointer: str, what: str, hint: str) -> str:
    text = written.strip()
    least = MIN_REASON if what == "reason" else MIN_REVIEW
    if len(text) < least:
        raise Invalid(
            f"Releasing against the policy takes a {what} of at least {least} characters.",
            code=f"{what}_missing",
            hint=hint,
            errors=(FieldError(pointer, f"is shorter than {least} characters"),),
        )
    if len(text) > MAX_REASON:
        raise Invalid(
            f"The {what} is longer than {MAX_REASON} characters.",
            code=f"{what}_too_long",
            hint="Say it shorter, and put the rest where it can be linked to.",
            errors=(FieldError(pointer, f"is longer than {MAX_REASON} characters"),),
        )
    return text
