"""Audit entries as lines of a file: JSONL that can be verified without a server, and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from console.errors import Invalid
from console.rules import audit_checkpoints
from console.rules.audit_chain import (
    GENESIS,
    ChainFault,
    ChainWalk,
    EntryContent,
    FaultKind,
    Link,
    entry_digest,
)
from console.rules.signing_keys import PublicKey

FORMAT = "covenant.audit/1"
COLUMNS = (
    "sequence",
    "at",
    "actor_username",
    "action",
    "subject",
    "subject_url",
    "before",
    "after",
    "reason",
    "source",
    "request_id",
    "digest",
)
BOM = "\ufeff"
# What a spreadsheet takes for a formula (OWASP, CSV Injection); a tab or return may stand before.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def json_line(kind: str, value: Mapping[str, Any]) -> bytes:
    """One line of JSONL: an object with `type` first."""
    return json.dumps({"type": kind, **value}, ensure_ascii=False).encode() + b"\n"


def entry_line(link: Link) -> bytes:
    """An entry with all that its digest covers, and its place in the chain."""
    return json_line(
        "entry",
        {
            **{name: getattr(link.content, name) for name in link.content.__slots__},
            "previous_digest": link.previous_digest,
            "digest": link.digest,
        },
    )


def header_line(
    *, after: int, digest: str, filters: Mapping[str, str], exported_at: str, pems: Iterable[str]
) -> bytes:
    """How the file begins: behind which entry, by what it was filtered, and the public keys."""
    return json_line(
        "header",
        {
            "format": FORMAT,
            "after": after,
            "afterDigest": digest,
            "filters": dict(filters),
            "exportedAt": exported_at,
            "keys": list(pems),
        },
    )


def end_line(*, entries: int, last: int, digest: str) -> bytes:
    """How the file ends, so that one that was cut off shows."""
    return json_line("end", {"entries": entries, "last": last, "digest": digest})


def csv_lines(links: Iterable[Link], *, header: bool) -> str:
    """CSV (RFC 4180) of the entries; a cell that a spreadsheet would run gets a ' before it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    if header:
        writer.writerow(COLUMNS)
    for link in links:
        values = {**_values(link.content), "digest": link.digest}
        writer.writerow([plain_cell(values[name]) for name in COLUMNS])
    return text.getvalue()


def _values(content: EntryContent) -> dict[str, Any]:
    return {name: getattr(content, name) for name in content.__slots__}


def plain_cell(value: Any) -> str:
    """A cell that no spreadsheet takes for a formula: such a text gets a ' before it."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and text.lstrip(" ").startswith(_FORMULA_STARTS):
        return "'" + text
    return text


@dataclass(slots=True)
class FileReport:
    """What verifying a file found: its faults, and what may be said of it when there is none."""

    entries: int = 0
    first: int = 0
    last: int = 0
    filtered: bool = False
    checkpoints: int = 0
    keyids: list[str] = field(default_factory=list)
    faults: list[ChainFault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "ok": self.ok,
            "entries": self.entries,
            "first": self.first,
            "last": self.last,
            "filtered": self.filtered,
            "checkpoints": self.checkpoints,
            "keyids": self.keyids,
            "faults": [asdict(fault) for fault in self.faults],
        }


def verify_lines(lines: Iterable[bytes], keys: Mapping[str, PublicKey]) -> FileReport:
    """Check a JSONL export line by line: the chain, the checkpoints that `keys` signed, the end.

    A file that was filtered has gaps by nature: each of its entries is checked by itself alone.
    Raises Invalid (`not_an_audit_export`) for anything but such a file.
    """
    numbered = _read(lines)
    _, header = next(numbered, (0, {}))
    if header.get("type") != "header" or header.get("format") != FORMAT:
        raise Invalid(
            "This file is not an export of the audit trail.",
            code="not_an_audit_export",
            hint="Verify the JSONL of `covenant audit export` or of the page Audit; CSV has no "
            "chain.",
        )
    report = FileReport(filtered=bool(header.get("filters")))
    walk = ChainWalk(after=int(header["after"]), digest=str(header.get("afterDigest", GENESIS)))
    end: Mapping[str, Any] | None = None
    for number, body in numbered:
        if end is not None:
            raise _malformed(number, "something stands behind its end")
        if body.get("type") == "entry":
            _take_entry(report, walk, _link(body, number))
        elif body.get("type") == "checkpoint":
            _take_checkpoint(report, walk, body, keys)
        elif body.get("type") == "end":
            end = body
        else:
            raise _malformed(number, "its type is not known")
    _finish(report, walk, end)
    return report


def _take_entry(report: FileReport, walk: ChainWalk, link: Link) -> None:
    report.entries += 1
    report.first = report.first or link.content.sequence
    report.last = link.content.sequence
    if not report.filtered:
        walk.walk([link])
    elif entry_digest(link.previous_digest, link.content) != link.digest:
        report.faults.append(
            ChainFault(
                link.content.sequence,
                FaultKind.EDITED,
                "its content was changed after it was written",
                link.content.sequence,
            )
        )


def _take_checkpoint(
    report: FileReport, walk: ChainWalk, body: Mapping[str, Any], keys: Mapping[str, PublicKey]
) -> None:
    """A checkpoint stands right behind the entry that it vouches for."""
    try:
        signed = audit_checkpoints.read(body.get("envelope") or {}, keys)
    except Invalid as error:
        report.faults.append(ChainFault(walk.after, FaultKind.CHECKPOINT, error.message))
        return
    report.checkpoints += 1
    if (signed.sequence, signed.digest) != (walk.after, walk.digest):
        report.faults.append(
            ChainFault(
                signed.sequence,
                FaultKind.REWRITTEN,
                f"a checkpoint was signed for #{signed.sequence} with another digest than what "
                "the file holds there",
                max(signed.sequence, walk.after),
            )
        )


def _finish(report: FileReport, walk: ChainWalk, end: Mapping[str, Any] | None) -> None:
    if end is None:
        report.faults.append(ChainFault(report.last, FaultKind.CUT, "the file has no end: cut off"))
    elif not report.filtered:
        walk.finish(head_sequence=int(end["last"]), head_digest=str(end["digest"]))
    elif int(end["entries"]) != report.entries:
        report.faults.append(
            ChainFault(
                report.last,
                FaultKind.DELETED,
                f"the file holds {report.entries} entries and says {end['entries']}",
            )
        )
    report.faults = sorted((*walk.faults, *report.faults), key=lambda fault: fault.sequence)


def _read(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        try:
            body = json.loads(line)
        except ValueError as error:
            raise _malformed(number, "it is not JSON") from error
        if not isinstance(body, dict):
            raise _malformed(number, "it is not an object")
        yield number, body


def _link(body: Mapping[str, Any], number: int) -> Link:
    try:
        content = EntryContent(**{name: body[name] for name in EntryContent.__slots__})
        return Link(content, str(body["previous_digest"]), str(body["digest"]))
    except KeyError as error:
        raise _malformed(number, f"it lacks {error.args[0]}") from error


def _malformed(number: int, what: str) -> Invalid:
    return Invalid(
        f"Line {number} of the file cannot be read: {what}.",
        code="not_an_audit_export",
        hint="Fetch the file again; what was changed by an editor does not verify.",
    )
