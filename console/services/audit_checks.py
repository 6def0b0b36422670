"""Checking that nobody rewrote the audit trail: since the last checkpoint, or all of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Max, Min
from django.urls import reverse
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Unavailable
from console.models import (
    AuditCheckpoint,
    AuditEntry,
    AuditHead,
    Job,
    JobState,
    Role,
    Severity,
    User,
)
from console.rules.audit_chain import ChainFault, ChainWalk, EntryContent, FaultKind, Link
from console.services import audit, installation_key, jobs, notices
from console.services.audit_checkpoints import (
    KnownCheckpoints,
    due,
    kept_part,
    known_checkpoints,
    make_checkpoint,
    newest_checkpoint,
)
from console.services.job_runs import JobRun

log = logging.getLogger(__name__)
KIND = "audit_verify"
NOTICE = "audit.broken"
BATCH = 5_000
# Chains up to this length are checked while somebody waits for the answer.
AT_ONCE = 5_000
_COLUMNS = (*EntryContent.__slots__, "previous_digest", "digest", "pk")


@dataclass(frozen=True, slots=True)
class ChainReport:
    """How the chain stands: `checked` entries behind #`after` up to #`entries`, and its faults."""

    entries: int
    head_digest: str
    after: int
    checked: int
    checkpoints: int
    seconds: float
    faults: list[ChainFault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """The report as a job's result and as the API gives it."""
        return {
            "ok": self.ok,
            "entries": self.entries,
            "head_digest": self.head_digest,
            "after": self.after,
            "checked": self.checked,
            "checkpoints": self.checkpoints,
            "seconds": round(self.seconds, 3),
            "faults": [asdict(fault) for fault in self.faults],
        }


def verify_chain(
    *, full: bool = True, progress: Callable[[int, int], None] | None = None
) -> ChainReport:
    """Check every entry (or those since the last checkpoint) and say where the chain is broken.

    No lock is taken, so writers go on: what is appended meanwhile lies behind the head that is
    checked here. `progress` is told how many of how many are done, after each batch.
    """
    began = time.monotonic()
    known, head = _known_and_head(full=full)
    after, digest, faults = kept_part(known, head)
    if not full and known.newest:
        after, digest = known.newest.sequence, known.newest.digest
    marks = {number: signed for number, signed in known.marks().items() if number > after}
    walk = ChainWalk(after=after, digest=digest, marks=marks)
    for batch in _batches(after, head.sequence):
        walk.walk(batch)
        if progress:
            progress(walk.checked, max(head.sequence - after, 1))
        if walk.is_full:
            break
    else:
        walk.finish(head_sequence=head.sequence, head_digest=head.digest)
    found = [*known.faults, *faults, *walk.faults, *_outside(head, after if full else None)]
    return ChainReport(
        entries=head.sequence,
        head_digest=head.digest,
        after=after,
        checked=walk.checked,
        checkpoints=len(known.valid),
        seconds=time.monotonic() - began,
        faults=sorted(found, key=lambda fault: (fault.sequence, fault.kind)),
    )


def request_verification(*, actor: Actor) -> Job:
    """Ask for a check of the whole chain; one that is under way already is the one."""
    require(actor, "audit.read")
    with transaction.atomic():
        audit.lock_head()
        active = (
            Job.objects.filter(kind=KIND, state__in=(JobState.QUEUED, JobState.RUNNING))
            .order_by("-created_at")
            .first()
        )
        return active or jobs.enqueue(
            kind=KIND,
            subject="audit trail",
            subject_url=reverse("console:audit-list"),
            arguments={},
            actor=actor,
        )


def run_verification(run: JobRun) -> dict[str, Any]:
    """The job: walk the whole chain, tell how far it is, put the outcome on record."""

    def progress(done: int, total: int) -> None:
        run.progress(done / total if done < total else 1, f"{done} of {total} entries checked")

    report = verify_chain(progress=progress)
    rate = report.checked / report.seconds if report.seconds else 0
    run.log(f"{report.checked} entries in {report.seconds:.1f} s ({rate:.0f} a second).")
    for fault in report.faults:
        run.log(f"#{fault.sequence} {fault.kind}: {fault.detail}", level="error")
    with run.transaction():
        record_outcome(report, actor=run.actor)
    return report.to_json()


def record_outcome(report: ChainReport, *, actor: Actor) -> None:
    """Put a check on record, and tell the platform admins when the chain does not hold."""
    with transaction.atomic():
        audit.record(
            actor=actor,
            action="audit.verify",
            subject=f"audit #{report.entries}",
            after={
                "ok": report.ok,
                "checked": report.checked,
                "faults": [asdict(fault) for fault in report.faults],
            },
        )
        if report.ok:
            notices.end(key=NOTICE)
        else:
            first = report.faults[0]
            notices.notify(
                people=User.objects.filter(roles__contains=[Role.PLATFORM_ADMIN]),
                kind=NOTICE,
                key=NOTICE,
                subject="audit trail",
                subject_url=reverse("console:audit-list"),
                severity=Severity.CRITICAL,
                data={"sequence": first.sequence, "detail": first.detail},
            )


def keep_checkpoints(*, now: datetime) -> AuditCheckpoint | None:
    """Sign when it is due, and only what was found whole since the last checkpoint."""
    if not due(now):
        return None
    try:
        installation_key.public_key()
    except Unavailable as error:
        log.warning("the audit trail gets no checkpoint: %s %s", error.message, error.hint)
        return None
    actor = Actor.system("timer")
    report = verify_chain(full=False)
    if not report.ok:
        if not _is_told():
            record_outcome(report, actor=actor)
        return None
    return make_checkpoint(actor=actor, now=now)


def checkpoint_now(*, actor: Actor) -> AuditCheckpoint | None:
    """Sign how the chain stands, because somebody asks for it; None when nothing is new."""
    require(actor, "audit.manage")
    return make_checkpoint(actor=actor, now=timezone.now())


def links(after: int, last: int) -> Iterator[tuple[Link, int]]:
    """Links with numbers from `after` + 1 to `last` in order, and the keys of their rows.

    In batches of their own statements: no snapshot is held, however long the reader takes.
    """
    seen: tuple[int, set[int]] = (after, set())
    while True:
        rows = list(
            AuditEntry.objects.filter(sequence__gte=seen[0], sequence__lte=last)
            .exclude(sequence=after)
            .order_by("sequence", "pk")
            .values_list(*_COLUMNS)[: BATCH + len(seen[1])]
        )
        fresh = [row for row in rows if row[0] != seen[0] or row[-1] not in seen[1]]
        if not fresh:
            return
        for row in fresh:
            yield _link(row), row[-1]
        end = fresh[-1][0]
        same = {row[-1] for row in fresh if row[0] == end}
        seen = (end, same | (seen[1] if seen[0] == end else set()))


def _known_and_head(*, full: bool) -> tuple[KnownCheckpoints, AuditHead]:
    """What was signed, and the head after that: nothing signed lies behind it.

    Read again when retention moved the beginning in between.
    """
    while True:
        before = AuditHead.objects.filter(id=1).first() or AuditHead()
        if full:
            known = known_checkpoints()
        else:
            newest = newest_checkpoint()
            known = KnownCheckpoints({newest.sequence: newest} if newest else {})
        head = AuditHead.objects.filter(id=1).first() or AuditHead()
        if head.kept_after == before.kept_after:
            return known, head


def _batches(after: int, last: int) -> Iterator[list[Link]]:
    batch: list[Link] = []
    for link, _ in links(after, last):
        batch.append(link)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


def _link(row: tuple[Any, ...]) -> Link:
    sequence, at, *rest = row
    moment = at.astimezone(UTC).isoformat(timespec="microseconds")
    return Link(EntryContent(sequence, moment, *rest[:-3]), rest[-3], rest[-2])


def _outside(head: AuditHead, after: int | None) -> list[ChainFault]:
    """Entries with numbers where there are none: behind the head, or before the kept part."""
    ends = AuditEntry.objects.aggregate(first=Min("sequence"), newest=Max("sequence"))
    now = AuditHead.objects.filter(id=1).values_list("sequence", flat=True).first() or 0
    found = []
    if (ends["newest"] or 0) > max(now, head.sequence):
        beyond = AuditEntry.objects.filter(sequence__gt=max(now, head.sequence))
        first = beyond.order_by("sequence").values_list("sequence", flat=True)[0]
        told = "it was added behind the chain's head"
        found.append(ChainFault(first, FaultKind.EXTENDED, told, ends["newest"]))
    if after is not None and ends["first"] is not None and ends["first"] <= after:
        told = "it stands before the kept part of the chain"
        found.append(ChainFault(ends["first"], FaultKind.INSERTED, told, ends["first"]))
    return found


def _is_told() -> bool:
    """Whether the newest outcome on record is a broken chain: said once, not each minute."""
    newest = AuditEntry.objects.filter(action="audit.verify").order_by("-sequence").first()
    return newest is not None and (newest.after or {}).get("ok") is False
