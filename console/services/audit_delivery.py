"""One sink's delivery: entries as its kind of messages, handed to the adapter."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime

from django.conf import settings

from console.adapters import syslog, webhook
from console.models import AuditSink, SinkKind
from console.rules import audit_messages
from console.rules.audit_chain import Link
from console.rules.outgoing import Target

BATCH = {SinkKind.SYSLOG: 500, SinkKind.WEBHOOK: 200}


def deliver(
    sink: AuditSink, target: Target, links: Sequence[Link], *, secret: str, now: datetime
) -> int:
    """Send the first of the links, in order; gives how many. Raises Unavailable."""
    if sink.kind == SinkKind.SYSLOG:
        hostname = socket.gethostname()
        messages = [audit_messages.syslog_message(link, hostname=hostname) for link in links]
        syslog.send(target, messages, allowed=settings.PRIVATE_ADDRESSES)
        return len(links)
    batch = audit_messages.batch_that_fits(links)
    first, last = batch[0].content.sequence, batch[-1].content.sequence
    webhook.send(
        target,
        audit_messages.webhook_body(batch, sink=sink.name),
        message_id=f"audit-{sink.name}-{first}-{last}",
        secret=secret,
        now=now,
        allowed=settings.PRIVATE_ADDRESSES,
    )
    return len(batch)


def send_test(sink: AuditSink, target: Target, *, secret: str, now: datetime) -> None:
    """Send a message that says that it is a test. Raises Unavailable."""
    if sink.kind == SinkKind.SYSLOG:
        at = now.astimezone(UTC).isoformat(timespec="microseconds")
        message = audit_messages.syslog_test(hostname=socket.gethostname(), at=at, sink=sink.name)
        syslog.send(target, [message], allowed=settings.PRIVATE_ADDRESSES)
        return
    webhook.send(
        target,
        audit_messages.webhook_body([], sink=sink.name),
        message_id=f"audit-{sink.name}-test-{int(now.timestamp())}",
        secret=secret,
        now=now,
        allowed=settings.PRIVATE_ADDRESSES,
    )


def behind_key(sink: AuditSink) -> str:
    """What the notices of a sink that is behind are known by."""
    return f"audit_sink:{sink.pk}"
