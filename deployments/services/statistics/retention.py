"""How long counts stay: the policy, and what goes by it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models, transaction
from django.urls import reverse
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Stale
from console.services import audit
from deployments.models import (
    ComparisonMinute,
    CountGap,
    DayRollup,
    HourRollup,
    MinuteRollup,
    MirrorMinute,
    Outcome,
    RetentionPolicy,
    RolledKind,
    RolledSpan,
    SeriesHour,
    SeriesMinute,
)
from deployments.models.retention import ROW
from deployments.rules.statistics.parts import day_of
from deployments.rules.statistics.retention import FIELDS, check
from deployments.selectors.statistics.retention import days_of, policy
from deployments.services.statistics import hours, partitions

BATCH = 10_000
MOST_BATCHES = 100
"""Of one table in one run: a million rows; what is left goes in the next."""
LOCK = 0x434F_564E
SUBJECT = "retention"

# field -> where the rows are, and by which time they age
_ROWS: Mapping[str, tuple[type[models.Model], str]] = {
    "minutes_days": (MinuteRollup, "minute"),
    "hours_days": (HourRollup, "hour"),
    "days_days": (DayRollup, "day"),
    "series_minutes_days": (SeriesMinute, "minute"),
    "series_hours_days": (SeriesHour, "hour"),
    "mirrors_days": (MirrorMinute, "minute"),
    "comparisons_days": (ComparisonMinute, "minute"),
    "outcomes_days": (Outcome, "at"),
    "gaps_days": (CountGap, "ended_at"),
}


@transaction.atomic
def set_retention(
    *,
    days: Mapping[str, int],
    expected_revision: int | None,
    reason: str = "",
    actor: Actor,
) -> RetentionPolicy:
    """Say how many days each kind is kept; kinds that are not named stay as they are.

    The same policy again changes nothing. Raises Invalid `invalid_retention`, Stale.
    """
    require(actor, "statistics.manage")
    RetentionPolicy.objects.bulk_create([RetentionPolicy(pk=ROW)], ignore_conflicts=True)
    row = RetentionPolicy.objects.select_for_update().get(pk=ROW)
    if expected_revision is not None and expected_revision != row.revision:
        raise Stale(
            "Somebody changed how long counts are kept.", hint="Look at it again, then change it."
        )
    before = days_of(row)
    after = {**before, **{name: days[name] for name in FIELDS if name in days}}
    check(after)
    if before == after:
        return row
    for name, value in after.items():
        setattr(row, name, value)
    row.revision += 1
    row.updated_at, row.updated_by = timezone.now(), actor.user
    row.save()
    audit.record(
        actor=actor,
        action="statistics.retention",
        subject=SUBJECT,
        subject_url=reverse("deployments:retention"),
        before=before,
        after=after,
        reason=reason,
    )
    return row


def apply_retention(*, now: datetime) -> dict[str, Any]:
    """Let go what the policy no longer keeps; gives rows and tables that went, by kind.

    Minutes stay until their hours are whole, hours until their days are. May run twice at once:
    the second finds nothing to do.
    """
    with _alone() as first:
        if not first:
            return {}
        partitions.make_ahead(now)
        in_force = policy()
        gone: dict[str, Any] = {}
        for name, (model, field) in _ROWS.items():
            kept = getattr(in_force, name)
            if kept and (went := _let_go(model, field, _cutoff(name, kept, now))):
                gone[name] = went
        _write_down(gone, now)
        return gone


def _cutoff(name: str, days: int, now: datetime) -> datetime:
    """Up to when rows go; not past what has not been added up yet."""
    # Whole days: an hour of which some minutes are gone would say too little at its edge.
    wanted = day_of(now - timedelta(days=days))
    kind = {
        "minutes_days": RolledKind.HOUR,
        "hours_days": RolledKind.DAY,
        "series_minutes_days": RolledKind.SERIES_HOUR,
    }.get(name)
    missing = hours.first_missing(kind, before=wanted) if kind else None
    return min(wanted, missing) if missing else wanted


def _let_go(model: type[models.Model], field: str, cutoff: datetime) -> dict[str, Any]:
    table = model._meta.db_table
    tables = partitions.drop_before(table, cutoff) if table in partitions.TABLES else []
    old = model._default_manager.filter(**{f"{field}__lt": cutoff})
    rows = 0
    for _ in range(MOST_BATCHES):
        some = list(old.order_by().values_list("pk", flat=True)[:BATCH])
        if some:
            rows += old.filter(pk__in=some)._raw_delete(old.db)
        if len(some) < BATCH:
            break
    if model is DayRollup or model is HourRollup:
        kind = RolledKind.DAY if model is DayRollup else RolledKind.HOUR
        RolledSpan.objects.filter(kind=kind, start__lt=cutoff).delete()
    return {"rows": rows, "tables": tables} if rows or tables else {}


def _write_down(gone: dict[str, Any], now: datetime) -> None:
    with transaction.atomic():
        RetentionPolicy.objects.bulk_create([RetentionPolicy(pk=ROW)], ignore_conflicts=True)
        RetentionPolicy.objects.filter(pk=ROW).update(last_run_at=now, last_run=gone)
        if gone:
            audit.record(
                actor=Actor.system("timer"),
                action="statistics.retained",
                subject=SUBJECT,
                subject_url=reverse("deployments:retention"),
                after=gone,
            )


class _alone:
    """`with _alone() as first:` – whether nobody else does this now."""

    def __enter__(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("select pg_try_advisory_lock(%s)", [LOCK])
            row = cursor.fetchone()
        self._first = bool(row and row[0])
        return self._first

    def __exit__(self, *_: object) -> None:
        if self._first:
            with connection.cursor() as cursor:
                cursor.execute("select pg_advisory_unlock(%s)", [LOCK])
