"""Audit entries as messages: syslog by RFC 5424, webhooks as batches of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from console.rules.audit_chain import Link
from console.rules.audit_occurrences import DENIALS

# Facility 13 is “log audit” (RFC 5424, table 1).
_FACILITY = 13
_NOTICE, _WARNING = 5, 4
# The enterprise number that RFC 5612 sets aside; the field is ours by its name.
_SD_ID = "audit@32473"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")
MOST_DATAGRAM_BYTES = 8_192
MOST_WEBHOOK_BYTES = 512 * 1024


def entry_json(link: Link) -> dict[str, Any]:
    """An entry as receivers get it: all that its digest covers, and its place in the chain."""
    return {
        **{name: getattr(link.content, name) for name in link.content.__slots__},
        "previous_digest": link.previous_digest,
        "digest": link.digest,
    }


def syslog_message(link: Link, *, hostname: str) -> bytes:
    """One RFC 5424 message: the main fields as structured data, the whole entry as ASCII JSON."""
    content = link.content
    severity = _WARNING if content.action in DENIALS else _NOTICE
    data = {
        "sequence": str(content.sequence),
        "actor": content.actor_username,
        "action": content.action,
        "subject": content.subject,
        "source": content.source,
        "requestId": content.request_id,
        "digest": link.digest,
        "previousDigest": link.previous_digest,
    }
    return _message(
        priority=_FACILITY * 8 + severity,
        at=content.at,
        hostname=hostname,
        message_id=content.action,
        data=data,
        text=json.dumps(entry_json(link)),
    )


def syslog_test(*, hostname: str, at: str, sink: str) -> bytes:
    """A message that says that it is a test."""
    return _message(
        priority=_FACILITY * 8 + _NOTICE,
        at=at,
        hostname=hostname,
        message_id="audit_sink.test",
        data={"sink": sink},
        text="A test from Covenant: entries of the audit trail will arrive like this.",
    )


def octet_counted(message: bytes) -> bytes:
    """A frame for TCP and TLS (RFC 6587 section 3.4.1, RFC 5425): the length before the message."""
    return b"%d %b" % (len(message), message)


def datagram(message: bytes) -> bytes:
    """A message for UDP, cut where it is longer than one takes: UDP is no way for all of it."""
    return message[:MOST_DATAGRAM_BYTES]


def webhook_body(links: Sequence[Link], *, sink: str) -> bytes:
    """A batch of entries in order, as JSON."""
    body = {"type": "audit.entries", "sink": sink, "entries": [entry_json(link) for link in links]}
    return json.dumps(body, ensure_ascii=False).encode()


def batch_that_fits(links: Sequence[Link]) -> Sequence[Link]:
    """The first links that one webhook carries: one at least, MOST_WEBHOOK_BYTES at most."""
    size, count = 0, 0
    for link in links:
        size += len(json.dumps(entry_json(link)))
        if count and size > MOST_WEBHOOK_BYTES:
            break
        count += 1
    return links[:count]


def pause_after(failures: int) -> timedelta:
    """Back-off after so many failures in a row: 2, 4, 8 … seconds, five minutes at most."""
    return timedelta(seconds=min(300.0, 2.0 ** min(failures, 10)))


def _message(
    *, priority: int, at: str, hostname: str, message_id: str, data: dict[str, str], text: str
) -> bytes:
    stamp = at.replace("+00:00", "Z")
    fields = "".join(f' {name}="{_escaped(value)}"' for name, value in data.items() if value)
    header = (
        f"<{priority}>1 {stamp} {_name(hostname, 255)} covenant - {_name(message_id, 32)} "
        f"[{_SD_ID}{fields}] "
    )
    return header.encode() + text.encode()


def _escaped(value: str) -> str:
    """A parameter's value (RFC 5424 section 6.3.3); control characters could end a line."""
    return re.sub(r'(["\\\]])', r"\\\1", _CONTROL.sub(" ", value))


def _name(text: str, longest: int) -> str:
    return _UNPRINTABLE.sub("_", text)[:longest] or "-"
