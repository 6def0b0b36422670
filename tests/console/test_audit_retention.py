"""The trail lives in a table a month; old months go into archives that verify, and only then."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import psycopg
import pytest
import time_machine
from django.core.management import call_command
from django.db import connection, transaction

from console.errors import Conflict, Unavailable
from console.models import AuditEntry, AuditHead, AuditSink, Job, JobState
from console.rules.audit_lines import verify_lines
from console.rules.audit_partitions import Month, expired, wanted
from console.services.audit_checkpoints import folder, make_checkpoint, trusted_keys
from console.services.audit_checks import verify_chain
from console.services.audit_retention import (
    make_partitions_ahead,
    partitions,
    request_retention,
    retain,
    run_retention,
)
from console.services.job_runs import run_job
from tests.console.audit_writing import tamper, write
from tests.factories import People, actor, people

NOW = datetime(2026, 6, 15, tzinfo=UTC)
MONTHS = {1: (1, 3), 2: (4, 6), 4: (7, 9)}


@pytest.fixture
def aged(transactional_db: None) -> Iterator[People]:
    """Entries of January, February and April 2026, three each; it is June. Nothing rolls back."""
    before = set(partitions())
    persons = people()
    for month in MONTHS:
        with time_machine.travel(datetime(2026, month, 10, tzinfo=UTC), tick=False):
            write(persons.ada, 3)
    with time_machine.travel(NOW, tick=False):
        yield persons
    with connection.cursor() as cursor:
        for month in set(partitions()) - before:
            cursor.execute(f"drop table {month.partition}")


def in_month(month: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"select count(*) from {Month(2026, month).partition}")
        return int(cursor.fetchone()[0])


def test_months_are_counted_over_years_and_nothing_expires_unless_asked() -> None:
    assert [str(month) for month in wanted(datetime(2026, 11, 30, tzinfo=UTC))] == [
        "2026-11", "2026-12", "2027-01", "2027-02",
    ]  # fmt: skip
    months = [Month(2025, 12), Month(2026, 1), Month(2026, 4), Month(2026, 6)]
    assert expired(months, now=NOW, keep=0) == []
    assert expired(months, now=NOW, keep=2) == [Month(2025, 12), Month(2026, 1)]
    assert expired(months, now=NOW, keep=6) == []
    assert Month.of_partition("console_auditentry_y2026m04") == Month(2026, 4)
    assert Month.of_partition("console_auditentry_whole") is None


def test_an_entry_makes_its_months_table_and_the_timer_those_of_the_next(aged: People) -> None:
    assert {Month(2026, month) for month in MONTHS} <= set(partitions())
    assert [in_month(month) for month in MONTHS] == [3, 3, 3]
    make_partitions_ahead(now=NOW)
    assert {Month(2026, month) for month in (6, 7, 8, 9)} <= set(partitions())
    make_partitions_ahead(now=NOW)
    with pytest.raises(Exception, match="append-only"), connection.cursor() as cursor:
        cursor.execute(f"update {Month(2026, 4).partition} set reason = 'x'")


def test_old_months_go_into_archives_that_verify_and_the_chain_begins_behind_them(
    aged: People,
) -> None:
    make_checkpoint(actor=actor(aged.ada), now=NOW)
    done = retain(keep=2, actor=actor(aged.ada), now=NOW)
    assert [str(month) for month, path in done if path] == ["2026-01", "2026-02"]
    assert Month(2026, 2) not in partitions()
    head = AuditHead.objects.get()
    assert head.kept_after == 6
    assert AuditEntry.objects.order_by("sequence").values_list("sequence", flat=True)[0] == 7
    report = verify_chain()
    assert (report.ok, report.after) == (True, 6)
    for _, path in done:
        assert path is not None
        with gzip.open(path) as lines:
            archive = verify_lines(lines, trusted_keys())
        assert (archive.ok, archive.entries) == (True, 3)
        assert archive.checkpoints >= 1, "one is signed at the month's last entry"
    told = AuditEntry.objects.filter(action="audit.retain").order_by("sequence")
    assert [entry.after["kept_after"] for entry in told] == [3, 6]
    write(aged.ada, 2)
    make_checkpoint(actor=actor(aged.ada), now=NOW)
    assert verify_chain().ok


def test_who_deletes_old_entries_and_says_that_retention_did_is_found(aged: People) -> None:
    make_checkpoint(actor=actor(aged.ada), now=NOW)
    digest = AuditEntry.objects.get(sequence=3).digest
    tamper("delete from console_auditentry where sequence <= 3")
    AuditHead.objects.update(kept_after=3, kept_after_digest=digest)
    faults = [(fault.kind.value, fault.sequence, fault.last) for fault in verify_chain().faults]
    assert faults == [("checkpoint", 1, 3), ("deleted", 1, 3)]


def test_nothing_is_dropped_while_a_sink_waits_or_the_chain_is_broken(aged: People) -> None:
    sink = AuditSink.objects.create(name="siem", kind="syslog", address="tcp://x:1")
    with pytest.raises(Conflict, match="has not got the entries of 2026-01") as refused:
        retain(keep=2, actor=actor(aged.ada), now=NOW)
    assert refused.value.code == "audit_sink_behind"
    sink.delete()
    tamper("update console_auditentry set reason = 'x' where sequence = 8")
    with pytest.raises(Conflict, match="does not hold at #8"):
        retain(keep=2, actor=actor(aged.ada), now=NOW)
    assert in_month(1) == 3
    assert not list(folder().glob("archive/*.gz"))


def test_a_clock_that_was_set_back_keeps_the_month(aged: People) -> None:
    """An entry of January with a number behind those of February: its month is not the oldest."""
    with time_machine.travel(datetime(2026, 1, 20, tzinfo=UTC), tick=False):
        write(aged.ada)
    with pytest.raises(Conflict, match="stand in other months"):
        retain(keep=2, actor=actor(aged.ada), now=NOW)
    assert verify_chain().ok


def test_the_timer_asks_for_a_job_where_a_setting_says_how_long(
    aged: People, settings: Any
) -> None:
    assert request_retention(now=NOW) is None
    settings.AUDIT_RETENTION_MONTHS = 3
    job = request_retention(now=NOW)
    assert job is not None
    assert request_retention(now=NOW) == job, "one at a time"
    run_job(str(job.pk), run_retention)
    job.refresh_from_db()
    assert (job.state, job.result["archives"]) == (
        JobState.SUCCEEDED,
        ["audit-2026-01.jsonl.gz", "audit-2026-02.jsonl.gz"],
    )
    assert request_retention(now=NOW) is None
    assert Job.objects.filter(kind="audit_retain").count() == 1


def test_the_command_retires_and_verifies_an_archive(aged: People) -> None:
    out = io.StringIO()
    call_command("audit", "retain", "--months", "3", stdout=out)
    assert "2026-01: in " in out.getvalue()
    archive = folder() / "archive" / "audit-2026-02.jsonl.gz"
    call_command("audit", "verify", str(archive), stdout=out)
    assert "3 entries, #4 to #6" in out.getvalue()
    assert "The chain holds." in out.getvalue()


def test_a_table_that_is_being_read_is_not_waited_for(
    aged: People, process_environment: dict[str, str]
) -> None:
    """Whoever writes would wait behind the drop: it gives up soon, and nothing has changed."""
    with psycopg.connect(process_environment["DATABASE_URL"]) as reader:
        reader.execute("select count(*) from console_auditentry")
        with pytest.raises(Unavailable, match="are being read") as refused:
            retain(keep=2, actor=actor(aged.ada), now=NOW)
        assert refused.value.retryable
    assert in_month(1) == 3
    assert verify_chain().ok
    assert len(retain(keep=2, actor=actor(aged.ada), now=NOW)) == 2


@pytest.mark.django_db
def test_the_migration_moves_every_entry_into_the_table_of_its_month() -> None:
    """The statements of the migration, on a table as it was before, in a schema of its own."""
    statements = import_module("console.migrations.0006_audit_partitions").PARTITION
    with connection.cursor() as cursor:
        cursor.execute("create schema before")
        cursor.execute("set local search_path to before, public")
        cursor.execute(
            "create table before.console_auditentry (like public.console_auditentry);"
            "alter table before.console_auditentry"
            " add constraint console_auditentry_pkey primary key (id)"
        )
        cursor.execute(
            "insert into before.console_auditentry select n, n, "
            "timestamptz '2025-11-30 23:59:59+00' + n * interval '20 days', 'ada', '1', 'a', "
            "'thing ' || n, '', null, '{\"n\": 1.50}', '', '', '', 'p' || n, 'd' || n "
            "from generate_series(1, 5) as n"
        )
        cursor.execute("select * from before.console_auditentry order by sequence")
        as_they_were = cursor.fetchall()
        cursor.execute(statements)
        cursor.execute("select * from before.console_auditentry order by sequence")
        assert cursor.fetchall() == as_they_were
        cursor.execute(
            "select tableoid::regclass::text, count(*) from before.console_auditentry "
            "group by 1 order by 1"
        )
        assert cursor.fetchall() == [
            ("console_auditentry_y2025m12", 1),
            ("console_auditentry_y2026m01", 2),
            ("console_auditentry_y2026m02", 1),
            ("console_auditentry_y2026m03", 1),
        ]
        cursor.execute(
            "insert into before.console_auditentry (sequence, at, actor_username, actor_id_text, "
            "action, subject, subject_url, reason, source, request_id, previous_digest, digest) "
            "values (6, now(), '', '', '', '', '', '', '', '', '', '') returning id"
        )
        assert cursor.fetchone() == (6,), "numbers of rows go on where they were"
        for table in ("console_auditentry", "console_auditentry_y2026m01"):
            with pytest.raises(Exception, match="append-only"), transaction.atomic():
                cursor.execute(f"delete from before.{table} where sequence in (2, 3)")
        cursor.execute("select to_regclass('before.console_auditentry_whole')")
        assert cursor.fetchone() == (None,)
