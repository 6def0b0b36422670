"""A worker that kills itself (-9) in the middle of a load test: JOB-ID SECOND."""

from __future__ import annotations

import os
import signal
import sys
import uuid

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

from console.services import job_runs  # noqa: E402 - Django has to be set up first
from deployments.services.trials.load_tests import run_load_test  # noqa: E402


class DoomedRun(job_runs.JobRun):
    """Dies once that second of the load has been measured."""

    def progress(self, share: float, step: str) -> None:
        if step.startswith(f"Second {sys.argv[2]}"):
            os.kill(os.getpid(), signal.SIGKILL)
        super().progress(share, step)


if __name__ == "__main__":
    job = job_runs.claim(uuid.UUID(sys.argv[1]))
    assert job is not None
    run_load_test(DoomedRun(job))
