"""Jobs on real Celery workers, with workers, leases and Redis lost under them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from console import live
from console.models import Job, JobState
from console.services.jobs import cancel_job
from console.stack import process
from tests.console.conftest import OwnRedis, Worker, ask, launch_worker, wait_for
from tests.factories import People, actor

# In one place, so that their processes are started once.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.xdist_group("job-workers")]


def running(job: Job) -> bool:
    return bool(job.state == JobState.RUNNING)


def ended(job: Job) -> bool:
    return job.is_terminal


def counted(file: Path) -> list[tuple[int, int]]:
    """(attempt, number) of each line that was written."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(line.split()[0]), int(line.split()[1])) for line in lines]


def test_a_killed_worker_is_followed_by_another_from_the_last_checkpoint(
    victim: Worker, steady_worker: Worker, persons: People, tmp_path: Path
) -> None:
    file = tmp_path / "counted"
    job = ask("count", persons.dana, queue="doomed", steps=8, seconds=0.2, file=str(file))
    wait_for(job, lambda j: j.checkpoint.get("done", 0) >= 3, what="the third step")
    victim.kill()
    job.refresh_from_db()
    done = job.checkpoint["done"]
    steady_worker.also_work_on("doomed")
    took = wait_for(job, lambda j: j.attempt == 2, what="the second attempt")
    assert took < 15
    wait_for(job, ended)
    assert (job.state, job.attempt) == ("succeeded", 2)
    numbers = [number for _, number in counted(file)]
    assert sorted(set(numbers)) == list(range(8))
    assert (2, done) in counted(file), "the second attempt begins at the checkpoint"
    assert len(numbers) <= 9, "at most the step that was under way is done twice"
    assert job.lines.filter(text__contains="was lost; the job goes on").exists()


def test_a_worker_that_froze_past_its_lease_writes_nothing_when_it_wakes(
    victim: Worker, steady_worker: Worker, persons: People
) -> None:
    job = ask("stubborn", persons.dana, queue="doomed", seconds=3)
    wait_for(job, running)
    os.kill(victim.child.pid, signal.SIGSTOP)
    steady_worker.also_work_on("doomed")
    took = wait_for(job, lambda j: j.attempt == 2 and running(j), what="the second attempt")
    assert took < 15
    os.kill(victim.child.pid, signal.SIGCONT)
    wait_for(job, ended)
    assert (job.state, job.attempt) == ("succeeded", 2)
    assert job.checkpoint == {"written_by": [2]}
    assert job.result == {"attempt": 2}
    wait_for(job, lambda j: b"lost its lease and stopped" in victim.log.read_bytes())


def test_a_running_job_is_cancelled_within_two_seconds(
    steady_worker: Worker, persons: People, tmp_path: Path
) -> None:
    job = ask("count", persons.dana, steps=100, seconds=0.2, file=str(tmp_path / "counted"))
    wait_for(job, running)
    cancel_job(job_id=job.pk, actor=actor(persons.dana))
    assert wait_for(job, ended) < 2
    assert (job.state, job.checkpoint.get("told")) == ("cancelled", "cancelled")


def test_a_flushed_redis_loses_no_job(
    steady_worker: Worker, persons: People, tmp_path: Path
) -> None:
    busy = ask("count", persons.dana, steps=1, seconds=1, file=str(tmp_path / "busy"))
    wait_for(busy, running)
    jobs = [
        ask("count", persons.dana, steps=2, seconds=0, file=str(tmp_path / f"counted-{n}"))
        for n in range(5)
    ]
    live.connection().flushall()
    began = time.monotonic()
    for job in [busy, *jobs]:
        wait_for(job, ended)
        assert (job.state, job.attempt) == ("succeeded", 1)
    assert time.monotonic() - began < 15


def test_jobs_that_wait_long_are_not_sent_over_and_over(
    steady_worker: Worker, persons: People, tmp_path: Path
) -> None:
    long = ask("count", persons.dana, steps=1, seconds=8, file=str(tmp_path / "long"))
    wait_for(long, running)
    waiting = [
        ask("count", persons.dana, steps=1, seconds=0, file=str(tmp_path / f"counted-{n}"))
        for n in range(6)
    ]
    longest = 0

    def watch(job: Job) -> bool:
        nonlocal longest
        longest = max(longest, int(str(live.connection().llen("control"))))
        return job.is_terminal

    wait_for(long, watch)
    # One of the six may lie in the worker's hand and be sent once more for it.
    assert longest <= len(waiting)
    for job in waiting:
        wait_for(job, ended)
        assert (job.state, job.attempt) == ("succeeded", 1)


def test_an_outside_fault_is_retried_by_the_worker(steady_worker: Worker, persons: People) -> None:
    job = ask("flaky", persons.dana, works_at=2)
    wait_for(job, ended)
    assert (job.state, job.attempt, job.error_code) == ("succeeded", 2, "")
    assert job.lines.filter(level="warning", text__startswith="The node does not answer.").exists()


def test_a_killed_redis_loses_no_job_and_the_worker_finds_it_again(
    transactional_db: None, own_redis: OwnRedis, persons: People, tmp_path: Path
) -> None:
    worker = launch_worker(tmp_path, queues="control", REDIS_URL=own_redis.url)
    try:
        # Sent to the broker of the tests, of which this worker knows nothing: its sweep sends anew.
        long = ask("count", persons.dana, steps=4, seconds=0.5, file=str(tmp_path / "long"))
        wait_for(long, running)
        own_redis.kill()
        wait_for(long, ended)
        assert (long.state, long.attempt) == ("succeeded", 1), "running work needs no broker"
        waiting = ask("count", persons.dana, steps=1, seconds=0, file=str(tmp_path / "waiting"))
        own_redis.start()
        took = wait_for(waiting, ended)
        assert waiting.state == "succeeded"
        assert took < 15
        assert worker.child.poll() is None
    finally:
        process.stop(worker.child, signal.SIGKILL, seconds=5)
