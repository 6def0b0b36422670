"""Training samples that fit a version, for tests of drift."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from models_registry.models import ModelVersion, ReferenceSample
from models_registry.services.reference_samples import record_reference_sample
from tests import factories


def rows_of(version: ModelVersion, count: int = 200, shift: float = 0.0) -> bytes:
    """A v2 request of so many rows that fits the version's inputs."""
    source = np.random.default_rng(11)
    inputs = []
    for spec in version.facts["inputs"]:
        shape = [count, *[int(size) for size in spec["shape"][1:]]]
        data = (source.normal(size=shape) + shift).round(4).reshape(-1).tolist()
        inputs.append({"name": spec["name"], "datatype": "FP32", "shape": shape, "data": data})
    return json.dumps({"inputs": inputs}).encode()


def record_rows(version: ModelVersion, **options: Any) -> ReferenceSample:
    return record_reference_sample(
        version=version,
        data=rows_of(version, **options),
        actor=factories.actor(version.model.owner),
    )
