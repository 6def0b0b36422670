"""The audit trail as a file, written while it is read: as quick to begin at any size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from django.utils import timezone

from console.actors import Actor, require
from console.models import AuditCheckpoint, AuditHead
from console.rules import audit_lines
from console.rules.audit_chain import Link
from console.selectors.audit import AuditFilter, audit_entries
from console.services.audit import link_of
from console.services.audit_checkpoints import trusted_keys
from console.services.audit_checks import links

Format = Literal["jsonl", "csv"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv")
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file on its way: its name, its type, and its bytes as they come."""

    name: str
    content_type: str
    chunks: Iterator[bytes]


def export(
    *, wanted: AuditFilter, form: Format, gz: bool = False, bom: bool = False, actor: Actor
) -> ExportFile:
    """Everything that matches and that the actor may see, oldest first.

    JSONL carries digests and, when nothing is filtered, checkpoints: `covenant audit verify`
    checks it without a server. CSV is for spreadsheets: no cell runs as a formula; `bom` is for
    those that take UTF-8 for something else without it. The file ends where the trail ended when
    it was asked for. The door puts the export on record.
    """
    require(actor, "audit.export")
    head = AuditHead.objects.filter(id=1).first() or AuditHead()
    stamp = timezone.now()
    filters = wanted.words()
    if not actor.user.sees_all_models and not actor.is_system:
        filters["seen_by"] = actor.user.username
    if form == "csv":
        chunks = _csv(_filtered(wanted, actor, head.sequence), bom=bom)
    elif filters:
        chunks = _filtered_jsonl(wanted, actor, head, filters)
    else:
        chunks = whole_jsonl(head.kept_after, head.kept_after_digest, head.sequence)
    name = f"audit-{stamp:%Y%m%dT%H%M%SZ}.{form}"
    if gz:
        return ExportFile(f"{name}.gz", "application/gzip", compressed(chunks))
    kind = "text/csv; charset=utf-8" if form == "csv" else "application/x-ndjson"
    return ExportFile(name, kind, chunks)


def whole_jsonl(after: int, digest: str, last: int) -> Iterator[bytes]:
    """Every entry behind #`after` (its digest is `digest`) up to #`last`, with checkpoints."""
    yield audit_lines.header_line(
        after=after,
        digest=digest,
        filters={},
        exported_at=timezone.now().isoformat(),
        pems=[key.pem for key in trusted_keys().values()],
    )
    signed = dict(
        AuditCheckpoint.objects.filter(sequence__gt=after, sequence__lte=last).values_list(
            "sequence", "envelope"
        )
    )
    count, number = 0, after
    lines: list[bytes] = []
    for link, _ in links(after, last):
        count, number, digest = count + 1, link.content.sequence, link.digest
        lines.append(audit_lines.entry_line(link))
        if number in signed:
            lines.append(audit_lines.json_line("checkpoint", {"envelope": signed[number]}))
        if len(lines) >= BATCH:
            yield b"".join(lines)
            lines = []
    lines.append(audit_lines.end_line(entries=count, last=number, digest=digest))
    yield b"".join(lines)


def compressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same as gzip."""
    packer = zlib.compressobj(level=6, wbits=31)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


def _filtered_jsonl(
    wanted: AuditFilter, actor: Actor, head: AuditHead, filters: dict[str, str]
) -> Iterator[bytes]:
    yield audit_lines.header_line(
        after=head.kept_after,
        digest=head.kept_after_digest,
        filters=filters,
        exported_at=timezone.now().isoformat(),
        pems=[],
    )
    count, last, digest = 0, head.kept_after, head.kept_after_digest
    for batch in _filtered(wanted, actor, head.sequence):
        count, last, digest = count + len(batch), batch[-1].content.sequence, batch[-1].digest
        yield b"".join(audit_lines.entry_line(link) for link in batch)
    yield audit_lines.end_line(entries=count, last=last, digest=digest)


def _csv(batches: Iterator[list[Link]], *, bom: bool) -> Iterator[bytes]:
    yield ((audit_lines.BOM if bom else "") + audit_lines.csv_lines([], header=True)).encode()
    for batch in batches:
        yield audit_lines.csv_lines(batch, header=False).encode()


def _filtered(wanted: AuditFilter, actor: Actor, last: int) -> Iterator[list[Link]]:
    """Matching entries in batches, oldest first, each by a statement of its own.

    A cursor of the database would hold a snapshot for as long as the reader takes, and with it
    the dropping of old partitions.
    """
    entries = audit_entries(wanted, user=actor.user).order_by("sequence")
    number = 0
    while batch := list(entries.filter(sequence__gt=number, sequence__lte=last)[:BATCH]):
        yield [link_of(entry) for entry in batch]
        number = batch[-1].sequence
