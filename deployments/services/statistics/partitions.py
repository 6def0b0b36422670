"""Monthly tables of what grows each minute: made ahead, and dropped when they are too old."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import OperationalError, connection, transaction

from console.rules.audit_partitions import Month, wanted

TABLES = (
    "deployments_minuterollup",
    "deployments_mirrorminute",
    "deployments_seriesminute",
)
LOCK_WAIT_MS = 2_000
"""Everybody who books waits behind the one who waits for a table: so this one soon gives up."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One table of a partitioned one; `end` is None where it has no end (the rest, say)."""

    table: str
    name: str
    end: datetime | None


def make_ahead(now: datetime) -> list[str]:
    """See to it that this month and the next ones have their tables; gives the new ones."""
    made = []
    for table in TABLES:
        ends = {one.name: one.end for one in partitions(table) if one.end is not None}
        # What was there when the tables were divided reaches up to some month's end.
        divided = ends.get(f"{table}_before")
        for month in wanted(now):
            # A clock that ran ahead may have left months between: each is looked at by itself.
            if month.plus(1).start in ends.values() or (divided and month.start < divided):
                continue
            made.append(_make(table, month))
    return made


def drop_before(table: str, cutoff: datetime) -> list[str]:
    """Drop the tables that end before then; gives those that went. One in use is left for later."""
    old = [one for one in partitions(table) if one.end is not None and one.end <= cutoff]
    return [one.name for one in old if _drop(one)]


def partitions(table: str) -> list[Partition]:
    """The tables of a partitioned one, by name."""
    with connection.cursor() as cursor:
        cursor.execute(
            r"""
            select c.relname,
                   substring(pg_get_expr(c.relpartbound, c.oid) from $$TO \('([^']+)'\)$$)
            from pg_inherits i join pg_class c on c.oid = i.inhrelid
            where i.inhparent = to_regclass(%s) order by c.relname
            """,
            [table],
        )
        rows = cursor.fetchall()
    return [Partition(table, name, _moment(end)) for name, end in rows]


def _moment(text: str | None) -> datetime | None:
    """As Postgres writes it, in the session's time zone, whose offset it names."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _make(table: str, month: Month) -> str:
    """Make a month's table; rows of it that came before lie among the rest, and move over."""
    name = f"{table}_y{month.year:04}m{month.month:02}"
    start, end = month.start, month.plus(1).start
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"create table {name} (like {table} including defaults)")
        cursor.execute(
            f"with moved as (delete from {table}_rest where minute >= %s and minute < %s "  # noqa: S608
            f"returning *) insert into {name} select * from moved",
            [start, end],
        )
        cursor.execute(
            f"alter table {table} attach partition {name} "
            f"for values from ('{start.isoformat()}') to ('{end.isoformat()}')"
        )
    return name


def _drop(one: Partition) -> bool:
    try:
        with transaction.atomic(), _quick_lock(), connection.cursor() as cursor:
            cursor.execute(f"alter table {one.table} detach partition {one.name}")
            cursor.execute(f"drop table {one.name}")
    except OperationalError:
        return False
    return True


@contextmanager
def _quick_lock() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"set local lock_timeout = {LOCK_WAIT_MS}")
    yield
