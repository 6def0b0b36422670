"""What a version was trained on, ready to be compared with."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.rules.telemetry.drift import Reference, reference_of
from deployments.selectors.telemetry.measured_endpoints import TrainedOn
from models_registry.models import Artifact, ModelVersion
from models_registry.services.reference_samples import (
    load_reference_sample,
    recorded_as_reference,
)


@dataclass(frozen=True, slots=True)
class Training:
    """The features of a version's training data; `titles` are what people call them."""

    rows: int
    features: tuple[Reference, ...]
    titles: dict[str, str]


def load_training(where: TrainedOn) -> Training | None:
    """Read it; None where the recorded request has too few rows to stand for training.

    Raises Conflict when the storage lost the file or holds other bytes.
    """
    if where.recorded_request:
        sample = recorded_as_reference(ModelVersion.objects.get(pk=where.version_id))
    else:
        sample = load_reference_sample(Artifact.objects.get(pk=where.artifact_id))
    if sample is None:
        return None
    return Training(
        rows=sample.rows,
        features=tuple(reference_of(one) for one in sample.features),
        titles={one.name: one.title for one in sample.features},
    )
