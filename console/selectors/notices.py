"""What a person has been told of."""

from __future__ import annotations

from django.db.models import Case, IntegerField, QuerySet, Value, When

from console.models import Notice, Severity, User
from console.selectors.visibility import shown_to

MOST_OPEN = 50


def notices_of(user: User, *, only_open: bool = True) -> QuerySet[Notice]:
    """A person's notices of what they may (still) see, newest first (one query)."""
    notices = shown_to(Notice.objects.filter(recipient=user), user).order_by("-created_at", "-pk")
    return notices.filter(done_at__isnull=True, ended_at__isnull=True) if only_open else notices


def open_notices(user: User) -> list[Notice]:
    """What a person has not seen to, the gravest first (one query, at most 50)."""
    weight = Case(
        When(severity=Severity.CRITICAL, then=Value(0)),
        When(severity=Severity.WARNING, then=Value(1)),
        default=Value(2),
        output_field=IntegerField(),
    )
    return list(notices_of(user).order_by(weight, "-created_at")[:MOST_OPEN])
