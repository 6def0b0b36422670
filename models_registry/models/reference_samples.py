"""What a version was trained on, as far as it is needed to see that its callers send other data."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from console.models import User
from models_registry.models.artifacts import Artifact
from models_registry.models.catalog import OfModelQuerySet
from models_registry.models.versions import ModelVersion


class ReferenceSampleQuerySet(OfModelQuerySet["ReferenceSample"]):
    model_path = "version__model__"


class ReferenceSample(models.Model):
    """Each feature's values of a version's training data; the newest one holds.

    `features` are {name, kind, values}: their names, "number" or "text", and how many values each
    has. The values themselves are the artifact, each feature by itself and in order of size, so
    that no row of the training data can be put together again from it.
    """

    version = models.ForeignKey(
        ModelVersion, on_delete=models.CASCADE, related_name="reference_samples"
    )
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="+")
    rows = models.PositiveIntegerField()
    features = models.JSONField(default=list)
    note = models.CharField(max_length=500, blank=True)
    recorded_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    recorded_at = models.DateTimeField(auto_now_add=True)
    replaced_at = models.DateTimeField(null=True, blank=True)

    objects = ReferenceSampleQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-recorded_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["version"],
                condition=models.Q(replaced_at__isnull=True),
                name="one_reference_sample_holds",
            )
        ]

    def __str__(self) -> str:
        return f"{self.version}: {self.rows} rows"
