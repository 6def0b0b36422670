"""Whatever is done to the audit trail behind the console's back is found, and where."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import Client
from django.utils import timezone

from console.models import AuditCheckpoint, AuditEntry, AuditHead, Job, JobState, Notice, User
from console.rules.audit_chain import FaultKind
from console.rules.audit_checkpoints import EVERY
from console.services import audit
from console.services.audit_checkpoints import FILE, folder, make_checkpoint
from console.services.audit_checks import keep_checkpoints, run_verification, verify_chain
from console.services.job_runs import run_job
from tests.console.audit_writing import (
    NOON,
    Capture,
    digest_at,
    forge,
    rewrite_from,
    tamper,
    write,
)
from tests.factories import People, actor, people

pytestmark = pytest.mark.django_db


@pytest.fixture
def signed_chain(persons: People, django_capture_on_commit_callbacks: Capture) -> People:
    """Entries 1 to 14: a checkpoint at #5 (told of in #6) and one at #11 (told of in #12)."""
    with django_capture_on_commit_callbacks(execute=True):
        for count in (5, 5):
            write(persons.ada, count)
            make_checkpoint(actor=actor(persons.ada), now=NOON)
        write(persons.ada, 2)
    return persons


def found() -> list[tuple[str, int, int]]:
    return [(fault.kind.value, fault.sequence, fault.last) for fault in verify_chain().faults]


def test_a_chain_with_its_checkpoints_is_whole(signed_chain: People) -> None:
    report = verify_chain()
    assert (report.ok, report.entries, report.checked, report.checkpoints) == (True, 14, 14, 2)
    since = verify_chain(full=False)
    assert (since.ok, since.after, since.checked) == (True, 11, 3)
    lines = (folder() / FILE).read_text().splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [5, 11]
    told = AuditEntry.objects.get(sequence=12)
    assert (told.action, told.after["sequence"]) == ("audit.checkpoint", 11)


T = "console_auditentry"


@pytest.mark.parametrize(
    ("statements", "faults"),
    [
        ([f"update {T} set reason = 'nothing' where sequence = 4"], [("edited", 4, 4)]),
        ([f"update {T} set at = at + interval '1 second' where sequence = 4"], [("edited", 4, 4)]),
        ([f"update {T} set after = '{{}}' where sequence in (2, 9)"],
         [("edited", 2, 2), ("edited", 9, 9)]),
        ([f"delete from {T} where sequence = 4"], [("deleted", 4, 4)]),
        ([f"delete from {T} where sequence between 7 and 9"], [("deleted", 7, 9)]),
        ([f"delete from {T} where sequence = 1"], [("deleted", 1, 1)]),
        ([f"update {T} set sequence = case sequence when 3 then 9 else 3 end "
          "where sequence in (3, 9)"], [("reordered", 3, 3), ("reordered", 9, 9)]),
        ([f"update {T} set sequence = 15 - sequence where sequence in (7, 8)"],
         [("reordered", 7, 7), ("reordered", 8, 8)]),
        ([f"delete from {T} where sequence > 12"], [("cut", 13, 14)]),
        (["update console_audithead set sequence = 13"], [("extended", 14, 14),
                                                         ("rewritten", 13, 13)]),
        (["update console_audithead set kept_after = 3"], [("checkpoint", 1, 3)]),
        ([f"delete from {T} where sequence <= 5", "update console_audithead set kept_after = 5"],
         [("checkpoint", 1, 5), ("deleted", 1, 5)]),
        (["delete from console_auditcheckpoint where sequence = 5"], [("checkpoint", 5, 5)]),
        (["update console_auditcheckpoint set envelope = jsonb_set(envelope, '{payload}', "
          "'\"e30=\"') where sequence = 5"], [("checkpoint", 5, 5)]),
        (["update console_auditcheckpoint set sequence = 4 where sequence = 5"],
         [("checkpoint", 4, 4), ("checkpoint", 5, 5)]),
    ],
)  # fmt: skip
def test_what_was_done_is_found_and_located(
    signed_chain: People, statements: list[str], faults: list[tuple[str, int, int]]
) -> None:
    tamper(*statements)
    assert sorted(found()) == sorted(faults)


def test_an_entry_put_in_under_a_number_that_is_taken_is_found(signed_chain: People) -> None:
    forge(7, previous=digest_at(6))
    assert found() == [("inserted", 7, 7)]


def test_an_entry_put_in_with_the_others_renumbered_is_found(signed_chain: People) -> None:
    tamper("update console_auditentry set sequence = sequence + 1 where sequence >= 13")
    forge(13, previous=digest_at(12))
    AuditHead.objects.update(sequence=15)
    assert found() == [("inserted", 13, 13)]


def test_an_entry_taken_out_with_the_others_renumbered_is_found(signed_chain: People) -> None:
    tamper(
        "delete from console_auditentry where sequence = 13",
        "update console_auditentry set sequence = 13 where sequence = 14",
    )
    AuditHead.objects.update(sequence=13)
    assert found() == [("deleted", 13, 13)]


