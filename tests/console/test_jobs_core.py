"""Jobs against the database alone: asking, claiming, fencing, endings."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections, transaction
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from console.errors import Conflict, NotAllowed, NotFound
from console.models import AuditEntry, Job, JobState
from console.rules.jobs import MOVES, may_move, retry_delay
from console.services import job_runs, job_sweep
from console.services.jobs import cancel_job, enqueue, retry_job
from tests.console import worker_app
from tests.console.conftest import ask
from tests.factories import People, actor

pytestmark = pytest.mark.django_db


def run(job: Job) -> Job:
    """Run a job here, as a worker's task would."""
    job_runs.run_job(str(job.pk), worker_app.HANDLERS[job.kind])
    job.refresh_from_db()
    return job


@pytest.fixture
def other_connections() -> Iterator[None]:
    """Close the connections that threads of a test leave behind."""
    yield
    connections.close_all()


def test_a_job_is_written_only_inside_the_transaction_of_what_it_does(
    transactional_db: None, persons: People
) -> None:
    with pytest.raises(RuntimeError, match="inside the transaction"):
        enqueue(kind="test_refuse", subject="x", arguments={}, actor=actor(persons.dana))


def test_a_job_is_sent_on_commit_and_not_before(
    persons: People, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=False):
        job = ask("refuse", persons.dana)
    job.refresh_from_db()
    assert job.sent_at is None
    with django_capture_on_commit_callbacks(execute=True):
        job = ask("refuse", persons.dana)
    job.refresh_from_db()
    assert job.sent_at is not None


def test_a_job_rolled_back_with_its_change_never_was(
    transactional_db: None, persons: People
) -> None:
    with transaction.atomic():
        ask("refuse", persons.dana)
        transaction.set_rollback(True)
    assert not Job.objects.exists()


def test_one_key_is_one_job_and_never_one_of_another_kind(persons: People) -> None:
    def ask_with_key(kind: str) -> Job:
        return enqueue(
            kind=kind, subject="x", arguments={}, actor=actor(persons.dana), idempotency_key="k"
        )

    first = ask_with_key("test_refuse")
    assert ask_with_key("test_refuse").pk == first.pk
    with pytest.raises(Conflict) as refused:
        ask_with_key("test_flaky")
    assert refused.value.code == "idempotency_key_reused"
    assert Job.objects.count() == 1


def test_the_three_endings(persons: People, tmp_path: Path) -> None:
    done = run(ask("count", persons.dana, steps=2, seconds=0, file=str(tmp_path / "log")))
    assert (done.state, done.result, done.progress) == ("succeeded", {"counted": 2}, 1)
    assert done.finished_at is not None
    assert done.lease_until is None

    refused = run(ask("refuse", persons.dana))
    assert (refused.state, refused.error_code) == ("failed", "not_a_model")
    assert refused.error_hint == "Upload another."
    assert refused.checkpoint["told"] == "failed"

    broken = run(ask("broken", persons.dana))
    assert (broken.state, broken.error_code) == ("errored", "internal_error")
    assert "reference" in broken.error_message
    assert "fault of ours" not in broken.error_message
    assert broken.checkpoint["told"] == "errored"


def test_what_is_refused_is_never_tried_again(persons: People) -> None:
    assert run(ask("refuse", persons.dana)).attempt == 1


def test_an_outside_fault_is_tried_again_after_a_pause_until_the_attempts_are_used(
    persons: People,
) -> None:
    job = run(ask("flaky", persons.dana, works_at=9))
    for attempt in (1, 2):
        assert (job.state, job.attempt) == ("queued", attempt)
        assert job.error_code == "node_away"
        pause = job.not_before - timezone.now()
        assert timedelta(0) < pause <= timedelta(seconds=2**attempt)
        assert run(job).attempt == attempt, "it is not due yet"
        Job.objects.filter(pk=job.pk).update(not_before=timezone.now())
        run(job)
    assert (job.state, job.attempt, job.error_code) == ("failed", 3, "node_away")
    assert job.checkpoint["told"] == "failed"


