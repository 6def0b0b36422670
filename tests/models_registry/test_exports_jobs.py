"""Cancelling an export: the sandboxed program is gone within two seconds."""

from __future__ import annotations

import os
import threading
import time

import pytest
from django.conf import settings
from django.db import connections

from console.models import Job, JobState
from console.services.jobs import cancel_job, retry_job
from models_registry import tasks
from models_registry.models import VersionState
from models_registry.services import versions
from tests import factories
from tests.factories import actor

pytestmark = pytest.mark.django_db(transaction=True)

SLOW_MODULE = b"""
import time
import torch

class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        time.sleep(120)
"""


def weights() -> bytes:
    import io

    import torch

    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(1, 10)}, buffer)
    return buffer.getvalue()


def test_a_running_export_is_cancelled_within_two_seconds_and_can_be_retried() -> None:
    people = factories.people()
    version, job = versions.create_version(
        model=factories.make_model(),
        upload_id=factories.make_upload(weights(), "weights.pt").pk,
        code_upload_id=factories.make_upload(SLOW_MODULE, "net.py").pk,
        module_entry="net.py:Slow",
        inputs=[{"name": "features", "dtype": "FP32", "dims": ["batch", 10]}],
        actor=actor(people.dana),
    )

    def work() -> None:
        try:
            tasks.export_version(str(job.pk))
        finally:
            connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    work_folder = settings.CONFIG.home / "work" / f"{job.pk}-1"
    deadline = time.monotonic() + 30
    while not work_folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cancel_job(job_id=job.pk, actor=actor(people.dana))
    asked = time.monotonic()
    worker.join(timeout=30)
    # The job learns of it with its next heartbeat (1.5 s), the sandbox within 0.2 s; the rest is
    # what a busy machine takes.
    assert time.monotonic() - asked < 4
    job.refresh_from_db()
    version.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert version.state == VersionState.UPLOADED
    assert not work_folder.exists()
    assert retry_job(job_id=job.pk, actor=actor(people.dana)).state == JobState.QUEUED
    assert Job.objects.filter(kind="validate").count() == 0


def test_what_killed_workers_left_behind_is_cleaned_and_living_jobs_keep_theirs() -> None:
    people = factories.people()
    _, job = versions.create_version(
        model=factories.make_model(),
        upload_id=factories.make_upload(factories.tiny_onnx()).pk,
        actor=actor(people.dana),
    )
    root = settings.CONFIG.home / "work"
    living = root / f"{job.pk}-1"
    ended = root / "22222222-2222-2222-2222-222222222222-3"
    old, fresh = root / "propose-old", root / "artifact-fresh"
    for folder in (living, ended, old, fresh):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    tasks.expire_uploads()
    assert sorted(folder.name for folder in root.iterdir()) == sorted([living.name, fresh.name])
    for folder in (living, fresh):
        folder.rmdir()
