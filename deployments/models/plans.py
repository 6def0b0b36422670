"""TensorRT plans: built on the GPU node that will run them, for that GPU and TensorRT alone."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from console.models import Job, User
from deployments.models.fleet import Node
from models_registry.models import Artifact, ModelVersion
from models_registry.models.catalog import OfModelQuerySet


class TensorRtPlanQuerySet(OfModelQuerySet["TensorRtPlan"]):
    model_path = "version__model__"


class TensorRtPlan(models.Model):
    """A plan asked for, with the command that builds it; `plan` once a node has built it.

    `profile` is {"precision", "workspace_mib", "inputs": {name: {"min", "opt", "max": [sizes]}}};
    `detail` says why there is none yet.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="+")
    node = models.ForeignKey(
        Node, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    profile = models.JSONField()
    command = models.JSONField()
    plan = models.ForeignKey(
        Artifact, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    detail = models.TextField(blank=True)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    requested_at = models.DateTimeField(auto_now_add=True)
    built_at = models.DateTimeField(null=True, blank=True)

    objects = TensorRtPlanQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["-requested_at"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["version", "-requested_at"], name="tensorrt_plan_recent")
        ]

    def __str__(self) -> str:
        return f"TensorRT plan of {self.version_id}"
