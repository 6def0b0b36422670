"""How long the audit trail stays: whole months go, once an archive that verifies holds them."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Max, Min
from django.urls import reverse
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, Unavailable
from console.models import AuditCheckpoint, AuditEntry, AuditHead, AuditSink, Job, JobState
from console.rules.audit_checkpoints import Checkpoint
from console.rules.audit_lines import verify_lines
from console.rules.audit_partitions import TABLE, Month, expired, wanted
from console.services import audit, jobs
from console.services.audit_checkpoints import (
    folder,
    known_checkpoints,
    make_checkpoint,
    sign,
    trusted_keys,
)
from console.services.audit_checks import verify_chain
from console.services.audit_exports import compressed, whole_jsonl
from console.services.job_runs import JobRun

KIND = "audit_retain"
# Everybody who writes waits behind the one who waits for the table: so this one soon gives up.
LOCK_WAIT_MS = 2_000


def make_partitions_ahead(*, now: datetime) -> None:
    """See to it that this month and the next ones have their tables before they are needed."""
    there = set(partitions())
    for month in wanted(now):
        if month not in there:
            audit.make_partition(month)


def partitions() -> list[Month]:
    """The months that have a table of their own, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid "
            "where i.inhparent = to_regclass(%s)",
            [TABLE],
        )
        names = [row[0] for row in cursor.fetchall()]
    return sorted(month for month in map(Month.of_partition, names) if month)


def request_retention(*, now: datetime) -> Job | None:
    """Ask for what is too old to be put into an archive and dropped; None when nothing is."""
    keep = settings.AUDIT_RETENTION_MONTHS
    if not expired(partitions(), now=now, keep=keep):
        return None
    with transaction.atomic():
        audit.lock_head()
        active = Job.objects.filter(kind=KIND, state__in=(JobState.QUEUED, JobState.RUNNING))
        return active.first() or jobs.enqueue(
            kind=KIND,
            subject="audit trail",
            subject_url=reverse("console:audit-list"),
            arguments={"keep": keep},
            actor=Actor.system("timer"),
        )


def run_retention(run: JobRun) -> dict[str, Any]:
    """The job: month after month, oldest first; a month that is done stays done."""
    months = expired(partitions(), now=timezone.now(), keep=int(run.job.arguments["keep"]))
    archives = []
    for index, month in enumerate(months):
        run.progress(index / len(months), f"Archiving {month}")
        path = retire_month(month, actor=run.actor, now=timezone.now())
        if path is not None:
            run.log(f"{month} is in {path.name}, and no longer in the database.")
            archives.append(path.name)
    return {"months": [str(month) for month in months], "archives": archives}


def retain(*, keep: int, actor: Actor, now: datetime) -> list[tuple[Month, Path | None]]:
    """The same at once, for the command line: each month that went, and its archive."""
    require(actor, "audit.manage")
    months = expired(partitions(), now=now, keep=keep)
    return [(month, retire_month(month, actor=actor, now=now)) for month in months]


def retire_month(month: Month, *, actor: Actor, now: datetime) -> Path | None:
    """Drop the oldest month's entries; gives their archive, None when there were none.

    Before that, in this order: every sink has got them; the whole chain verifies; a checkpoint is
    signed at the month's last entry; an archive is written, read again and verified. A checkpoint
    that says where the kept part begins is signed in the transaction that drops the table.
    Raises Conflict when one of these does not hold, Unavailable when the table is in use.
    """
    first, last = _bounds(month)
    if last is None:
        _drop(month)
        return None
    _check_may_go(month, first, last)
    head = AuditHead.objects.get(id=1)
    end = AuditEntry.objects.get(sequence=last, at__gte=month.start, at__lt=month.plus(1).start)
    with transaction.atomic():
        if not AuditCheckpoint.objects.filter(sequence=last).exists():
            stated = (head.kept_after, head.kept_after_digest)
            sign(Checkpoint(last, end.digest, now.isoformat(), *stated), now)
    path, sha256 = _archive(month, head, last)
    with transaction.atomic(), _quick_lock(month):
        locked = audit.lock_head()
        _drop(month)
        locked.kept_after, locked.kept_after_digest = last, end.digest
        locked.save(update_fields=["kept_after", "kept_after_digest"])
        audit.record(
            actor=actor,
            action="audit.retain",
            subject=f"audit #{first} to #{last}",
            before={"kept_after": head.kept_after},
            after={
                "month": str(month),
                "kept_after": last,
                "kept_after_digest": end.digest,
                "archive": path.name,
                "sha256": sha256,
            },
        )
        make_checkpoint(actor=actor, now=now, kept_after=(last, end.digest))
    return path


def _bounds(month: Month) -> tuple[int, int | None]:
    ends = AuditEntry.objects.filter(at__gte=month.start, at__lt=month.plus(1).start).aggregate(
        first=Min("sequence"), last=Max("sequence")
    )
    return ends["first"] or 0, ends["last"]


def _check_may_go(month: Month, first: int, last: int) -> None:
    """Raise Conflict when dropping the month would take what is not to go, or not yet."""
    before = AuditEntry.objects.filter(sequence__lte=last).exclude(
        at__gte=month.start, at__lt=month.plus(1).start
    )
    if before.exists():
        raise Conflict(
            f"Entries older than the last of {month} (#{last}) stand in other months.",
            code="audit_month_overlaps",
            hint="Months go oldest first; a clock that was set back makes two overlap: keep more.",
        )
    waiting = AuditSink.objects.filter(enabled=True, sent_sequence__lt=last).first()
    if waiting is not None:
        raise Conflict(
            f"The sink {waiting.name} has not got the entries of {month} yet.",
            code="audit_sink_behind",
            hint="Mend it, or switch it off, under Audit → Forwarding.",
        )
    report = verify_chain()
    if not report.ok:
        fault = report.faults[0]
        raise Conflict(
            f"The chain does not hold at #{fault.sequence}: {fault.detail}. Nothing is dropped.",
            code="audit_chain_broken",
            hint="Find out what happened first; see docs/audit.md.",
        )


def _archive(month: Month, head: AuditHead, last: int) -> tuple[Path, str]:
    """Write the entries up to #`last` to a file, read it again and verify it; path and SHA-256."""
    archives = folder() / "archive"
    archives.mkdir(exist_ok=True, mode=0o700)
    path = archives / f"audit-{month}.jsonl.gz"
    draft = path.with_suffix(".part")
    chunks = compressed(whole_jsonl(head.kept_after, head.kept_after_digest, last))
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    with gzip.open(draft) as lines:
        report = verify_lines(lines, trusted_keys())
    if not report.ok or report.last != last or last not in known_checkpoints().valid:
        raise Conflict(
            f"The archive of {month} does not verify. Nothing is dropped.",
            code="audit_archive_broken",
            hint="Verify the chain, and see whether the disk is sound.",
        )
    draft.replace(path)
    with path.open("rb") as file:
        return path, hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _quick_lock(month: Month) -> Iterator[None]:
    """Wait a moment for the table, and say so when somebody reads it all the while."""
    with connection.cursor() as cursor:
        cursor.execute(f"set local lock_timeout = {LOCK_WAIT_MS}")
    try:
        yield
    except OperationalError as error:
        raise Unavailable(
            f"The entries of {month} are being read at the moment.",
            code="audit_in_use",
            hint="It is tried again by itself.",
        ) from error


def _drop(month: Month) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"alter table {TABLE} detach partition {month.partition}")
        cursor.execute(f"drop table {month.partition}")
