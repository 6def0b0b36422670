"""The trail as a file: streamed, filtered, safe to open, verifiable without a server."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from console.errors import Invalid
from console.models import AuditEntry, AuditHead, User
from console.rules.audit_chain import EntryContent, FaultKind, Link, entry_digest
from console.rules.audit_lines import FileReport, end_line, entry_line, verify_lines
from console.rules.signing_keys import create_private_key, public_key_of
from console.selectors.audit import AuditFilter
from console.services.audit_checkpoints import make_checkpoint, trusted_keys
from console.services.audit_exports import export
from tests.console.audit_writing import NOON, Capture, write
from tests.factories import People, actor

pytestmark = pytest.mark.django_db


@pytest.fixture
def lines(persons: People, django_capture_on_commit_callbacks: Capture) -> list[bytes]:
    """The lines of an export of five entries, a checkpoint, and two more."""
    with django_capture_on_commit_callbacks(execute=True):
        write(persons.ada, 5)
        make_checkpoint(actor=actor(persons.ada), now=NOON)
        write(persons.ada)
    file = export(wanted=AuditFilter(), form="jsonl", actor=actor(persons.ada))
    return b"".join(file.chunks).splitlines(keepends=True)


def check(lines: list[bytes]) -> FileReport:
    return verify_lines(lines, trusted_keys())


def test_an_export_verifies_without_a_server(lines: list[bytes]) -> None:
    report = check(lines)
    assert (report.ok, report.entries, report.first, report.last) == (True, 7, 1, 7)
    assert report.checkpoints == 1
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["header", *["entry"] * 5, "checkpoint", *["entry"] * 2, "end"]


def test_every_change_of_the_file_shows(lines: list[bytes]) -> None:
    def faults(changed: list[bytes]) -> list[tuple[FaultKind, int]]:
        return [(fault.kind, fault.sequence) for fault in check(changed).faults]

    assert faults([line.replace(b"thing 2", b"thing X") for line in lines]) == [
        (FaultKind.EDITED, 3)
    ]
    assert faults(lines[:3] + lines[4:]) == [(FaultKind.DELETED, 3)]
    assert (FaultKind.DELETED, 2) in faults([lines[0], lines[1], lines[3], lines[2], *lines[4:]])
    assert faults(lines[:-1]) == [(FaultKind.CUT, 7)]
    assert faults([*lines[:-2], lines[-1]]) == [(FaultKind.CUT, 7)]
    with pytest.raises(Invalid, match="Line 4"):
        check([*lines[:3], lines[3][:40] + b"\n"])
    with pytest.raises(Invalid, match="not an export"):
        check([b'{"type": "entry"}\n'])


def test_a_file_that_was_written_anew_is_found_by_its_checkpoint(lines: list[bytes]) -> None:
    """All digests are made to fit again: the signature is over the old one."""
    forged, previous = [lines[0]], "0" * 64
    for line in lines[1:]:
        body = json.loads(line)
        if body.pop("type") == "entry":
            body.pop("digest"), body.pop("previous_digest")
            content = EntryContent(**{**body, "actor_username": "eve"})
            link = Link(content, previous, entry_digest(previous, content))
            line, previous = entry_line(link), link.digest
        forged.append(line)
    forged[-1] = end_line(entries=7, last=7, digest=previous)
    assert [(fault.kind, fault.sequence) for fault in check(forged).faults] == [
        (FaultKind.REWRITTEN, 5)
    ]


def test_a_checkpoint_by_a_key_that_is_not_trusted_counts_for_nothing(lines: list[bytes]) -> None:
    key = public_key_of(create_private_key("ecdsa-p256"))
    stranger = verify_lines(lines, {key.key_id: key})
    assert [fault.kind for fault in stranger.faults] == [FaultKind.CHECKPOINT]
    assert "not trusted here" in stranger.faults[0].detail


def test_a_spreadsheet_runs_nothing_of_it(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    nasty = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", '=cmd|" /C calc"!A0']
    for text in nasty:
        write(persons.ada, subject=text, reason="fine, “quoted”\nand more", after=None)
    answer = signed_in(persons.ada).get("/audit/export/?as=csv&bom=1")
    content = answer.getvalue()
    assert content.startswith("\ufeff".encode())
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [row["subject"] for row in rows[: len(nasty)]] == ["'" + text for text in nasty]
    assert rows[0]["reason"] == "fine, “quoted”\nand more"
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'attachment; filename="audit-' in answer["Content-Disposition"]
    plain = signed_in(persons.ada).get("/audit/export/?as=csv").getvalue()
    assert plain.startswith(b"sequence,")


def test_the_filters_are_honoured_and_the_export_is_an_entry(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    write(persons.ada, 3)
    write(persons.sam, 2, action="release.approve")
    answer = api(persons.ada).get("/api/v1/audit/export/?action=release.&gz=1")
    body = [json.loads(line) for line in gzip.decompress(answer.getvalue()).splitlines()]
    assert body[0]["filters"] == {"action": "release."}
    assert [line["sequence"] for line in body[1:-1]] == [4, 5]
    assert answer["Content-Disposition"].endswith('.jsonl.gz"')
    told = AuditEntry.objects.get(action="audit.export")
    assert (told.actor_username, told.after["query"]) == ("ada", {"action": "release.", "gz": "1"})
    filtered = check([json.dumps(line).encode() for line in body])
    assert (filtered.ok, filtered.filtered, filtered.entries) == (True, True, 2)
    body[1]["reason"] = "x"
    assert check([json.dumps(line).encode() for line in body]).faults[0].sequence == 4
    assert api(persons.ada).get("/api/v1/audit/export/?as=xml").json()["code"] == "unknown_format"
    assert api(persons.ada).get("/api/v1/audit/export/?from=never").status_code == 422


def test_who_does_not_see_all_models_gets_what_they_see(
    persons: People, api: Callable[[User], APIClient]
) -> None:
    write(persons.ada, subject="upload secret.onnx")
    write(persons.ada, subject="node gpu-1")
    text = api(persons.vic).get("/api/v1/audit/export/").getvalue().decode()
    assert "gpu-1" in text
    assert "secret.onnx" not in text
    assert json.loads(text.splitlines()[0])["filters"] == {"seen_by": "vic"}


def test_memory_does_not_grow_with_the_trail(persons: People) -> None:
    def peak(count: int) -> int:
        """Bytes held at most while that many more entries of 4 kB are exported."""
        first = AuditEntry.objects.count() + 1
        AuditEntry.objects.bulk_create(
            AuditEntry(sequence=number, at=NOON, reason="x" * 4000, digest="d", action="a")
            for number in range(first, first + count)
        )
        AuditHead.objects.update_or_create(id=1, defaults={"sequence": first + count - 1})
        file = export(wanted=AuditFilter(), form="csv", actor=actor(persons.ada))
        tracemalloc.start()
        size = sum(len(chunk) for chunk in file.chunks)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size > 4000 * count
        return top

    peak(10)
    few, many = peak(1_000), peak(4_000)
    assert many < few * 1.5, (few, many)


def test_what_is_written_meanwhile_is_not_part_of_it(persons: People) -> None:
    write(persons.ada, 3)
    file = export(wanted=AuditFilter(), form="jsonl", actor=actor(persons.ada))
    write(persons.ada, 3)
    assert json.loads(b"".join(file.chunks).splitlines()[-1])["last"] == 3


def test_times_bound_an_export(persons: People) -> None:
    write(persons.ada, 2)
    at = AuditEntry.objects.latest("sequence").at
    later = AuditFilter(since=at + timedelta(seconds=1))
    file = export(wanted=later, form="csv", actor=actor(persons.ada))
    assert len(b"".join(file.chunks).splitlines()) == 1


@pytest.mark.parametrize(
    ("time", "status"),
    [("9999-12-31T23:59:59%2B23:59", 200), ("9999-12-31T23:59:59-23:59", 422)],
)
def test_times_at_the_end_of_all_days_break_no_export(
    persons: People, api: Callable[[User], APIClient], time: str, status: int
) -> None:
    for name in ("from", "to"):
        answer: Any = api(persons.ada).get(f"/api/v1/audit/export/?{name}={time}")
        assert answer.status_code == status
        assert answer.streaming is False or list(answer.streaming_content)


def test_the_page_takes_the_last_of_all_days(
    persons: People, signed_in: Callable[[User], Client]
) -> None:
    assert signed_in(persons.ada).get("/audit/?until=9999-12-31").status_code == 200
