"""What is kept, how long, and how much room it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from deployments.models import RetentionPolicy
from deployments.models.retention import ROW
from deployments.rules.statistics.retention import FIELDS

_TABLES: Mapping[str, str] = {
    "minutes_days": "deployments_minuterollup",
    "hours_days": "deployments_hourrollup",
    "days_days": "deployments_dayrollup",
    "series_minutes_days": "deployments_seriesminute",
    "series_hours_days": "deployments_serieshour",
    "mirrors_days": "deployments_mirrorminute",
    "comparisons_days": "deployments_comparisonminute",
    "outcomes_days": "deployments_outcome",
    "gaps_days": "deployments_countgap",
}
_SIZES = """
select root, sum(pg_total_relation_size(c.oid))::bigint,
       sum(greatest(c.reltuples, 0)) filter (where c.relkind = 'r')::bigint
from unnest(%s::text[]) as root
     join pg_class c on c.oid = to_regclass(root)
     or c.oid in (select inhrelid from pg_inherits where inhparent = to_regclass(root))
group by root
"""


@dataclass(frozen=True, slots=True)
class Room:
    """What one kind of count takes: bytes with indexes, and about how many rows."""

    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Retention:
    """The policy in force, who said so, what went last, and the room that each kind takes."""

    row: RetentionPolicy
    days: Mapping[str, int]
    room: Mapping[str, Room]

    @property
    def changed_by(self) -> str:
        return self.row.updated_by.username if self.row.updated_by else ""

    @property
    def last_run_at(self) -> datetime | None:
        return self.row.last_run_at


def policy() -> RetentionPolicy:
    """The policy in force: what people said last, or the defaults. One query."""
    rows = RetentionPolicy.objects.select_related("updated_by")
    return rows.filter(pk=ROW).first() or RetentionPolicy(pk=ROW)


def days_of(row: RetentionPolicy) -> dict[str, int]:
    """The policy as plain numbers."""
    return {name: getattr(row, name) for name in FIELDS}


def retention() -> Retention:
    """Everything that the page says; two queries."""
    row = policy()
    with connection.cursor() as cursor:
        cursor.execute(_SIZES, [list(_TABLES.values())])
        sizes = {name: Room(int(size), int(rows)) for name, size, rows in cursor.fetchall()}
    nothing = Room(0, 0)
    room = {field: sizes.get(table, nothing) for field, table in _TABLES.items()}
    return Retention(row, days_of(row), room)