def test_a_message_that_comes_twice_does_nothing_the_second_time(
    persons: People, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    job = run(ask("count", persons.dana, steps=2, seconds=0, file=str(file)))
    run(job)
    assert job.attempt == 1
    assert len(file.read_text().splitlines()) == 2


def test_a_job_is_claimed_by_one_of_many(
    transactional_db: None, persons: People, other_connections: None
) -> None:
    job = ask("refuse", persons.dana)
    start = threading.Barrier(8)
    claimed: list[Job] = []

    def claim() -> None:
        start.wait()
        try:
            if taken := job_runs.claim(job.pk):
                claimed.append(taken)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [taken.attempt for taken in claimed] == [1]


def test_an_attempt_that_lost_its_lease_can_write_nothing(persons: People) -> None:
    job = ask("stubborn", persons.dana, seconds=0)
    first = job_runs.claim(job.pk)
    assert first is not None
    lost = job_runs.JobRun(first)
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert job_sweep.sweep()[0] == 1
    second = job_runs.claim(job.pk)
    assert second is not None
    assert second.attempt == 2

    with pytest.raises(job_runs.LeaseLost), lost.transaction():
        pytest.fail("the body of a fenced transaction ran")
    with pytest.raises(job_runs.LeaseLost):
        lost.checkpoint(stolen=True)
    with pytest.raises(job_runs.LeaseLost):
        lost.progress(0.5, "On")
    with pytest.raises(job_runs.LeaseLost):
        lost.log("Still here")
    assert lost.should_stop
    job.refresh_from_db()
    assert job.checkpoint == {}
    assert job.step == ""
    with job_runs.JobRun(second).transaction():
        pass


def test_the_sweep_errors_a_job_whose_workers_were_all_lost_and_tells_of_it(
    persons: People,
) -> None:
    job = ask("count", persons.dana)
    for attempt in range(1, 6):
        assert job_runs.claim(job.pk) is not None, f"attempt {attempt}"
        Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        job_sweep.sweep()
    job.refresh_from_db()
    assert (job.state, job.error_code, job.attempt) == ("errored", "worker_lost", 5)
    assert job.checkpoint["told"] == "errored"


def test_one_job_that_cannot_be_ended_keeps_no_other_waiting(
    persons: People, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = ask("badly_told", persons.dana), ask("count", persons.dana)
    for job in (bad, good):
        job_runs.claim(job.pk)
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert job_sweep.sweep()[0] == 2
    good.refresh_from_db()
    bad.refresh_from_db()
    assert good.state == "queued"
    assert bad.state == "running"
    assert bad.lease_until is not None
    assert bad.lease_until > timezone.now() + timedelta(seconds=30)
    assert "could not be ended" in caplog.text


def test_cancelling_a_queued_job_ends_it_once_and_is_on_record(persons: People) -> None:
    job = ask("count", persons.dana)
    for _ in range(2):
        if Job.objects.get(pk=job.pk).state == "queued":
            cancel_job(job_id=job.pk, actor=actor(persons.dana), reason="a mistake")
    job.refresh_from_db()
    assert (job.state, job.checkpoint["told"]) == ("cancelled", "cancelled")
    assert job.cancel_requested_by == persons.dana
    entry = AuditEntry.objects.get(action="job.cancel")
    assert (entry.reason, entry.actor_username) == ("a mistake", "dana")
    with pytest.raises(Conflict) as refused:
        cancel_job(job_id=job.pk, actor=actor(persons.dana))
    assert refused.value.code == "job_ended"
    assert run(job).state == "cancelled"


def test_a_job_that_breaks_because_it_was_stopped_is_cancelled_not_failed(
    persons: People,
) -> None:
    job = ask("refuse", persons.dana)
    claimed = job_runs.claim(job.pk)
    assert claimed is not None
    cancel_job(job_id=job.pk, actor=actor(persons.dana))
    job_runs._run_to_an_ending(job_runs.JobRun(claimed), worker_app.HANDLERS[job.kind])
    job.refresh_from_db()
    assert (job.state, job.error_code) == ("cancelled", "")


def test_a_cancelled_job_whose_worker_is_lost_is_not_handed_on(persons: People) -> None:
    job = ask("count", persons.dana)
    job_runs.claim(job.pk)
    cancel_job(job_id=job.pk, actor=actor(persons.dana))
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    job_sweep.sweep()
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_retrying_gives_fresh_attempts_and_goes_on_from_the_checkpoint(
    persons: People, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    job = ask("count", persons.dana, steps=4, seconds=0, file=str(file))
    Job.objects.filter(pk=job.pk).update(
        state=JobState.FAILED, attempt=5, error_code="x", checkpoint={"done": 3}
    )
    retried = retry_job(job_id=job.pk, actor=actor(persons.dana))
    assert (retried.state, retried.error_code, retried.max_attempts) == ("queued", "", 10)
    assert run(job).state == "succeeded"
    assert file.read_text().split()[:2] == ["6", "3"]
    with pytest.raises(Conflict) as refused:
        retry_job(job_id=job.pk, actor=actor(persons.dana))
    assert refused.value.code == "job_not_retryable"
    assert AuditEntry.objects.get(action="job.retry").before == {"state": "failed"}


def test_who_may_manage_a_job(persons: People) -> None:
    job = ask("count", persons.dana)
    for stranger in (persons.vic, persons.bea):
        with pytest.raises(NotAllowed):
            cancel_job(job_id=job.pk, actor=actor(stranger))
    with pytest.raises(NotAllowed) as refused:
        cancel_job(job_id=job.pk, actor=actor(persons.dana, scopes={"read"}))
    assert refused.value.code == "scope_missing"
    with pytest.raises(NotFound):
        cancel_job(job_id=uuid.uuid4(), actor=actor(persons.ada))
    cancel_job(job_id=job.pk, actor=actor(persons.sam))
    retry_job(job_id=job.pk, actor=actor(persons.ada))
    cancel_job(job_id=job.pk, actor=actor(persons.dana, scopes={"write"}))


def test_a_step_is_opened_by_new_words_not_by_new_figures(persons: People) -> None:
    claimed = job_runs.claim(ask("count", persons.dana).pk)
    assert claimed is not None
    attempt = job_runs.JobRun(claimed)
    for share, step in ((0.1, "Read"), (0.2, "Compare 1 of 9"), (0.3, "Compare 2 of 9")):
        attempt.progress(share, step)
    steps = claimed.lines.filter(level="step").values_list("text", flat=True)
    assert list(steps) == ["Read", "Compare 1 of 9"]
    claimed.refresh_from_db()
    assert (claimed.step, claimed.progress) == ("Compare 2 of 9", 0.3)


@pytest.mark.parametrize("before", MOVES)
@pytest.mark.parametrize("after", MOVES)
def test_the_moves_of_a_job(before: str, after: str) -> None:
    legal = {
        ("queued", "running"),
        ("queued", "cancelled"),
        ("running", "succeeded"),
        ("running", "failed"),
        ("running", "errored"),
        ("running", "cancelled"),
        ("running", "queued"),
    }
    assert may_move(before, after) == ((before, after) in legal)


def test_the_pause_before_a_retry_grows_and_is_spread() -> None:
    assert [retry_delay(n, 0).total_seconds() for n in (1, 2, 3, 9)] == [2, 4, 8, 60]
    assert retry_delay(3, 1).total_seconds() == 4


def test_a_process_that_froze_while_sweeping_does_not_stop_the_sweep(
    transactional_db: None, persons: People
) -> None:
    job = ask("count", persons.dana)
    job_runs.claim(job.pk)
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    frozen = connections.create_connection("default")
    try:
        with frozen.cursor() as cursor:
            cursor.execute("begin")
            cursor.execute(
                f"set local idle_in_transaction_session_timeout = {job_sweep.FROZEN_AFTER_MS}"
            )
            cursor.execute("select pg_advisory_xact_lock(%s)", [job_sweep.ADVISORY_LOCK])
        assert job_sweep.sweep() == (0, 0)
        deadline = time.monotonic() + job_sweep.FROZEN_AFTER_MS / 1000 + 5
        while job_sweep.sweep()[0] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        frozen.close()
    job.refresh_from_db()
    assert job.state == "queued"
