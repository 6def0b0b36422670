"""Lighter variants where they are used: on a real Triton, and from the command line."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest

from console.adapters.triton import TritonClient
from console.models import Job, JobState
from console.services.tokens import create_token
from deployments.models import Placement, PlacementState
from deployments.services.fleet.deploys import deploy_release
from models_registry.models import ModelVersion, VersionState
from models_registry.services import artifacts
from tests import factories, stack
from tests.deployments.conftest import Fleet
from tests.deployments.test_cli import Run, run  # noqa: F401 - a fixture
from tests.models_registry.reports import reported
from tests.models_registry.test_optimisations_jobs import (
    TOKENS,
    embeddings,
    validated,
    variant_of,
)


def test_variants_are_released_deployed_and_answer_on_triton_beside_their_original(
    live_fleet: Fleet, run_jobs: Callable[..., list[Job]], triton: stack.RunningTriton
) -> None:
    name = f"m_{uuid.uuid4().hex[:12]}"
    origin = validated(embeddings(), name, inputs=TOKENS)
    family = [origin, *(variant_of(origin, how) for how in ("graph", "int8"))]
    for version in family:
        assert version.state == VersionState.VALIDATED, version.rejection
        release = factories.make_release(version, live_fleet.staging)
        assert release.digests["onnx"] == version.onnx.sha256
        deploy_release(release_id=release.pk, actor=live_fleet.sam)
        for job in run_jobs():
            assert job.state == JobState.SUCCEEDED, job.error_message
    assert Placement.objects.filter(state=PlacementState.READY).count() == len(family)
    sample = json.loads(artifacts.read_bytes(origin.sample))
    inputs = sample["request"]["inputs"]
    expected = sample["expected"]["outputs"][0]["data"]
    with TritonClient(triton.grpc, repository_key=triton.key) as client:
        for placement in Placement.objects.select_related("deployment__generation").all():
            number = placement.deployment.release.version.number
            model = placement.deployment.generation.triton_model
            answer = client.infer(model, number, inputs)
            assert answer.outputs[0]["data"] == pytest.approx(expected, abs=0.05)


@pytest.mark.django_db(transaction=True)
def test_the_command_line_asks_for_variants_and_plans(
    run: Run,
    live_server: object,
    fleet_rows: Fleet,
) -> None:
    reported()
    tokens = {
        user.username: create_token(
            name="test", scopes=["read", "write", "operate"], actor=factories.actor(user)
        )[1]
        for user in (factories.people().dana, factories.people().sam)
    }
    url = str(live_server)

    made = run(
        "--url", url, "--token", tokens["dana"],
        "optimise", "fraud_detector", "1", "--as", "fp16", "--no-wait", "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert (made.body["number"], made.body["derived_from"]) == (2, 1)
    assert ModelVersion.objects.get(number=2).optimisation == "fp16"
    refused = run(
        "--url", url, "--token", tokens["dana"],
        "optimise", "fraud_detector", "2", "--as", "int8", "--no-wait",
    )  # fmt: skip
    assert refused.code == 1
    assert "has been validated" in refused.err
    planned = run("--url", url, "--token", tokens["sam"], "plan", "fraud_detector", "1")
    assert planned.code == 0, planned.err
    assert planned.out.startswith("needs_gpu: Needs a GPU node")
    assert "trtexec --onnx=model.onnx" in planned.out