def test_entries_behind_the_head_are_found(signed_chain: People) -> None:
    forge(15, previous=digest_at(14))
    forge(16, previous=digest_at(15))
    assert found() == [("extended", 15, 16)]


def test_a_cut_whose_head_was_set_back_is_found_by_a_checkpoint(signed_chain: People) -> None:
    tamper("delete from console_auditentry where sequence > 9")
    AuditHead.objects.update(sequence=9, digest=digest_at(9))
    assert found() == [("cut", 10, 11)]


def test_a_chain_that_was_rewritten_whole_is_found_by_its_checkpoints(signed_chain: People) -> None:
    """Every digest fits again, the head too: only what was signed still tells."""
    rewrite_from(7)
    assert found() == [("rewritten", 6, 11)]


def test_who_rewrites_checkpoints_as_well_is_found_by_the_file(signed_chain: People) -> None:
    rewrite_from(2)
    AuditCheckpoint.objects.all().delete()
    assert found() == [("rewritten", 1, 5), ("checkpoint", 5, 5), ("checkpoint", 11, 11)]


def test_a_checkpoint_of_a_key_that_was_added_to_the_database_does_not_count(
    signed_chain: People,
) -> None:
    """The keys that may sign come from files: a key of the attacker's own is none of them."""
    (folder() / FILE).unlink()
    envelope = AuditCheckpoint.objects.get(sequence=11).envelope
    envelope["signatures"][0]["keyid"] = "a" * 64
    AuditCheckpoint.objects.filter(sequence=11).update(envelope=envelope)
    faults = verify_chain().faults
    assert [(fault.kind, fault.sequence) for fault in faults] == [(FaultKind.CHECKPOINT, 11)]
    assert "not trusted here" in faults[0].detail


def test_at_most_twenty_faults_are_given(persons: People) -> None:
    write(persons.ada, 40)
    tamper("update console_auditentry set reason = 'all of them'")
    assert len(verify_chain().faults) == 20


def test_checkpoints_come_by_time_or_number_and_only_over_a_whole_chain(
    persons: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keep_checkpoints(now=NOON) is None
    write(persons.ada, 3)
    first = keep_checkpoints(now=NOON)
    assert first is not None
    assert first.sequence == 3
    later = NOON + EVERY
    assert keep_checkpoints(now=later) is None, "the entry that tells of it is not news"
    write(persons.ada)
    assert keep_checkpoints(now=NOON) is None, "too soon"
    second = keep_checkpoints(now=later)
    assert second is not None
    write(persons.ada, 3)
    tamper("update console_auditentry set reason = 'x' where sequence = 8")
    assert keep_checkpoints(now=later + EVERY) is None
    notice = Notice.objects.get(kind="audit.broken")
    assert (notice.recipient, notice.data["sequence"]) == (persons.ada, 8)
    assert keep_checkpoints(now=later + 2 * EVERY) is None
    assert AuditEntry.objects.filter(action="audit.verify").count() == 1, "said once"


def test_the_job_checks_all_of_it_says_how_far_it_is_and_tells_the_admins(
    signed_chain: People, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(signed_chain.vic)
    page = client.post("/audit/verify/", headers={"HX-Request": "true"}).content.decode()
    assert "Checking" in page
    assert client.post("/audit/verify/").status_code == 302
    job = Job.objects.get(kind="audit_verify")
    tamper("update console_auditentry set reason = 'nothing' where sequence = 4")
    run_job(str(job.pk), run_verification)
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
    assert [fault["sequence"] for fault in job.result["faults"]] == [4]
    shown = client.get("/audit/").content.decode()
    assert "The chain is broken in 1 place." in shown
    assert 'href="#entry-4"' in shown
    assert Notice.objects.filter(kind="audit.broken", ended_at=None).count() == 1
    assert AuditEntry.objects.get(action="audit.verify").after["ok"] is False


def test_the_command_verifies_signs_and_says_where_it_is_broken(signed_chain: People) -> None:
    def run(*arguments: str) -> str:
        out = io.StringIO()
        call_command("audit", *arguments, stdout=out)
        return out.getvalue()

    assert "14 entries" in run("verify")
    assert "#15" in run("checkpoint"), "the check itself is an entry"
    with transaction.atomic():
        audit.record(actor=actor(signed_chain.ada), action="x", subject="y")
    tamper("update console_auditentry set reason = 'nothing' where sequence = 4")
    with pytest.raises(CommandError, match=r"#4 edited"):
        run("verify")


def test_a_check_beside_writers_and_signers_finds_nothing(transactional_db: None) -> None:
    """What is appended and signed while the chain is checked is no fault."""
    person = people().ada
    done = threading.Event()

    def append_and_sign() -> None:
        try:
            while not done.is_set():
                write(person, 3)
                make_checkpoint(actor=actor(person), now=timezone.now())
        finally:
            connections.close_all()

    writer = threading.Thread(target=append_and_sign)
    writer.start()
    try:
        reports = [verify_chain(full=number % 2 == 0) for number in range(12)]
    finally:
        done.set()
        writer.join()
    assert [report.faults for report in reports] == [[]] * 12
    assert reports[-1].entries > reports[0].entries
