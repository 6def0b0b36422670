"""Forwarding the audit trail: each sink gets every entry, in order and at least once."""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime, timedelta

from django.db import DatabaseError, close_old_connections
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from console.errors import CovenantError
from console.models import AuditHead, AuditSink, Role, Severity, SinkKind, User
from console.rules.audit_chain import Link
from console.rules.audit_messages import pause_after
from console.services import notices
from console.services.audit_checks import links
from console.services.audit_delivery import BATCH, behind_key, deliver
from console.services.audit_sinks import open_secret, target_of

NOTICE = "audit_sink.behind"
LOOK_SECONDS = 2.0
# Longer than one batch may take: while it lasts no other process sends to the same sink.
CLAIMED_FOR = timedelta(seconds=60)
BATCHES_A_TURN = 20
BEHIND_AFTER = timedelta(minutes=10)

log = logging.getLogger(__name__)
_thread: threading.Thread | None = None


def start_thread() -> None:
    """Start the loop once in this process; it ends with the process."""
    global _thread  # noqa: PLW0603 - one loop per process
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_forward_forever, name="audit-forwarding", daemon=True)
        _thread.start()


def forward(*, now: datetime) -> int:
    """One turn: send what is due to each sink; gives how many entries were sent."""
    head = AuditHead.objects.filter(id=1).values_list("sequence", flat=True).first() or 0
    due = AuditSink.objects.filter(
        Q(not_before__isnull=True) | Q(not_before__lte=now), enabled=True, sent_sequence__lt=head
    )
    return sum(_forward_to(sink, now) for sink in due.order_by("pk"))


def _forward_forever() -> None:
    while True:
        try:
            forward(now=timezone.now())
        except DatabaseError as error:
            log.warning("forwarding the audit trail waits for the database: %s", error)
        except Exception:
            log.exception("forwarding the audit trail failed and goes on")
        finally:
            close_old_connections()
        time.sleep(LOOK_SECONDS)


def _forward_to(sink: AuditSink, now: datetime) -> int:
    """Send batch after batch, each claimed first, its end noted after it was acknowledged.

    Whoever dies in between leaves a batch that is sent again: at least once.
    """
    sent = 0
    try:
        target, secret = target_of(sink.kind, sink.address), open_secret(sink)
        for _ in range(BATCHES_A_TURN):
            if not _claim(sink, now):
                break
            batch = _next_batch(sink)
            if not batch:
                _note_success(sink, sink.sent_sequence, now)
                break
            count = deliver(sink, target, batch, secret=secret, now=now)
            _note_success(sink, batch[count - 1].content.sequence, now)
            sent += count
    except CovenantError as error:
        _note_failure(sink, error, now)
    return sent


def _next_batch(sink: AuditSink) -> list[Link]:
    last = sink.sent_sequence + BATCH[SinkKind(sink.kind)]
    return [link for link, _ in links(sink.sent_sequence, last)]


def _claim(sink: AuditSink, now: datetime) -> bool:
    """Take the sink for this process, unless another has it or moved it on meanwhile."""
    free = AuditSink.objects.filter(
        Q(not_before__isnull=True) | Q(not_before__lte=now),
        pk=sink.pk,
        enabled=True,
        sent_sequence=sink.sent_sequence,
    )
    return bool(free.update(not_before=now + CLAIMED_FOR))


def _note_success(sink: AuditSink, last: int, now: datetime) -> None:
    AuditSink.objects.filter(pk=sink.pk, sent_sequence=sink.sent_sequence).update(
        sent_sequence=last, sent_at=now, failures=0, last_error="", not_before=None
    )
    if sink.failures:
        notices.end(key=behind_key(sink))
    sink.sent_sequence, sink.sent_at, sink.failures = last, now, 0


def _note_failure(sink: AuditSink, error: CovenantError, now: datetime) -> None:
    sink.failures += 1
    told = f"{error.message} {error.hint}".strip()
    AuditSink.objects.filter(pk=sink.pk).update(
        failures=sink.failures,
        last_error=told[:1000],
        not_before=now + pause_after(sink.failures),
    )
    log.warning("audit sink %s: %s", sink.name, told)
    if now - (sink.sent_at or sink.created_at) >= BEHIND_AFTER:
        notices.notify(
            people=User.objects.filter(roles__contains=[Role.PLATFORM_ADMIN]),
            kind=NOTICE,
            key=behind_key(sink),
            subject=f"audit sink {sink.name}",
            subject_url=reverse("console:audit-sinks"),
            severity=Severity.WARNING,
            data={"name": sink.name, "detail": error.message},
        )
