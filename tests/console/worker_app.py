"""The product's Celery app with kinds of jobs for tests: `celery -A tests.console.worker_app`.

Imported by the tests too, so that both sides know the kinds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import django

from console.celery import app

# The worker imports this before Celery sets Django up; the tests have done so long before.
django.setup()

from console.errors import Invalid, Unavailable  # noqa: E402
from console.models import Job  # noqa: E402
from console.rules.jobs import KINDS, JobKind  # noqa: E402
from console.services.job_runs import JobRun, run_job  # noqa: E402

QUEUE = "control"


def _count(run: JobRun) -> dict[str, Any]:
    """Count to `steps`, `seconds` each, a line in a file for each; goes on from its checkpoint."""
    arguments = run.job.arguments
    for number in range(run.job.checkpoint.get("done", 0), arguments["steps"]):
        run.progress(number / arguments["steps"], f"Counting {number}")
        _wait(run, arguments["seconds"])
        with run.transaction():
            run.checkpoint(done=number + 1)
        with Path(arguments["file"]).open("a") as file:
            file.write(f"{run.attempt} {number} {os.getpid()}\n")
    return {"counted": arguments["steps"]}


def _stubborn(run: JobRun) -> dict[str, Any]:
    """Writes at its end what it should not write when its lease was lost meanwhile."""
    time.sleep(run.job.arguments["seconds"])
    with run.transaction():
        run.checkpoint(written_by=[*run.job.checkpoint.get("written_by", []), run.attempt])
    return {"attempt": run.attempt}


def _refuse(run: JobRun) -> dict[str, Any]:
    raise Invalid("The file is no model.", code="not_a_model", hint="Upload another.")


def _flaky(run: JobRun) -> dict[str, Any]:
    if run.attempt < run.job.arguments["works_at"]:
        raise Unavailable("The node does not answer.", code="node_away", hint="It may be back.")
    return {"attempt": run.attempt}


def _broken(run: JobRun) -> dict[str, Any]:
    raise ZeroDivisionError("a fault of ours")


def _wait(run: JobRun, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.check()
        time.sleep(0.02)


def note_end(job: Job) -> None:
    """What waits for such a job: keeps the state in which it heard of the end."""
    job.checkpoint = {**job.checkpoint, "told": job.state}
    job.save(update_fields=["checkpoint"])


def fail_to_note(job: Job) -> None:
    raise RuntimeError("an `ended` function with a fault")


for _name, _handler, _attempts, _ended in (
    ("count", _count, 5, "note_end"),
    ("stubborn", _stubborn, 3, ""),
    ("refuse", _refuse, 3, "note_end"),
    ("flaky", _flaky, 3, "note_end"),
    ("broken", _broken, 3, "note_end"),
    ("badly_told", _count, 1, "fail_to_note"),
):

    def _body(job_id: str, handler: Any = _handler) -> None:
        run_job(job_id, handler)

    _task = f"tests.{_name}"
    app.task(_body, name=_task)
    KINDS[f"test_{_name}"] = JobKind(
        f"test_{_name}", _task, QUEUE, _attempts, _ended and f"{__name__}.{_ended}"
    )

HANDLERS = {
    "test_count": _count,
    "test_stubborn": _stubborn,
    "test_refuse": _refuse,
    "test_flaky": _flaky,
    "test_broken": _broken,
    "test_badly_told": _count,
}
