"""Shapes that Triton serves otherwise than a graph has them: what is batch alone, plain numbers."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto

from console.models import Job, JobState
from deployments.services.fleet.deploys import deploy_release
from deployments.services.trials.samples import try_version
from models_registry.exporting.protocol import ExportFacts
from models_registry.models import VersionState
from models_registry.rules import tensors
from models_registry.services.contracts import propose_document
from tests import factories
from tests.deployments.conftest import Fleet
from tests.models_registry.model_files import graph, node, value
from tests.models_registry.test_optimisations_jobs import validated


def labels() -> bytes:
    """x FP32 [N, 3] -> label INT64 [N], as classifiers give it."""
    model = graph(
        [node("ArgMax", ["x"], ["label"], axis=1, keepdims=0)],
        [value("x", ["N", 3])],
        [value("label", ["N"], TensorProto.INT64)],
    )
    return bytes(model.SerializeToString())


def scaled() -> bytes:
    """x FP32 [4] and a plain number -> their product, and its sum as a plain number."""
    model = graph(
        [node("Mul", ["x", "by"], ["y"]), node("ReduceSum", ["y"], ["total"], keepdims=0)],
        [value("x", [4]), value("by", [])],
        [value("y", [4]), value("total", [])],
        {"unused": np.float32(0)},
    )
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("data", "graph_shapes", "served"),
    [
        (labels(), {"x": (-1, 3), "label": (-1,)}, {"x": ["n", 3], "label": ["n", 1]}),
        (
            scaled(),
            {"x": (4,), "by": (), "y": (4,), "total": ()},
            {"x": [4], "by": [1], "y": [4], "total": [1]},
        ),
    ],
)
def test_a_graph_is_served_in_shapes_that_triton_has(
    data: bytes,
    graph_shapes: dict[str, tuple[int, ...]],
    served: dict[str, list[int | str]],
    live_fleet: Fleet,
    run_jobs: Callable[..., list[Job]],
) -> None:
    version = validated(data, f"m_{uuid.uuid4().hex[:12]}")
    assert version.state == VersionState.VALIDATED, version.rejection
    facts = ExportFacts.from_json(version.facts)
    assert {spec.name: spec.shape for spec in (*facts.inputs, *facts.outputs)} == graph_shapes
    interface = propose_document(version=version)["interface"]
    promised = {one["name"]: one["dims"] for one in interface["inputs"] + interface["outputs"]}
    assert promised == served

    release = factories.make_release(version, live_fleet.staging)
    deploy_release(release_id=release.pk, actor=live_fleet.sam)
    assert [job.state for job in run_jobs()] == [JobState.SUCCEEDED]
    trial = try_version(version=version, environment=live_fleet.staging, actor=live_fleet.sam)

    assert trial.comparison is not None
    assert trial.comparison.within
    assert {one["name"]: len(one["shape"]) for one in trial.outputs} == {
        spec.name: len(served[spec.name]) for spec in facts.outputs
    }


def test_only_what_has_no_axis_of_its_own_gets_one() -> None:
    row, number, column = tensors.parse(
        [
            {"name": "row", "dtype": "FP32", "dims": ["batch"]},
            {"name": "number", "dtype": "FP32", "dims": []},
            {"name": "column", "dtype": "FP32", "dims": ["batch", 1]},
        ]
    )
    assert tensors.as_served(row, batched=True).dims == ("batch", "")
    assert tensors.as_served(row, batched=False) == row
    assert tensors.as_served(number, batched=False).shape == (1,)
    assert tensors.as_served(column, batched=True) == column
