"""Load tests for real: Locust through Envoy to Triton."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable

import psutil
import pytest
from django.db import connections

from console.actors import Actor
from console.errors import Conflict
from console.models import AuditEntry, Job, JobState
from console.services import jobs
from console.services.job_runs import run_job
from console.services.job_sweep import sweep
from deployments.adapters.load_generator import PROGRAM
from deployments.services.fleet.deploys import deploy_release
from deployments.services.traffic.splits import set_mode
from deployments.services.trials.load_tests import ask_for_load_test, run_load_test
from models_registry.models import LoadTest, ModelVersion
from models_registry.services import artifacts
from tests import factories, stack
from tests.adapters.gateways import read_statistics
from tests.deployments import killed_load_test
from tests.deployments.conftest import Fleet
from tests.deployments.waiting import eventually

Jobs = Callable[..., list[Job]]


def generators(parent: int) -> list[int]:
    """Load generators that this process started and that are alive; tests run side by side."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        ours = PROGRAM in words and words[-1] == str(parent)
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@pytest.fixture
def staged(live_fleet: Fleet, control: stack.RunningEnvoy, run_jobs: Jobs) -> ModelVersion:
    """A version that is ready in staging, behind a real gateway."""
    model = factories.make_model(f"m_{uuid.uuid4().hex[:12]}")
    version = factories.make_version(model)
    version.config_origins = {"max_batch_size": {"value": 32, "origin": "rule", "reason": ""}}
    version.save()
    deploy_release(
        release_id=factories.make_release(version, live_fleet.staging).pk, actor=live_fleet.sam
    )
    for job in run_jobs():
        assert job.state == JobState.SUCCEEDED, job.error_message
    return version


def ask(fleet: Fleet, version: ModelVersion, **changes: object) -> tuple[LoadTest, Job]:
    given: dict[str, object] = {"pattern": "mixed", "rate": 40, "seconds": 5}
    actor: Actor = factories.actor(factories.people().dana)
    return ask_for_load_test(
        version=version, environment=fleet.staging, actor=actor, **{**given, **changes}
    )  # type: ignore[arg-type]


def test_a_real_run_is_counted_by_the_gateway_request_by_request(
    live_fleet: Fleet, staged: ModelVersion, control: stack.RunningEnvoy, run_jobs: Jobs
) -> None:
    cluster = f"staging/{staged.model.name}/{staged.number}"
    before = read_statistics(control.admin).clusters[cluster].counters["total"]
    load_test, _ = ask(live_fleet, staged)
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED, job.error_message
    load_test.refresh_from_db()
    report = load_test.report
    assert report is not None
    sent = report["requests"]["sent"]
    assert sent == report["requests"]["planned"] == report["generator"]["counted"] == 136
    assert report["success"] == 100.0
    assert load_test.passed is (report["latency_ms"]["p95"] <= 50.0)
    assert set(report["batches"]) > {"1", "2"}
    # Pinned calls count as calls of the endpoint: those that were measured and the one before.
    after = read_statistics(control.admin).clusters[cluster]
    assert after.counters["total"] - before == sent + 1
    assert after.counters["ok_2xx"] == sent + 1
    # What the gateway waited for Triton is less than what a caller waited for all of it.
    assert report["latency_ms"]["p50"] <= report["latency_ms"]["p95"] <= report["latency_ms"]["max"]
    assert report["from_sending_ms"]["p50"] <= report["latency_ms"]["p50"]
    assert report["digests"]["onnx"] == staged.onnx.sha256
    assert sum(row["answered"] for row in report["seconds"]) <= sent
    assert generators(os.getpid()) == []
    html = artifacts.read_bytes(load_test.report_html).decode()
    assert report["sentence"] in html
    assert "<script" not in html
    assert 'src="http' not in html
    assert AuditEntry.objects.filter(action__in=("load_test.pass", "load_test.fail")).count() == 1
    steps = [line.text for line in job.lines.all()]
    assert any(text.startswith("Second ") for text in steps), steps


def test_a_stopped_one_ends_within_two_seconds_and_leaves_nobody(
    live_fleet: Fleet, staged: ModelVersion
) -> None:
    load_test, job = ask(live_fleet, staged, seconds=60)

    def work() -> None:
        try:
            run_job(str(job.pk), run_load_test)
        finally:
            connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    eventually(lambda: Job.objects.get(pk=job.pk).step.startswith("Second "), 30)
    assert len(generators(os.getpid())) == 1
    asked = time.monotonic()
    jobs.cancel_job(job_id=job.pk, actor=live_fleet.sam)
    worker.join(10)
    took = time.monotonic() - asked
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert took < 2.0
    assert generators(os.getpid()) == []
    load_test.refresh_from_db()
    assert (load_test.passed, load_test.report) == (None, None)
    assert load_test.ended_at is not None


def test_a_killed_worker_leaves_no_generator_and_a_clear_word(
    live_fleet: Fleet, staged: ModelVersion, process_environment: dict[str, str]
) -> None:
    load_test, job = ask(live_fleet, staged, seconds=60)
    killed = subprocess.Popen(
        [sys.executable, killed_load_test.__file__, str(job.pk), "2"], env=process_environment
    )
    assert killed.wait(90) == -signal.SIGKILL
    eventually(lambda: generators(killed.pid) == [], 3)
    Job.objects.filter(pk=job.pk).update(lease_until=job.created_at)
    sweep()
    job.refresh_from_db()
    assert (job.state, job.error_code) == (JobState.ERRORED, "worker_lost")
    assert "worker was lost" in job.error_message
    load_test.refresh_from_db()
    assert load_test.ended_at is not None
    # The environment is free again.
    again, _ = ask(live_fleet, staged)
    assert again.pk != load_test.pk


def test_a_model_that_fails_is_a_verdict_with_its_words(
    live_fleet: Fleet, staged: ModelVersion, run_jobs: Jobs
) -> None:
    sample = json.loads(factories.recorded_sample(0.1))
    sample["request"]["inputs"][0]["shape"] = [1, 11]
    sample["request"]["inputs"][0]["data"] = [1.0] * 11
    ask(live_fleet, staged, pattern="step")
    staged.sample = factories.make_artifact(json.dumps(sample).encode(), "application/json")
    staged.save()
    (job,) = run_jobs()
    # Nothing is measured with a sample that the model does not take.
    assert (job.state, job.error_code) == (JobState.FAILED, "probe_failed")
    assert "answered 400" in job.error_message
    assert "does not fit the model" in job.error_hint
    LoadTest.objects.update(limit_p95_ms=0.001)
    staged.sample = factories.make_artifact(factories.recorded_sample(0.1), "application/json")
    staged.save()
    jobs.retry_job(job_id=job.pk, actor=live_fleet.sam)
    (job,) = run_jobs()
    assert job.state == JobState.SUCCEEDED
    assert job.result is not None
    assert job.result["passed"] is False
    assert LoadTest.objects.get().passed is False


def test_an_endpoint_that_does_not_serve_by_number_is_no_place(
    live_fleet: Fleet, staged: ModelVersion
) -> None:
    name = staged.model.name
    set_mode(environment="staging", model=name, mode="open", reason="Off.", actor=live_fleet.sam)
    with pytest.raises(Conflict) as refused:
        ask(live_fleet, staged)
    assert refused.value.code == "endpoint_not_normal"
    assert not LoadTest.objects.exists()
    other = factories.make_version(staged.model)
    with pytest.raises(Conflict) as refused:
        ask(live_fleet, other)
    assert refused.value.code == "version_not_ready"
