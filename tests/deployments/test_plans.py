"""TensorRT plans: written down without a GPU, built where a node has one.

There is no TensorRT here: `trtexec_double` stands in for the program, at the process's edge.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from console.errors import Conflict, Invalid, NotAllowed, NotFound
from console.models import AuditEntry, Job, JobState
from console.services.jobs import cancel_job
from deployments import tasks
from deployments.models import Node, TensorRtPlan
from deployments.selectors.fleet.plans import state_of
from deployments.services.fleet.plans import request_plan
from models_registry.models import ModelVersion, VersionState
from models_registry.services import artifacts
from tests import factories
from tests.deployments import trtexec_double
from tests.deployments.conftest import Fleet
from tests.models_registry.api import Caller
from tests.models_registry.browsing import Visitor
from tests.models_registry.reports import reported

ADDRESS = "/models/fraud_detector/versions/1/plans/"


@pytest.fixture
def gpu(fleet_rows: Fleet) -> Fleet:
    Node.objects.update(gpus=[0])
    return fleet_rows


def run(plan: TensorRtPlan) -> TensorRtPlan:
    """Run the plan's job as the node's worker would."""
    assert plan.job is not None
    tasks.build_plan(str(plan.job.pk))
    return TensorRtPlan.objects.select_related("job", "plan", "node").get(pk=plan.pk)


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.django_db
def test_without_a_gpu_node_the_command_is_written_down_and_nothing_runs(
    fleet_rows: Fleet,
) -> None:
    version = reported()
    plan = request_plan(version=version, actor=fleet_rows.sam)
    assert (plan.job, plan.node, state_of(plan)) == (None, None, "needs_gpu")
    assert plan.detail.startswith("Needs a GPU node")
    assert "--maxShapes=features:16x10" in plan.command
    assert request_plan(version=version, actor=fleet_rows.sam).pk == plan.pk
    named = request_plan(version=version, node="local", actor=fleet_rows.sam)
    assert (named.node, named.job) == (fleet_rows.node, None)
    assert "local has no GPU" in named.detail
    assert not Job.objects.exists()
    assert AuditEntry.objects.filter(action="plan.request").count() == 2


@pytest.mark.django_db
def test_what_was_only_written_down_is_built_once_the_node_has_a_gpu(fleet_rows: Fleet) -> None:
    version = reported()
    written = request_plan(version=version, node="local", actor=fleet_rows.sam)
    elsewhere = request_plan(version=version, environment="staging", actor=fleet_rows.sam)
    assert "no ready node of staging has a GPU" in elsewhere.detail
    with pytest.raises(NotFound):
        request_plan(version=version, environment="nowhere", actor=fleet_rows.sam)
    Node.objects.update(gpus=[0])
    asked = request_plan(version=version, node="local", actor=fleet_rows.sam)
    assert asked.pk != written.pk
    assert asked.job is not None
    assert request_plan(version=version, node="local", actor=fleet_rows.sam).pk == asked.pk


@pytest.mark.django_db
def test_refusals_come_before_a_row(gpu: Fleet) -> None:
    version = reported()
    with pytest.raises(NotAllowed):
        request_plan(version=version, actor=factories.actor(factories.people().dana))
    with pytest.raises(NotFound):
        request_plan(version=version, node="elsewhere", actor=gpu.sam)
    with pytest.raises(Invalid) as invalid:
        request_plan(version=version, precision="int8", actor=gpu.sam)
    assert invalid.value.code == "int8_not_calibrated"
    draft = factories.make_version(state=VersionState.UPLOADED)
    with pytest.raises(Conflict) as refused:
        request_plan(version=draft, actor=gpu.sam)
    assert refused.value.code == "version_not_validated"
    assert not TensorRtPlan.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_gpu_node_builds_keeps_and_describes_the_plan(
    gpu: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = reported()
    on_path(monkeypatch, trtexec_double.install(tmp_path / "bin"))
    monkeypatch.setenv("COVENANT_SECRET_KEY", "not for a program that reads a stranger's file")
    asked = request_plan(version=version, environment="production", actor=gpu.sam)
    assert (asked.job.queue, asked.job.subject) == ("node.local", "fraud_detector v1 on local")
    assert request_plan(version=version, actor=gpu.sam).pk == asked.pk
    plan = run(asked)
    assert plan.job.state == JobState.SUCCEEDED, plan.job.error_message
    assert state_of(plan) == "built"
    assert artifacts.read_bytes(plan.plan).startswith(b"plan of ")
    assert plan.detail.startswith("Built by TensorRT 10.6 in ")
    assert plan.built_at is not None
    assert "Building the engine" in " ".join(plan.job.lines.values_list("text", flat=True))
    entry = AuditEntry.objects.get(action="plan.build")
    assert (entry.after["plan"], entry.after["tensorrt"]) == (plan.plan.sha256, "10.6")
    assert not list((settings.CONFIG.home / "work").glob("*"))
    # As if the worker had been killed between its last write and the job's ending.
    Job.objects.update(state=JobState.QUEUED, result=None)
    assert run(plan).plan_id == plan.plan_id
    # Nothing else refers to it, and it stays.
    assert not artifacts.discard(plan.plan)


@pytest.mark.parametrize(
    ("double", "code", "words"),
    [
        (None, "trtexec_missing", "no trtexec on its PATH"),
        ({"fault": "Network has dynamic inputs"}, "trtexec_failed", "Network has dynamic inputs"),
        ({"version": "110000"}, "precision_not_in_release", "TensorRT 11.0"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_what_goes_wrong_on_the_node_is_told_with_the_plan(
    gpu: Fleet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    double: dict[str, Any] | None,
    code: str,
    words: str,
) -> None:
    version = reported()
    if double is not None:
        on_path(monkeypatch, trtexec_double.install(tmp_path / "bin", **double))
    plan = run(request_plan(version=version, actor=gpu.sam))
    assert (plan.job.state, plan.job.error_code) == (JobState.FAILED, code)
    assert plan.job.error_hint
    assert words in plan.detail
    assert (state_of(plan), plan.plan) == ("failed", None)
    assert not list((settings.CONFIG.home / "work").glob("*"))
    # What failed may be asked for again.
    assert request_plan(version=version, actor=gpu.sam).pk != plan.pk


@pytest.mark.django_db(transaction=True)
def test_cancelling_ends_trtexec(
    gpu: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path(monkeypatch, trtexec_double.install(tmp_path / "bin", hang=True))
    plan = request_plan(version=reported(), actor=gpu.sam)

    def work() -> None:
        try:
            tasks.build_plan(str(plan.job.pk))
        finally:
            connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    deadline = time.monotonic() + 20
    while not Job.objects.filter(pk=plan.job.pk, step="Building the plan").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cancel_job(job_id=plan.job.pk, actor=gpu.sam)
    worker.join(timeout=15)
    assert not worker.is_alive()
    plan = TensorRtPlan.objects.select_related("job").get(pk=plan.pk)
    assert plan.job.state == JobState.CANCELLED
    assert "Cancelled" in plan.detail or "cancelled" in plan.detail
    assert not list((settings.CONFIG.home / "work").glob("*"))


@pytest.mark.django_db
def test_the_api_and_the_page_show_the_command_and_its_state(fleet_rows: Fleet) -> None:
    version = reported()
    sam, vic = factories.people().sam, factories.people().vic
    made = Caller(sam).post(ADDRESS, {"precision": "fp32", "workspace_mib": 512})
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["state"], body["node"], body["job"]) == ("needs_gpu", None, None)
    assert body["command"][0] == "trtexec"
    assert body["profile"]["inputs"]["features"]["opt"] == [16, 10]
    listed = Caller(vic).get(ADDRESS).json()["results"]
    assert [one["command_line"] for one in listed] == [" ".join(body["command"])]
    assert Caller(vic).post(ADDRESS, {}).status_code == 403
    wrong = Caller(sam).post(ADDRESS, {"precision": "fp8"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/precision")

    address = "/panels/plans/fraud_detector/1/"
    shown = Visitor(sam).get(address, part=True)
    for words in ("needs a GPU node", "--maxShapes=features:16x10", "workspace:512", "Write the"):
        assert words in shown, words
    assert address in shown.forms
    assert address not in Visitor(vic).get(address, part=True).forms
    assert (
        address in Visitor(vic).get("/models/fraud_detector/versions/1/").response.content.decode()
    )
    went = Visitor(sam).post(address, {"precision": "fp16", "workspace_mib": "1024"})
    assert went.address == "/models/fraud_detector/versions/1/"
    assert TensorRtPlan.objects.filter(version=version).count() == 2
    refused = Visitor(sam)
    for words in ("lots", "9" * 5000):
        refused.post(address, {"precision": "fp16", "workspace_mib": words})
        assert "cannot be asked for" in refused.said()
    assert ModelVersion.objects.count() == 1
