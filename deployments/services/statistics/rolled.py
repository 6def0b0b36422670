"""Which hours and days are whole, and that nobody books into one while it is being made."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import connection

from deployments.models import RolledKind, RolledSpan
from deployments.rules.statistics.parts import day_of, hour_of

COUNTS = 0x434F_5648
SERIES = 0x434F_5649
"""Classes of the advisory locks whose number is an hour since 1970."""


def touch(minutes: Iterable[datetime]) -> None:
    """Say that these minutes are being booked into. Belongs into the booking's transaction."""
    hours = {hour_of(minute) for minute in minutes}
    if hours:
        lock(COUNTS, hours, shared=True)
        RolledSpan.objects.filter(kind=RolledKind.HOUR, start__in=hours).delete()
        days = {day_of(hour) for hour in hours}
        RolledSpan.objects.filter(kind=RolledKind.DAY, start__in=days).delete()


def touch_series(minutes: Iterable[datetime]) -> None:
    """The same for minutes of measured series."""
    hours = {hour_of(minute) for minute in minutes}
    if hours:
        lock(SERIES, hours, shared=True)
        RolledSpan.objects.filter(kind=RolledKind.SERIES_HOUR, start__in=hours).delete()


def mark(kind: RolledKind, start: datetime) -> None:
    """Say that an hour or a day is whole."""
    RolledSpan.objects.bulk_create(
        [RolledSpan(kind=kind, start=start, rolled_at=datetime.now(UTC))],
        update_conflicts=True,
        unique_fields=["kind", "start"],
        update_fields=["rolled_at"],
    )


def lock(group: int, hours: Iterable[datetime], *, shared: bool) -> None:
    """Hold hours until the transaction ends: with others who book, or alone to make them.

    Always in one order, so that two never wait for each other.
    """
    numbers = sorted(int(hour.timestamp()) // 3600 for hour in hours)
    how = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    with connection.cursor() as cursor:
        cursor.execute(
            f"select {how}(%s, number) from unnest(%s::int[]) as number",  # noqa: S608
            [group, numbers],
        )
